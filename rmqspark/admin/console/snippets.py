"""The code that gives the rows on the screen: in Spark, on the command line, through REST. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from rmqspark.admin.reads.messages import Wanted


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

    def spark(self, topic: str, **options: str | None) -> str:
        """A batch read, in Python."""
        lines = [
            "rows = (",
            '    spark.read.format("rmq")',
            _option("namesrv", self.namesrv),
            _option("subscribe", topic),
        ]
        lines += [_option(name, value) for name, value in options.items() if value]
        return "\n".join([*lines, "    .load()", ")", "rows.show(truncate=False)"])


def messages(where: Whereabouts, wanted: Wanted, key: str | None, limit: int, cursor: str | None = None) -> Snippets:
    """The browser of a topic's messages. Only REST knows pages: what Spark and the command line have is the first."""
    if key:
        return Snippets(
            where.cli("message", "query", wanted.topic, "--key", key, *_times(wanted)),
            where.rest("topics", wanted.topic, "messages", key=key, from_=wanted.from_, to=wanted.to, limit=limit),
            where.spark(wanted.topic, **_spark_times(wanted)).replace(
                "rows.show", f"rows = rows.where(rows.keys.contains({json.dumps(key)}))\nrows.show"
            ),
        )
    given = {"offset": wanted.offset, "from_": wanted.from_, "to": wanted.to, "tags": wanted.tags, "sql": wanted.sql}
    newest = "true" if wanted.newest_first else None
    return Snippets(
        _consume(where, wanted, limit),
        where.rest(
            "topics",
            wanted.topic,
            "messages",
            queue=wanted.queue,
            **given,
            newest=newest,
            limit=limit,
            cursor=cursor,
        ),
        _spark_rows(where, wanted, limit),
    )


def _consume(where: Whereabouts, wanted: Wanted, limit: int) -> str:
    """`rmq consume` reads on from the oldest and knows no queues: the newest are the last that it prints."""
    is_cut = not wanted.newest_first and not wanted.queue
    count = [f"--count={limit}"] if is_cut else []
    command = where.cli(
        "consume", wanted.topic, *_offsets(wanted), *_times(wanted), *_filters(wanted), *count, "--json"
    )
    if wanted.queue:
        broker, _, number = wanted.queue.rpartition("/")
        condition = f".queueId == {number or 0}" + (f" and .brokerName == {json.dumps(broker)}" if broker else "")
        command += f" | jq -c {shlex.quote(f'select({condition})')}"
    return command if is_cut else f"{command} | {'tail' if wanted.newest_first else 'head'} -n {limit}"


def _spark_rows(where: Whereabouts, wanted: Wanted, limit: int) -> str:
    text = where.spark(wanted.topic, tags=wanted.tags, sql=wanted.sql, **_spark_times(wanted))
    steps = []
    if wanted.queue:
        broker, _, number = wanted.queue.rpartition("/")
        condition = f"queueId = {number}" + (f" AND brokerName = '{broker}'" if broker else "")
        steps.append(f"rows = rows.where({json.dumps(condition)})")
    if wanted.offset:
        begin, colon, end = wanted.offset.partition(":")
        bounds = [f"queueOffset >= {begin}"] if begin.isdigit() else []
        bounds += [f"queueOffset < {end}"] if colon and end.isdigit() else []
        steps += [f"rows = rows.where({json.dumps(' AND '.join(bounds))})"] if bounds else []
    order = "rows.storeTimestamp.desc()" if wanted.newest_first else "rows.storeTimestamp"
    steps.append(f"rows = rows.orderBy({order}).limit({limit})")
    return text.replace("rows.show", "\n".join([*steps, "rows.show"]))


def _option(name: str, value: str) -> str:
    return f"    .option({json.dumps(name)}, {json.dumps(value, ensure_ascii=False)})"


def _spark_times(wanted: Wanted) -> dict[str, str | None]:
    return {"startingTimestamp": wanted.from_, "endingTimestamp": wanted.to}


def _times(wanted: Wanted) -> list[str]:
    return _flags({"--from": wanted.from_, "--to": wanted.to})


def _offsets(wanted: Wanted) -> list[str]:
    return [f"--offset={wanted.offset}"] if wanted.offset else []


def _filters(wanted: Wanted) -> list[str]:
    return _flags({"--tags": wanted.tags, "--sql": wanted.sql})


def _flags(given: Mapping[str, str | None]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items() if value]
