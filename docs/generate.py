"""Writes the tables of the docs from the settings and options themselves: `python docs/generate.py [--check]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rmqspark.admin.app import make_app
from rmqspark.admin.config import AdminConfig
from rmqspark.auth.config import AuthConfig
from rmqspark.auth.rights import RIGHTS, in_words
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.families import FAMILIES
from rmqspark.clock import SystemClock
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.protocol.access_classes import ACCESS
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.limits import Limits
from rmqspark.settings import describe
from rmqspark.sink.option_table import SINK_OPTIONS
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.store.config import StoreConfig

AUTH = {info.name for info in describe(AuthConfig)}  # of brokers and name servers: a table of its own
KINDS = {"broker": BrokerConfig, "store": StoreConfig, "namesrv": NamesrvConfig, "limits": Limits}


def table(kind: type) -> str:
    """One Markdown row a setting: name, default with unit, meaning."""
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for info in describe(kind):
        if kind is not AuthConfig and info.name in AUTH:
            continue
        default = info.default_text
        shown = "–" if default is None else f"`{default}`" + (f" {info.unit}" if info.unit else "")
        live = ". *Live*" if info.live else ""
        rows.append(f"| `{info.name}` | {shown} | {info.meaning[0].upper()}{info.meaning[1:].rstrip('.')}{live} |")
    return "\n".join(rows)


def routes() -> str:
    """One Markdown row a request of REST: what it is, and what it does."""
    rows = ["| request | does |", "| --- | --- |"]
    with tempfile.TemporaryDirectory() as directory:
        config = AdminConfig(action_log=str(Path(directory, "actions.jsonl")), console=False)
        paths = make_app(config, "127.0.0.1:9876", SystemClock(), {}).openapi()["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            rows.append(f"| `{method.upper()} {path}` | {' '.join(described['description'].split())} |")
    return "\n".join(rows)


def metrics(*, ours: bool) -> str:
    """One Markdown row a metric: name, type, labels, meaning."""
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for family in FAMILIES:
        if family.is_ours == ours:
            labels = " ".join(f"`{label}`" for label in family.labels) or "–"
            name = f"`{family.exposed}`" + (f" · `{family.alias}`" if family.alias else "")
            rows.append(f"| {name} | {family.kind} | {labels} | {family.meaning} |")
    return "\n".join(rows)


NAME_SERVERS = frozenset(
    {*range(100, 107), 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904}
)
CLIENTS = frozenset({39, 40, 220, 221, 326})
BROKERS_AND_CLIENTS = frozenset({307, 309})


def requests() -> str:
    """One Markdown row a request: its class, what users need for it, and who is asked."""
    rows = ["| code | request | right | of users it takes | asked of |", "| --- | --- | --- | --- | --- |"]
    for code in sorted(RequestCode):
        told = asked_of(code)
        needs = "–" if told == "client" else in_words(RIGHTS.get(code))
        rows.append(f"| {code.value} | `{code.name}` | {ACCESS[code].value} | {needs} | {told} |")
    return "\n".join(rows)


def asked_of(code: int) -> str:
    if code in BROKERS_AND_CLIENTS:
        return "broker, client"
    return "name server" if code in NAME_SERVERS else "client" if code in CLIENTS else "broker"


def tables() -> dict[str, dict[str, str]]:
    """The tables of each page, by the name between their markers."""
    return {
        "operations.md": {
            **{f"settings: {name}": table(kind) for name, kind in KINDS.items()},
            "settings: access": table(AuthConfig),
            "metrics: rocketmq": metrics(ours=False),
            "metrics: ours": metrics(ours=True),
        },
        "wire-format.md": {"requests: all": requests()},
        "rest.md": {"rest: routes": routes(), "settings: admin": table(AdminConfig)},
        "spark.md": {f"options: {options.owner}": options.markdown() for options in (SOURCE_OPTIONS, SINK_OPTIONS)},
    }


def renewed(page: str, made: dict[str, str]) -> str:
    """The page with each table between its markers made anew."""
    for marker, content in made.items():
        begin, end = f"<!-- {marker} -->", f"<!-- end: {marker.split()[-1]} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    for name, made in tables().items():
        path = Path(__file__).with_name(name)
        page = path.read_text(encoding="utf-8")
        if "--check" not in sys.argv[1:]:
            path.write_text(renewed(page, made), encoding="utf-8")
        elif renewed(page, made) != page:
            sys.exit(f"docs/{name} does not show what there is today. Mend it with: make fix")


if __name__ == "__main__":
    main()
