"""What goes on in a cluster, from two looks at it: rates, lags, and when who is behind will have caught up. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.administration.replicas import SlaveStatus
from rmqspark.client.watching.snapshots import is_users

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqspark.client.spark.query_view import QueryView
    from rmqspark.client.watching.snapshots import BrokerSnapshot, Snapshot
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.bodies.txn import TxnState


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """`in_per_second` and `out_per_second` are messages; None where they are unknown, as of a broker that does not
    answer: then `silence` says why, and the other figures are `age_ms` old (None where it never answered). So old are
    `slaves`, too."""

    name: str
    cluster: str
    address: str
    in_per_second: float | None
    out_per_second: float | None
    disk_used: float | None
    disk_free_bytes: int | None
    silence: str
    age_ms: int | None
    slaves: tuple[SlaveStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRates:
    """`messages` can be read now. Of brokers that do not answer they are counted as they were, and not in the rate."""

    name: str
    in_per_second: float | None
    messages: int


@dataclass(frozen=True, slots=True)
class ReaderRates:
    """A group, or a Spark query (`query_id` set). `drain_s`: seconds until it has caught up if all goes on so, 0 where
    it has; None where that is unknown, or it does not gain (`gains` says which: None is unknown)."""

    name: str
    state: str
    lag: int | None
    read_per_second: float | None
    drain_s: int | None
    gains: bool | None
    behind_ms: int | None = None
    query_id: str = ""

    @property
    def is_query(self) -> bool:
        return bool(self.query_id)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction whose newest version is not decided."""

    transactional_id: str
    version: int
    state: str
    age_ms: int
    rows: int


@dataclass(frozen=True, slots=True)
class Rates:
    """One frame. Totals are over brokers that answer; None where nothing is known. `half_messages` counts from the
    oldest on that is not decided. `unknown` says what is left out, or old."""

    at_ms: int
    in_per_second: float | None
    out_per_second: float | None
    half_messages: int | None
    brokers: tuple[BrokerRates, ...]
    topics: tuple[TopicRates, ...]
    readers: tuple[ReaderRates, ...]
    transactions: tuple[OpenTransaction, ...]
    unknown: tuple[str, ...]

    @property
    def lag(self) -> int | None:
        """Of all groups and queries, as far as known."""
        return _total(reader.lag for reader in self.readers)


def rates(before: Snapshot | None, now: Snapshot) -> Rates:
    """What has happened between two snapshots; with one alone brokers' own rates, and no others, are known."""
    old = before.brokers if before is not None else {}
    brokers = tuple(_broker(old.get(each.name), each, now.at_ms) for each in now.brokers.values())
    answering = {name for name, each in now.brokers.items() if not each.silence}
    halves = (now.brokers[name].half_messages for name in sorted(answering))
    return Rates(
        now.at_ms,
        _total(each.in_per_second for each in brokers),
        _total(each.out_per_second for each in brokers),
        _total(halves),
        brokers,
        tuple(_topics(old, now)),
        tuple([*_queries(now.queries), *_groups(old, now)]),
        tuple(_open(now.transactions)),
        tuple(_unknown(now)),
    )


def _broker(old: BrokerSnapshot | None, now: BrokerSnapshot, at_ms: int) -> BrokerRates:
    status = now.status
    ever_answered = bool(status.runtime)
    rates_ = (None, None) if now.silence else _broker_rates(old, now)
    age_ms = None if not ever_answered else max(0, at_ms - now.at_ms) if now.silence else 0
    return BrokerRates(
        status.name,
        status.cluster,
        status.address,
        *rates_,
        disk_used=status.disk_used,
        disk_free_bytes=status.disk_free_bytes,
        silence=now.silence,
        age_ms=age_ms,
        slaves=status.replicas.slaves,
    )


def _broker_rates(old: BrokerSnapshot | None, now: BrokerSnapshot) -> tuple[float | None, float | None]:
    """By its counters, which begin anew when it does; without two looks its own, of ten seconds."""
    own = now.status.stored_per_second, now.status.read_per_second
    seconds = _seconds(old, now)
    if old is None or seconds is None:
        return own
    counted = ((old.status.stored, now.status.stored), (old.status.read, now.status.read))
    found = [_rate(first, last, seconds) for first, last in counted]
    return found[0], found[1]


