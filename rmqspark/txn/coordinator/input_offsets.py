"""Moves the committed offsets of consumer groups to where a decided batch has read. Never backwards.

Whoever takes over a query's group goes on where its decided batches end, also after a crash: until a move is as safe as
the decision, that is kept (`is_waiting`), and a start moves the groups again. What cannot be moved at once (its broker
is down, or belongs to another cluster) is tried again for a while, and the decision not kept for that: the next batch
moves it farther anyway. Of a shared group it is kept, for as long as its broker is silent, and for a day where that
refuses it: the next member begins there when the leases have run out. A move that comes so late may undo a reset that
the query has carried out meanwhile, until the query says with its next batch where it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from rmqspark.errors import GroupNotFound, NotFound, RequestTimeout, RmqError, TopicRemade, Unreachable
from rmqspark.protocol.bodies.client import LeasedQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    OffsetResponseHeader,
    PullFlag,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.txn.coordinator.peers import unlisted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rmqspark.model import MessageQueue
    from rmqspark.protocol.bodies.txn import InputRange
    from rmqspark.txn.coordinator.peers import Peers

_TIMEOUT_MS: Final = 3_000
_TRIES: Final = 60  # one a second or less
_TRIES_FOR_SHARED: Final = 86_400
_MAX_WAITING: Final = 100_000  # beside those of shared groups, which brokers have leased
_SILENCE: Final = (Unreachable, RequestTimeout)

log = structlog.get_logger("rmqspark.txn")


class _Place(NamedTuple):
    broker: str
    group: str
    topic: str
    queue_id: int

    @property
    def subscription(self) -> tuple[str, str, str]:
        """What a broker may refuse, of all its queues alike."""
        return self.broker, self.group, self.topic


_Goal = tuple[int, int]  # of two the one in the topic that came later counts, and in the same topic the farther one


class _Move(NamedTuple):
    """`reached`: where the group is, as its broker was told. `has_failed`: that could not be told when it was tried."""

    read: InputRange
    tries_left: int
    reached: _Goal | None = None
    has_failed: bool = False

    @property
    def goal(self) -> _Goal:
        return _goal(self.read)

    @property
    def is_shared(self) -> bool:
        """Whether another member of the group may begin there."""
        return _is_shared(self.read)


class CommitHere(Protocol):
    def __call__(self, reads: Sequence[InputRange]) -> list[tuple[InputRange, RmqError]]:
        """Moves groups behind ranges of this broker's queues; returns those that it refuses, and why, as TopicRemade.
        That is in the log, before anything that comes there later."""


class InputOffsets:
    """What is still to be moved. `make_safe` returns when what was committed here is there to stay."""

    def __init__(
        self,
        commit_here: CommitHere,
        make_safe: Callable[[], Awaitable[None]],
        peers: Peers,
    ) -> None:
        self._commit_here = commit_here
        self._make_safe = make_safe
        self._peers = peers
        self._waiting: dict[_Place, _Move] = {}
        self._silent: set[str] = set()  # brokers that were told of in the log

    def want(self, inputs: Iterable[InputRange]) -> None:
        """Takes note of what a decided batch has read. What is on this broker is moved at once, but for shared groups:
        of those it is told who leases their queues when it is safe."""
        here = []
        for each in inputs:
            if not each.group or each.brokerName in self._peers.retired:
                continue
            if each.brokerName == self._peers.own_name and not _is_shared(each):
                here.append(each)
            else:
                self._want_later(_place(each), _Move(each, _TRIES_FOR_SHARED if _is_shared(each) else _TRIES))
        refused = {(read.group, read.topic, str(error)): read for read, error in self._commit_here(here)}
        for (_, _, reason), read in refused.items():
            log.warning("a group's offset was not moved", place=str(_place(read)), offset=read.toOffset, reason=reason)

    def _want_later(self, place: _Place, move: _Move) -> None:
        known = self._waiting.get(place)
        if known is not None:
            farther = max(move, known, key=lambda each: each.goal)
            self._waiting[place] = known._replace(read=farther.read, tries_left=move.tries_left)
        elif move.is_shared or len(self._waiting) < _MAX_WAITING:
            self._waiting[place] = move

    def __len__(self) -> int:
        return len(self._waiting)

    def is_waiting(self, inputs: Iterable[InputRange], *, shared_alone: bool = False) -> bool:
        """Whether the brokers of any of these ranges have still to hear of it. Where one could not be told, that counts
        for shared groups alone."""
        return any(self._is_awaited(each) for each in inputs if _is_shared(each) or not shared_alone)

    def _is_awaited(self, read: InputRange) -> bool:
        move = self._waiting.get(_place(read))
        if move is None or (move.has_failed and not _is_shared(read)):
            return False
        return move.reached is None or _goal(read) > move.reached

    def wanted(self, group: str, queues: Iterable[MessageQueue]) -> list[LeasedQueue]:
        """Where the group is to go on in those of these queues that are still to be moved."""
        places = {queue: _Place(queue.broker_name, group, queue.topic, queue.queue_id) for queue in queues}
        return [
            LeasedQueue(*queue, offset=move.read.toOffset, topicDeleted=move.read.topicDeleted)
            for queue, place in places.items()
            if (move := self._waiting.get(place)) is not None
        ]

    async def move(self) -> None:
        """Tries what waits, once. A broker that does not answer is left alone for this time; one that refuses a group
        is asked for the others."""
        if not self._waiting:
            return
        listed = await self._peers.listed({place.broker for place in self._waiting} - {self._peers.own_name})
        failed: dict[tuple[str, ...], RmqError] = {}
        for place, wanted in list(self._waiting.items()):
            try:
                if failure := failed.get((place.broker,)) or failed.get(place.subscription):
                    raise failure
                await self._move(place, wanted, is_listed=place.broker in listed)
            except TopicRemade as error:
                if self._waiting.get(place) == wanted:
                    self._note_failure(place, wanted._replace(tries_left=1), error)
            except RmqError as error:
                is_silent = isinstance(error, _SILENCE)
                failed[(place.broker,) if is_silent else place.subscription] = error
                self._note_failure(place, self._waiting.get(place, wanted), error)
            else:
                self._silent.discard(place.broker)
                self._note_success(place, wanted)

    async def _move(self, place: _Place, wanted: _Move, *, is_listed: bool) -> None:
        if place.broker == self._peers.own_name:
            for _, error in self._commit_here([wanted.read]):
                raise error
            await self._make_safe()
        elif is_listed:
            await self._move_there(place, wanted)
        else:
            raise unlisted(place.broker)

    async def _move_there(self, place: _Place, wanted: _Move) -> None:
        """Also where that is there already: the source may have reported it, and it is in memory alone. Should others
        go on there meanwhile, the broker sees to it that it does not go back."""
        committed, offset = await self._committed(place), wanted.read.toOffset
        if committed > offset and not wanted.is_shared:
            return
        header = UpdateConsumerOffsetRequestHeader(
            place.group,
            place.topic,
            place.queue_id,
            max(offset, committed),
            topicDeleted=wanted.read.topicDeleted,
            decided=True,
        )
        try:
            await self._update(place, header)
        except GroupNotFound:
            await self._introduce(place, offset)
            await self._update(place, header)

    async def _committed(self, place: _Place) -> int:
        asked = QueryConsumerOffsetRequestHeader(place.group, place.topic, place.queue_id, setZeroIfNotFound=False)
        try:
            response = await self._peers.call(
                place.broker, RequestCode.QUERY_CONSUMER_OFFSET, asked, timeout_ms=_TIMEOUT_MS
            )
        except NotFound:
            return -1
        return response.header(OffsetResponseHeader).offset

    async def _update(self, place: _Place, header: UpdateConsumerOffsetRequestHeader) -> None:
        await self._peers.call(place.broker, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)

    async def _introduce(self, place: _Place, offset: int) -> None:
        """A broker keeps no offset of a group it does not know; a pull makes it known, whatever comes of it."""
        header = PullMessageRequestHeader(
            consumerGroup=place.group,
            topic=place.topic,
            queueId=place.queue_id,
            queueOffset=offset,
            maxMsgNums=1,
            sysFlag=PullFlag.SUBSCRIPTION,
            commitOffset=0,
            suspendTimeoutMillis=0,
            subVersion=0,
            subscription="*",
        )
        with suppress(RmqError):
            await self._peers.call(place.broker, RequestCode.PULL_MESSAGE, header, timeout_ms=_TIMEOUT_MS)

    def _note_success(self, place: _Place, moved: _Move) -> None:
        """More may have been decided in the meantime."""
        now = self._waiting.get(place, moved)
        if now.goal == moved.goal:
            self._waiting.pop(place, None)
        else:
            self._waiting[place] = now._replace(reached=moved.goal, has_failed=False)

    def _note_failure(self, place: _Place, wanted: _Move, error: RmqError) -> None:
        if wanted.is_shared and isinstance(error, _SILENCE):
            self._tell_of(place.broker, error)
            return
        if wanted.tries_left > 1:
            self._waiting[place] = wanted._replace(tries_left=wanted.tries_left - 1, has_failed=True)
            return
        del self._waiting[place]
        log.warning(
            "a group's offset could not be moved", place=str(place), offset=wanted.read.toOffset, reason=str(error)
        )

    def _tell_of(self, broker: str, error: RmqError) -> None:
        if broker not in self._silent:
            self._silent.add(broker)
            log.warning(
                "a broker cannot be told how far shared groups have read there, trying on",
                broker=broker,
                reason=str(error),
                hint="Start it again. If it is gone for good, name it in retired_brokers.",
            )


def _place(read: InputRange) -> _Place:
    return _Place(read.brokerName, read.group, read.topic, read.queueId)


def _goal(read: InputRange) -> _Goal:
    return read.topicDeleted or 0, read.toOffset


def _is_shared(read: InputRange) -> bool:
    return bool(read.lease and read.member)
