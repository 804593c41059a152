"""A frame of `rmq top` as text, and as JSON. Pure: figures in, lines out."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rmqspark.cli.slaves import SLAVE_COLUMNS, slave_document, slave_row
from rmqspark.cli.terminal.output import safe, table_text
from rmqspark.display import time_text
from rmqspark.words import duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.watching.rates import BrokerRates, Rates, ReaderRates, TopicRates

_LEAST_ROWS = 3  # of a table that has so many, however low the terminal is
_ANY_HEIGHT = 10_000


class Sort(StrEnum):
    """What comes first. Each has its key: its first letter."""

    LAG = "lag"
    RATE = "rate"
    DRAIN = "drain"
    NAME = "name"


def readers_sorted(readers: Sequence[ReaderRates], sort: Sort) -> list[ReaderRates]:
    """The largest first; who does not catch up has the longest to drain, and what is unknown comes last."""
    match sort:
        case Sort.LAG:
            return sorted(readers, key=lambda each: (each.lag is None, -(each.lag or 0), each.name))
        case Sort.RATE:
            return sorted(readers, key=lambda each: (-(each.read_per_second or 0), each.name))
        case Sort.DRAIN:
            return sorted(readers, key=lambda each: (each.gains is None, each.gains, -(each.drain_s or 0), each.name))
        case Sort.NAME:
            return sorted(readers, key=lambda each: each.name)


def topics_sorted(topics: Sequence[TopicRates], sort: Sort) -> list[TopicRates]:
    """By rate, unless all goes by name."""
    if sort is Sort.NAME:
        return sorted(topics, key=lambda each: each.name)
    return sorted(topics, key=lambda each: (-(each.in_per_second or 0), -each.messages, each.name))


def frame_text(rates: Rates, sort: Sort, height: int = _ANY_HEIGHT, keys: str = "") -> str:
    """The whole frame, in at most `height` lines where that is possible: long tables say how many rows are left out."""
    head = [*_headlines(rates, sort), *([keys] if keys else []), ""]
    brokers = _table(_BROKERS, [_broker(each) for each in rates.brokers], _ANY_HEIGHT)
    if slaves := [slave_row(slave) for each in rates.brokers for slave in each.slaves]:
        brokers += ["", *_table(SLAVE_COLUMNS, slaves, _ANY_HEIGHT)]
    gaps = [safe(f"! {gap}") for gap in rates.unknown]
    tables: list[tuple[Sequence[str], list[Sequence[Any]]]] = [
        (_TOPICS, [_topic(each) for each in topics_sorted(rates.topics, sort)]),
        (_READERS, [_reader(each) for each in readers_sorted(rates.readers, sort)]),
        (
            _TRANSACTIONS,
            [(t.transactional_id, str(t.version), t.state, duration(t.age_ms), t.rows) for t in rates.transactions],
        ),
    ]
    shown = [(columns, rows) for columns, rows in tables if rows]
    room = height - len(head) - len(brokers) - len(gaps) - sum(1 for _ in shown)
    shares = _shares([len(rows) + _OVERHEAD for _, rows in shown], room)
    parts = [_table(columns, rows, lines - _OVERHEAD) for (columns, rows), lines in zip(shown, shares, strict=True)]
    return "\n".join([*head, *gaps, *brokers, *(line for part in parts for line in ("", *part))])


_BROKERS = ("broker", "cluster", "in/s", "out/s", "disk", "state")
_TOPICS = ("topic", "in/s", "messages")
_READERS = ("group or query", "state", "lag", "read/s", "behind", "caught up in")
_TRANSACTIONS = ("open transaction", "version", "state", "age", "rows")
_OVERHEAD = 2  # lines of a table's heading


def _headlines(rates: Rates, sort: Sort) -> tuple[str, str]:
    halves = rates.half_messages
    flow = [
        time_text(rates.at_ms),
        f"in {_rate(rates.in_per_second) or 'unknown'}/s",
        f"out {_rate(rates.out_per_second) or 'unknown'}/s",
        f"lag {'unknown' if rates.lag is None else f'{rates.lag:,}'}",
    ]
    rest = [
        f"half messages {'unknown' if halves is None else f'{halves:,}'}",
        f"open transactions {len(rates.transactions):,}",
        f"sorted by {sort}",
    ]
    return "  ".join(flow), "  ".join(rest)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """So many lines for each: what it wants, or an even part of what there is; what one leaves, others get."""
    shares = [0] * len(wanted)
    left = max(room, len(wanted) * (_LEAST_ROWS + _OVERHEAD))
    for rank, index in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        shares[index] = min(wanted[index], left // (len(wanted) - rank))
        left -= shares[index]
    return shares


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], most_rows: int) -> list[str]:
    if len(rows) <= most_rows:
        return table_text(columns, rows).splitlines()
    kept = max(1, most_rows - 1)
    return [*table_text(columns, rows[:kept]).splitlines(), f"... and {len(rows) - kept:,} more"]


def _broker(broker: BrokerRates) -> tuple[Any, ...]:
    disk = None if broker.disk_used is None else f"{broker.disk_used:.0%}"
    if disk and broker.disk_free_bytes is not None:
        disk += f", {size(broker.disk_free_bytes)} free"
    return broker.name, broker.cluster, _rate(broker.in_per_second), _rate(broker.out_per_second), disk, _state(broker)


def _state(broker: BrokerRates) -> str:
    if not broker.silence:
        return "ok"
    return "does not answer" + (f"; figures of {duration(broker.age_ms)} ago" if broker.age_ms is not None else "")


def _topic(topic: TopicRates) -> tuple[Any, ...]:
    return topic.name, _rate(topic.in_per_second), topic.messages


def _reader(reader: ReaderRates) -> tuple[Any, ...]:
    behind = None if reader.behind_ms is None else duration(reader.behind_ms)
    kind = f"query, {reader.state}" if reader.is_query else "group"
    return reader.name, kind, reader.lag, _rate(reader.read_per_second), behind or "-", _drain(reader)


def _drain(reader: ReaderRates) -> str:
    if reader.lag == 0:
        return "-"
    if reader.drain_s is not None:
        return duration(reader.drain_s * 1000)
    return "unknown" if reader.gains is None else "does not catch up"


def _rate(per_second: float | None) -> str | None:
    return None if per_second is None else f"{per_second:,.1f}"


def document(rates: Rates, sort: Sort) -> dict[str, Any]:
    """All of it; rates are null where they are unknown."""
    return {
        "at": rates.at_ms,
        "inPerSecond": rates.in_per_second,
        "outPerSecond": rates.out_per_second,
        "lag": rates.lag,
        "halfMessages": rates.half_messages,
        "brokers": [
            {
                "brokerName": each.name,
                "cluster": each.cluster,
                "address": each.address,
                "inPerSecond": each.in_per_second,
                "outPerSecond": each.out_per_second,
                "diskUsed": each.disk_used,
                "diskFreeBytes": each.disk_free_bytes,
                "slaves": [slave_document(slave) for slave in each.slaves],
                "problem": each.silence or None,
                "ageSeconds": None if each.age_ms is None else each.age_ms / 1000,
            }
            for each in rates.brokers
        ],
        "topics": [
            {"topic": each.name, "inPerSecond": each.in_per_second, "messages": each.messages}
            for each in topics_sorted(rates.topics, sort)
        ],
        "readers": [
            {
                "name": each.name,
                "queryId": each.query_id or None,
                "state": each.state or None,
                "lag": each.lag,
                "readPerSecond": each.read_per_second,
                "secondsBehind": None if each.behind_ms is None else each.behind_ms // 1000,
                "caughtUpInSeconds": each.drain_s,
                "gains": each.gains,
            }
            for each in readers_sorted(rates.readers, sort)
        ],
        "transactions": [
            {
                "transactionalId": each.transactional_id,
                "version": each.version,
                "state": each.state,
                "ageSeconds": each.age_ms // 1000,
                "rows": each.rows,
            }
            for each in rates.transactions
        ],
        "unknown": list(rates.unknown),
    }
