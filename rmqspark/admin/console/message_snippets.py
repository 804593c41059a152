"""The code that gives the messages on the screen, whichever page of them it is. Pure.

What is shown of a queue lies side by side in it, but for what a filter has left out. So Spark reads just these
stretches; `rmq consume` and `rmq message query`, which know no queues, read what lies between two times, of which jq
keeps the stretches.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from rmqspark.admin.console.message_filters import Asked
from rmqspark.admin.console.snippets import Snippets, Whereabouts, python_text
from rmqspark.admin.reads.messages import Wanted
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.admin.values import time_of

_KEPT: Final = "$s != null and .queueOffset >= $s[0] and .queueOffset < $s[1]"
_PLACE: Final = r'"\(.brokerName)/\(.queueId)"'


_MOST: Final = "--count=10000"  # that a query by key gives: more than lie between two times, as a rule


class _Stretch(NamedTuple):
    """The offsets of a queue between which all that is shown of it lies."""

    broker_name: str
    queue_id: int
    first: int
    end: int


def message_snippets(
    where: Whereabouts, asked: Asked, shown: Sequence[MessageView], limit: int, cursor: str | None = None
) -> Snippets:
    """Of the page that was asked for so, and shows these."""
    asked, stretches = asked.as_looked_for(), _stretches(shown)
    return Snippets(
        _cli(where, asked, shown, stretches, limit),
        _rest(where, asked, limit, cursor),
        _spark(where, asked, stretches, len(shown) or limit),
    )


def _stretches(shown: Sequence[MessageView]) -> list[_Stretch]:
    offsets: dict[tuple[str, int], list[int]] = {}
    for each in shown:
        offsets.setdefault((each.broker_name, each.queue_id), []).append(each.queue_offset)
    return [_Stretch(*queue, min(found), max(found) + 1) for queue, found in sorted(offsets.items())]


# --- Spark -----------------------------------------------------------------------------------------------------------


def _spark(where: Whereabouts, asked: Asked, stretches: Sequence[_Stretch], most: int) -> str:
    """Where nothing is shown, what the filters say: rows may have come since."""
    wanted = asked.wanted
    steps = []
    if asked.key:
        condition = f"array_contains(split(keys, ' '), {_sql_text(asked.key)})"
        steps.append(f"rows = rows.where({python_text(condition)})")
    if wanted.body:
        condition = f"contains(body, cast({_sql_text(wanted.body)} as binary))"
        steps.append(f"rows = rows.where({python_text(condition)})")
    steps.append(f"rows = rows.orderBy(rows.storeTimestamp{'.desc()' if wanted.newest_first else ''})")
    if not stretches:
        times = {"startingTimestamp": wanted.from_, "endingTimestamp": wanted.to}
        return where.spark(steps, most, subscribe=wanted.topic, tags=wanted.tags, sql=wanted.sql, **times)
    firsts, ends = _by_broker(stretches, "first"), _by_broker(stretches, "end")
    return where.spark(
        steps,
        most,
        assign=_by_topic(wanted.topic, {broker: [int(each) for each in queues] for broker, queues in firsts.items()}),
        startingOffsets=_by_topic(wanted.topic, firsts),
        endingOffsets=_by_topic(wanted.topic, ends),
        tags=wanted.tags,
        sql=wanted.sql,
    )


def _by_broker(stretches: Sequence[_Stretch], bound: Literal["first", "end"]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in stretches:
        found.setdefault(each.broker_name, {})[str(each.queue_id)] = each.first if bound == "first" else each.end
    return found


def _by_topic(topic: str, brokers: Mapping[str, object]) -> str:
    return json.dumps({topic: brokers}, separators=(",", ":"), ensure_ascii=False)


def _sql_text(text: str) -> str:
    """A literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# --- the command line ------------------------------------------------------------------------------------------------


def _cli(
    where: Whereabouts,
    asked: Asked,
    shown: Sequence[MessageView],
    stretches: Sequence[_Stretch],
    limit: int,
) -> str:
    wanted = asked.wanted
    if asked.key and not shown:
        return where.cli("message", "query", wanted.topic, f"--key={asked.key}", *_times(wanted.from_, wanted.to))
    return _between(where, asked, shown, stretches) if shown else _first(where, wanted, limit)


def _first(where: Whereabouts, wanted: Wanted, limit: int) -> str:
    """What the filters say. `rmq consume` reads on from the oldest: the newest are the last that it prints."""
    count = [] if wanted.newest_first or wanted.body else [f"--count={limit}"]
    offset = [f"--offset={wanted.offset}"] if wanted.offset else []
    times = _times(wanted.from_, wanted.to)
    command = where.cli("consume", wanted.topic, *offset, *times, *_filters(wanted), *count, "--json")
    if wanted.body:
        command += f" | jq -c {shlex.quote(f'select(true{_has(wanted)})')}"
    return f"{command} | tail -n {limit}" if wanted.newest_first else command


def _between(where: Whereabouts, asked: Asked, shown: Sequence[MessageView], stretches: Sequence[_Stretch]) -> str:
    stored_ms = [each.store_timestamp for each in shown]
    times = _times(time_of(min(stored_ms)), time_of(max(stored_ms) + 1))
    kept = {f"{each.broker_name}/{each.queue_id}": [each.first, each.end] for each in stretches}
    table = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
    only = f"select({table}[{_PLACE}] as $s | {_KEPT}{_has(asked.wanted)})"
    topic = asked.wanted.topic
    if asked.key:  # one document, where the other prints a line a message
        command = where.cli("message", "query", topic, f"--key={asked.key}", *times, _MOST, "--json")
        only = f".[] | {only}"
    else:
        command = where.cli("consume", topic, *times, *_filters(asked.wanted), "--json")
    return f"{command} | jq -c {shlex.quote(only)}"


def _has(wanted: Wanted) -> str:
    """A condition of jq's, behind others: in bodies that are text."""
    return f' and ((.body // "") | contains({json.dumps(wanted.body)}))' if wanted.body else ""


def _filters(wanted: Wanted) -> list[str]:
    return _flags({"--tags": wanted.tags, "--sql": wanted.sql})


def _times(from_: str | None, to: str | None) -> list[str]:
    return _flags({"--from": from_, "--to": to})


def _flags(given: Mapping[str, str | None]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items() if value]


# --- REST ------------------------------------------------------------------------------------------------------------


def _rest(where: Whereabouts, asked: Asked, limit: int, cursor: str | None) -> str:
    wanted = asked.wanted
    steps = ("topics", wanted.topic, "messages")
    if asked.key:
        return where.rest(*steps, key=asked.key, from_=wanted.from_, to=wanted.to, limit=limit, cursor=cursor)
    return where.rest(
        *steps,
        queue=wanted.queue,
        offset=wanted.offset,
        from_=wanted.from_,
        to=wanted.to,
        tags=wanted.tags,
        sql=wanted.sql,
        body=wanted.body,
        newest="true" if wanted.newest_first else None,
        limit=limit,
        cursor=cursor,
    )
