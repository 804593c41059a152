"""What read tasks report: which offsets a batch of a query has read. Pure, and bounded.

A task that Spark runs again reports again: a range with the same beginning takes the place of the one before. Of a
shared group only within a run of the query: an earlier one that was frozen may wake, and say what it was about to read.
Where there is no room for more of a batch, what such runs said goes first, the one first heard of before the others: a
query that is started again and again at the same batch is never refused for that.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy, InvalidArgument
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH
from rmqspark.txn.coordinator.events import InputReported, encode_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.protocol.bodies.txn import InputRange

MAX_BATCHES_OF_A_QUERY: Final = 4
MAX_QUERIES: Final = 1_000
MAX_RANGES_OF_A_BATCH: Final = 50_000
MAX_RANGES: Final = 400_000
MAX_NAME_BYTES: Final = MAX_TRANSACTIONAL_ID_LENGTH  # topics, groups and brokers have shorter ones
_RANGES_OF_AN_EVENT: Final = 1_000

_Place = tuple[str, str, str, int, int, str]  # group, topic, broker, queue, first offset, run


class InputReports:
    """Ranges by query and batch. Of a query the batches go first that nothing new was said of for longest, whatever
    their numbers: with a restored checkpoint it goes on below those. Then the queries silent for longest.

    No event has more than `max_event_bytes`, unless it is about a single range.
    """

    def __init__(self, *, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._queries: dict[str, dict[int, dict[_Place, InputRange]]] = {}
        self._count = 0

    def report(self, query_id: str, batch_id: int, ranges: Sequence[InputRange]) -> list[InputReported]:
        """The events that take the ranges in. Raises InvalidArgument for a range that is none, Busy beyond the limits.

        What is known already is not taken again.
        """
        for each in ranges:
            _check(each)
        known = self._queries.get(query_id, {}).get(batch_id, {})
        news = [each for each in ranges if known.get(_place(each)) != each]
        if len(known) + len(news) > MAX_RANGES_OF_A_BATCH:
            runs = _runs(ranges)
            stay = sum(place[-1] in runs for place in known)
            if stay + len(news) > MAX_RANGES_OF_A_BATCH:
                raise Busy(f"Batch {batch_id} of query {query_id!r} has reported {stay} ranges; there is no room.")
        return list(self._events(query_id, batch_id, news))

    def of(self, query_id: str, batch_id: int) -> list[InputRange]:
        """What was reported, by topic, broker, queue and offset."""
        ranges = self._queries.get(query_id, {}).get(batch_id, {})
        return [ranges[place] for place in sorted(ranges)]

    def apply(self, event: InputReported) -> None:
        batches = self._queries.pop(event.query_id, {})
        self._queries[event.query_id] = batches  # last: heard of most recently
        batch = batches.pop(event.batch_id, {})
        batches[event.batch_id] = batch
        before = len(batch)
        batch.update((_place(each), each) for each in event.inputs)
        _make_room(batch, event.inputs)
        self._count += len(batch) - before
        while len(batches) > MAX_BATCHES_OF_A_QUERY:
            self._count -= len(batches.pop(next(iter(batches))))
        while len(self._queries) > 1 and (len(self._queries) > MAX_QUERIES or self._count > MAX_RANGES):
            silent = self._queries.pop(next(iter(self._queries)))
            self._count -= sum(map(len, silent.values()))

    def __iter__(self) -> Iterator[str]:
        """The queries that have reported."""
        return iter(self._queries)

    def restated(self, query_id: str) -> list[InputReported]:
        """Events that stand for all that this query has reported; none if it is forgotten."""
        batches = self._queries.get(query_id, {})
        events = (self._events(query_id, batch_id, known.values()) for batch_id, known in batches.items())
        return list(chain.from_iterable(events))

    def _events(self, query_id: str, batch_id: int, ranges: Iterable[InputRange]) -> Iterator[InputReported]:
        left = iter(ranges)
        while piece := list(islice(left, _RANGES_OF_AN_EVENT)):
            yield from self._fitting(InputReported(query_id, batch_id, piece))

    def _fitting(self, event: InputReported) -> Iterator[InputReported]:
        """The event, or events about parts of it that fit a message: by what is written, for a character may take six
        bytes of JSON, and a ledger that was written before such names were refused has some of these."""
        middle = len(event.inputs) // 2
        if not middle or len(encode_event(event)) <= self._max_event_bytes:
            yield event
            return
        for part in (event.inputs[:middle], event.inputs[middle:]):
            yield from self._fitting(InputReported(event.query_id, event.batch_id, part))


def _runs(ranges: Iterable[InputRange]) -> set[str]:
    """Those whose ranges stay when these come: their own, and what is read under no lease."""
    return {"", *(each.run or "" for each in ranges)}


def _make_room(batch: dict[_Place, InputRange], newest: Iterable[InputRange]) -> None:
    """Forgets earlier runs, as many as it takes."""
    while len(batch) > MAX_RANGES_OF_A_BATCH:
        runs = _runs(newest)
        earliest = next((place[-1] for place in batch if place[-1] not in runs), None)
        if earliest is None:
            return
        for place in [place for place in batch if place[-1] == earliest]:
            del batch[place]


def _check(each: InputRange) -> None:
    for name in (each.group, each.topic, each.brokerName, each.member or "", each.run or ""):
        _check_name(name)
    if not 0 <= each.fromOffset <= each.toOffset or each.queueId < 0:
        raise InvalidArgument(f"[{each.fromOffset}, {each.toOffset}) of {each.topic!r} is no range of offsets.")


def _check_name(name: str) -> None:
    """Raises InvalidArgument. What can be printed has no control characters, and can be written in UTF-8."""
    if not name.isprintable():
        raise InvalidArgument(f"A name in a range of offsets has no control characters, but {name[:32]!r} has.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidArgument(f"A name in a range of offsets has at most {MAX_NAME_BYTES} bytes.")


def _place(each: InputRange) -> _Place:
    return each.group, each.topic, each.brokerName, each.queueId, each.fromOffset, each.run or ""
