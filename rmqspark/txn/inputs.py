"""What read tasks report: which offsets a batch of a query has read. Pure, and bounded.

A task that Spark runs again reports again: a range with the same beginning takes the place of the one before.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy, InvalidArgument
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH
from rmqspark.txn.events import InputReported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.protocol.bodies_txn import InputRange

MAX_BATCHES_OF_A_QUERY: Final = 4
MAX_QUERIES: Final = 1_000
MAX_RANGES_OF_A_BATCH: Final = 50_000
MAX_RANGES: Final = 400_000
MAX_NAME: Final = MAX_TRANSACTIONAL_ID_LENGTH  # topics, groups and brokers have shorter ones
_RANGES_OF_AN_EVENT: Final = 1_000  # which has to fit a message, however long the names are

_Place = tuple[str, str, str, int, int]  # group, topic, broker, queue, first offset


class InputReports:
    """Ranges by query and batch. The oldest batches of a query go first, then the queries silent for longest."""

    def __init__(self) -> None:
        self._queries: dict[str, dict[int, dict[_Place, InputRange]]] = {}
        self._count = 0

    def report(self, query_id: str, batch_id: int, ranges: Sequence[InputRange]) -> list[InputReported]:
        """The events that take the ranges in. Raises InvalidArgument for a range that is none, Busy beyond the limits.

        A batch that is older than those remembered is no longer taken, nor is what is known already.
        """
        for each in ranges:
            _check(each)
        batches = self._queries.get(query_id, {})
        if len(batches) >= MAX_BATCHES_OF_A_QUERY and batch_id < min(batches):
            return []
        known = batches.get(batch_id, {})
        news = [each for each in ranges if known.get(_place(each)) != each]
        if len(known) + len(news) > MAX_RANGES_OF_A_BATCH:
            raise Busy(f"Batch {batch_id} of query {query_id!r} has reported {len(known)} ranges; there is no room.")
        return _events(query_id, batch_id, news)

    def of(self, query_id: str, batch_id: int) -> list[InputRange]:
        """What was reported, by topic, broker, queue and offset."""
        ranges = self._queries.get(query_id, {}).get(batch_id, {})
        return [ranges[place] for place in sorted(ranges)]

    def apply(self, event: InputReported) -> None:
        batches = self._queries.pop(event.query_id, {})
        self._queries[event.query_id] = batches  # last: heard of most recently
        batch = batches.setdefault(event.batch_id, {})
        before = len(batch)
        batch.update((_place(each), each) for each in event.inputs)
        self._count += len(batch) - before
        while len(batches) > MAX_BATCHES_OF_A_QUERY:
            self._count -= len(batches.pop(min(batches)))
        while len(self._queries) > 1 and (len(self._queries) > MAX_QUERIES or self._count > MAX_RANGES):
            silent = self._queries.pop(next(iter(self._queries)))
            self._count -= sum(map(len, silent.values()))

    def __iter__(self) -> Iterator[str]:
        """The queries that have reported."""
        return iter(self._queries)

    def restated(self, query_id: str) -> list[InputReported]:
        """Events that stand for all that this query has reported; none if it is forgotten."""
        batches = self._queries.get(query_id, {})
        return [event for batch_id, known in batches.items() for event in _events(query_id, batch_id, known.values())]


def _check(each: InputRange) -> None:
    if max(map(len, (each.group, each.topic, each.brokerName, each.member or "", each.run or ""))) > MAX_NAME:
        raise InvalidArgument(f"A name in a range of offsets has at most {MAX_NAME} characters.")
    if not 0 <= each.fromOffset <= each.toOffset or each.queueId < 0:
        raise InvalidArgument(f"[{each.fromOffset}, {each.toOffset}) of {each.topic!r} is no range of offsets.")


def _events(query_id: str, batch_id: int, ranges: Iterable[InputRange]) -> list[InputReported]:
    left = iter(ranges)
    pieces = iter(lambda: list(islice(left, _RANGES_OF_AN_EVENT)), [])
    return [InputReported(query_id, batch_id, piece) for piece in pieces]


def _place(each: InputRange) -> _Place:
    return each.group, each.topic, each.brokerName, each.queueId, each.fromOffset