def _seconds(old: BrokerSnapshot | None, now: BrokerSnapshot) -> float | None:
    """Between two answers of a broker that has not been started anew; None where there are no two."""
    if old is None or now.silence or not old.status.runtime or now.at_ms <= old.at_ms:
        return None
    boots = [each.status.runtime.get("bootTimestamp") for each in (old, now)]
    return (now.at_ms - old.at_ms) / 1000 if boots[0] == boots[1] else None


def _rate(first: int | None, last: int | None, seconds: float) -> float | None:
    return None if first is None or last is None or last < first else (last - first) / seconds


def _topics(old: Mapping[str, BrokerSnapshot], now: Snapshot) -> Iterator[TopicRates]:
    messages: defaultdict[str, int] = defaultdict(int)
    stored: defaultdict[str, list[float]] = defaultdict(list)
    for broker in now.brokers.values():
        earlier = old.get(broker.name)
        seconds = _seconds(earlier, broker)
        for queue, bounds in broker.queues.items():
            if not is_users(queue):
                continue
            messages[queue.topic] += bounds.max_offset - bounds.min_offset
            first = earlier.queues.get(queue) if earlier is not None else None
            if seconds is not None and first is not None and bounds.max_offset >= first.max_offset:
                stored[queue.topic].append((bounds.max_offset - first.max_offset) / seconds)
    for topic in sorted(messages):
        yield TopicRates(topic, sum(stored[topic]) if stored[topic] else None, messages[topic])


@dataclass(slots=True)
class _Progress:
    """A group, summed over queues. `read` and `gained` are messages a second, where two looks are known."""

    lag: int = 0
    read: float | None = None
    gained: float = 0.0


def _groups(old: Mapping[str, BrokerSnapshot], now: Snapshot) -> Iterator[ReaderRates]:
    """Those that no shown query reads for: they are told as the query."""
    of_queries = {group for view in now.queries for group in view.groups}
    found: defaultdict[str, _Progress] = defaultdict(_Progress)
    for broker in now.brokers.values():
        for group, committed in broker.committed.items():
            if group not in of_queries:
                _add(found[group], group, committed, old.get(broker.name), broker)
    for group, progress in sorted(found.items()):
        gains = None if progress.read is None else progress.gained > 0
        drain_s = 0 if not progress.lag else round(progress.lag / progress.gained) if gains else None
        yield ReaderRates(group, "", progress.lag, progress.read, drain_s, True if not progress.lag else gains)


def _add(
    progress: _Progress,
    group: str,
    committed: Mapping[MessageQueue, int],
    old: BrokerSnapshot | None,
    now: BrokerSnapshot,
) -> None:
    seconds = _seconds(old, now)
    for queue, offset in committed.items():
        bounds = now.queues[queue]
        lag = max(0, bounds.max_offset - offset)
        progress.lag += lag
        first = old.committed.get(group, {}).get(queue) if old is not None else None
        if old is None or seconds is None or first is None or offset < first:  # or it was set back
            continue
        progress.read = (progress.read or 0.0) + (offset - first) / seconds
        progress.gained += (max(0, old.queues[queue].max_offset - first) - lag) / seconds


def _queries(views: Iterable[QueryView]) -> Iterator[ReaderRates]:
    for view in views:
        drain_s = view.caught_up_in_s
        gains = True if drain_s is not None else None if view.lag is None or view.consumed_per_second is None else False
        yield ReaderRates(
            *(view.name or view.query_id, view.state, view.lag, view.consumed_per_second, drain_s, gains),
            *(view.behind_ms, view.query_id),
        )


def _open(states: Iterable[TxnState]) -> Iterator[OpenTransaction]:
    """The oldest first."""
    open_ = (state for state in states if state.version > state.lastVersion and " given up " not in state.state)
    for state in sorted(open_, key=lambda state: (-state.ageMs, state.transactionalId)):
        yield OpenTransaction(state.transactionalId, state.version, state.state, state.ageMs, state.rows)


def _unknown(now: Snapshot) -> Iterator[str]:
    if now.silence:
        yield f"No name server answers: {now.silence}"
    for broker in now.brokers.values():
        if broker.silence:
            yield f"{broker.name}: {broker.silence}"
        elif broker.topics_left_out:
            yield f"{broker.name} has {broker.topics_left_out:,} topics more than are looked at"
    yield from now.gaps


_Number = TypeVar("_Number", int, float)


def _total(values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
