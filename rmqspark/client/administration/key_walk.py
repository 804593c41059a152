"""Messages with a key, the newest first, as far back as somebody wants to go: none left out, none twice, while others
come.

A broker's index gives the newest 64 of a hash in a span of whole seconds. One of ours is asked for those below a place
in its log instead (`belowPhyOffset`), and says how far down it has looked: that is exact, whatever the hash, the second
and the sizes. RocketMQ's passes over that field, which shows by what it answers; there the walk goes by time, and where
a single second has more than it tells, the walk ends with an error: it would leave some out without a word.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.pulling.received import received_all
from rmqspark.errors import BrokerNotRegistered, DecodeError, NotFound, NotSupported
from rmqspark.protocol.headers.consume import QueryMessageResponseHeader
from rmqspark.protocol.records.message_id import parse_offset_msg_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.model import ReceivedMessage
    from rmqspark.remoting.response import Response

MOST_AT_ONCE: Final = 64  # RocketMQ's maxMsgsNumBatch
FROM_THE_END: Final = (1 << 63) - 1
_BEGIN_ANEW: Final = "Begin again without the cursor, or when it is back."
_INDEX_STEP_MS: Final = 1_000  # an index tells store times in whole seconds, rounded down


class Told(Protocol):
    """A message, and what is known besides."""

    @property
    def message(self) -> ReceivedMessage: ...


_Told = TypeVar("_Told", bound=Told)


class KeySearch(NamedTuple):
    """What is looked for: stored in [begin_ms, end_ms]."""

    topic: str
    key: str
    begin_ms: int
    end_ms: int

    def fits(self, message: ReceivedMessage) -> bool:
        """The index knows hashes and seconds alone."""
        is_in_time = self.begin_ms <= message.store_timestamp_ms <= self.end_ms
        return is_in_time and message.topic == self.topic and self.key in message.keys


class Found(NamedTuple):
    """A message and its place in its broker's log."""

    message: ReceivedMessage
    physical_offset: int


class KeyPage(NamedTuple):
    """`messages` are the newest first. `older` says, by broker, below which place the others lie; empty: there are
    none."""

    messages: list[ReceivedMessage]
    older: dict[str, int]


def key_page(
    cluster: ClusterClient,
    search: KeySearch,
    limit: int,
    below: Mapping[str, int] | None = None,
    most_bytes: int | None = None,
) -> KeyPage:
    """The newest `limit` messages; with the `older` of the page before, those behind them. Fewer, once their bodies
    have come to `most_bytes`. TopicNotFound."""
    there = sorted(cluster.route(search.topic).brokers)
    places = dict.fromkeys(there, FROM_THE_END) if below is None else {name: at for name, at in below.items() if at > 0}
    if gone := sorted(places.keys() - set(there)):
        raise BrokerNotRegistered(f"{gone[0]!r} is not there any more, and older messages are.", hint=_BEGIN_ANEW)
    at_once = min(limit + 1, MOST_AT_ONCE)
    walks = {name: _Walk(cluster, name, search, at, at_once) for name, at in places.items()}
    in_order = merge(*walks.values(), key=lambda found: -found.message.store_timestamp_ms)
    found = list(within_bytes(islice(in_order, limit), most_bytes))
    for each in found:
        walks[each.message.queue.broker_name].passed(each)
    older = {name: walk.place for name, walk in walks.items()} if _goes_on(in_order) else {}
    return KeyPage([each.message for each in found], older)


def within_bytes(in_order: Iterator[_Told], most_bytes: int | None) -> Iterator[_Told]:
    """Up to the first with which that is reached."""
    size_bytes = 0
    for found in in_order:
        yield found
        size_bytes += len(found.message.body)
        if most_bytes is not None and size_bytes >= most_bytes:
            return


def _goes_on(in_order: Iterator[Found]) -> bool:
    """What keeps the walk from going on is for who asks for the next page."""
    try:
        return next(in_order, None) is not None
    except NotSupported:
        return True


class _Walk:
    """Down the log of one broker. `place` is above all that was not passed yet."""

    def __init__(self, cluster: ClusterClient, broker_name: str, search: KeySearch, below: int, at_once: int) -> None:
        self._broker = BrokerAdmin(cluster.broker(broker_name))
        self._search = search
        self._below = below
        self._end_ms = search.end_ms
        self._at_once = at_once
        self._asked = self._ask()  # with the other brokers, all at once
        self.place = 0  # where nothing is found

    def passed(self, found: Found) -> None:
        self.place = found.physical_offset

    def __iter__(self) -> Iterator[Found]:
        while (answer := self._answer()) is not None:
            for found in answer:
                if self._search.fits(found.message):
                    self.place = self.place or found.physical_offset + 1
                    yield found
            self._asked = self._ask()

    def _ask(self) -> Future[Response]:
        topic, key, begin_ms, _ = self._search
        return self._broker.submit_query(
            topic,
            key,
            unique=False,
            max_count=self._at_once,
            begin_ms=max(0, begin_ms - _INDEX_STEP_MS),
            end_ms=self._end_ms,
            below=self._below,
        )

    def _answer(self) -> list[Found] | None:
        """The next ones, the newest first, perhaps none yet; None where there are no more."""
        try:
            response = self._asked.result().raise_for_code()
        except NotFound:
            return None
        messages = received_all(memoryview(response.body), self._broker.broker.name)
        told = [Found(each, parse_offset_msg_id(each.offset_msg_id)[1]) for each in messages]
        lower = sorted((each for each in told if each.physical_offset < self._below), key=_place, reverse=True)
        reached = response.header(QueryMessageResponseHeader).walkedToPhyOffset
        if reached is None:
            return self._by_time(told, lower)
        if reached >= self._below:
            raise DecodeError(f"{self._broker.broker.name} was asked for what lies below {self._below}, and is there.")
        self._below = reached
        return lower if reached >= 0 else None

    def _by_time(self, told: list[Found], lower: list[Found]) -> list[Found] | None:
        """Of a broker that has passed over the place: it tells the newest up to a time again."""
        if lower:
            self._below, self._end_ms = lower[-1].physical_offset, lower[-1].message.store_timestamp_ms
            return lower
        if len(told) < self._at_once:
            return None
        lowest = min(told, key=_place).message.store_timestamp_ms
        if lowest < self._end_ms:
            self._end_ms = lowest
        elif self._at_once < MOST_AT_ONCE:
            self._at_once = MOST_AT_ONCE
        else:
            raise NotSupported(
                f"{self._broker.broker.name} may have more than {MOST_AT_ONCE} messages under this key in one second, "
                "and, being RocketMQ's, tells no more of them.",
                hint="rmq consume with --from and --to reads all there are.",
            )
        return []


def _place(found: Found) -> int:
    return found.physical_offset
