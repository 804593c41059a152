"""The code that gives the rows on the screen: in Spark, on the command line, through REST. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Snippets:
    """Each is whole, and runs as it is; `spark` is "" where Spark has no such view."""

    cli: str
    rest: str
    spark: str = ""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What a snippet names: the name servers, the URL of this console, and whether it asks for a token."""

    namesrv: str
    url: str
    asks_for_token: bool

    def cli(self, *words: str) -> str:
        return shlex.join(["rmq", *words, "--namesrv", self.namesrv])

    def rest(self, *steps: str, **query: str | int | None) -> str:
        path = "/".join(quote(step, safe="") for step in steps)
        given = urlencode({name.rstrip("_"): value for name, value in query.items() if value not in (None, "")})
        url = f"{self.url}/api/v1/{path}" + (f"?{given}" if given else "")
        header = '-H "Authorization: Bearer $RMQ_READ_TOKEN" ' if self.asks_for_token else ""
        return f"curl -s {header}{shlex.quote(url)}"

    def spark(self, steps: Sequence[str] = (), most: int = 20, **options: str | None) -> str:
        """A batch read, in Python, and what is done with its rows, of which it shows so many."""
        lines = ["rows = (", '    spark.read.format("rmq")', _option("namesrv", self.namesrv)]
        lines += [_option(name, value) for name, value in options.items() if value]
        return "\n".join([*lines, "    .load()", ")", *steps, f"rows.show({most}, truncate=False)"])


def _option(name: str, value: str) -> str:
    return f"    .option({python_text(name)}, {python_text(value)})"


def python_text(text: str) -> str:
    """A literal of Python's: JSON's, but for what that writes as two halves."""
    return json.dumps(text, ensure_ascii=False)
