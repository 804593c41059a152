"""Readers of a simulation: one follows a queue by long polls, a scan reads it from begin to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.pulling.received import received_all
from rmqspark.errors import OffsetMoved, RmqError, Unreachable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    PullFlag,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response
    from rmqspark.testing.sim.clients import SimClient

_NOTHING_NEW = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_ANSWER_MS = 3_000  # beyond the time a pull may be held
_OFFSET_TIMEOUT_MS = 5_000
_LONG_MS = 15_000
_GROUP = "TOOLS_CONSUMER"


class QueueReader:
    """Reads one queue for a client, in the master or a slave, and tells the history."""

    def __init__(
        self, client: SimClient, queue: MessageQueue, broker_id: int = 0, *, on_seen: Callable[[str], object] = str
    ) -> None:
        """`on_seen` is told the name of each message as it comes."""
        self.position = 0
        self.waits_long = False
        """Whether it has asked to be held as long as may be since it is patient, and has no answer yet. Before, it may
        have asked a host that has lost its power since, and hear nothing."""
        self.empty_answers = 0
        self.is_to_stop = False
        self.names: list[str] = []
        """Of the messages it was given, in their order."""
        self.is_patient = False
        """Whether each of its pulls is to be held as long as may be."""
        self.suspend_ms = 0
        self._name = f"{client.name}/{queue}"
        self.client = client
        self._world = client.world
        self.queue = queue
        self.broker_id = broker_id
        self._on_seen = on_seen

    async def follow(self) -> None:
        """Until it is to stop: what comes, as it comes."""
        while not self.is_to_stop:
            try:
                self.suspend_ms = _LONG_MS if self.is_patient else self.client.random.choice((0, 1_000, _LONG_MS))
                self.waits_long = self.is_patient
                await self.pull()
            except OffsetMoved as moved:
                self._world.trace.reached("reader was ahead of the queue")
                self.position = moved.next_offset
            except RmqError as error:
                self._world.trace.reached(f"pull {type(error).__name__}")
                await self.client.pause(1.0)
            self.waits_long = False
            if not self.suspend_ms:
                await self.client.pause(0.5)

    async def pull(self) -> int:
        """One pull; how many messages it brought. Raises RmqError, OffsetMoved among them."""
        incarnation = self._world.incarnations.get(self.queue.broker_name)
        number = self._world.history.reading(self._name, self.queue, self.position)
        try:
            answer = await self._ask()
            if incarnation != self._world.incarnations.get(self.queue.broker_name):
                raise Unreachable("It is another broker by now.", address="")
            if answer.code not in _NOTHING_NEW:
                answer.raise_for_code()
        except RmqError as error:
            self._world.history.not_seen(number, error)
            raise
        told = answer.header(PullMessageResponseHeader)
        next_offset = told.nextBeginOffset
        self.empty_answers += answer.code in _NOTHING_NEW
        found = [] if answer.code in _NOTHING_NEW else received_all(bytes(answer.body), self.queue.broker_name)
        if any((each.topic, each.queue) != (self.queue.topic, self.queue) for each in found):
            self._world.violated(f"{self._name} was given messages of {[str(each.queue) for each in found]}")
        self._world.history.seen(number, next_offset, found)
        self.position = next_offset
        if self.broker_id and self.position < told.minOffset:  # a slave that began later leaves that to its master
            self.position = told.minOffset
        for each in found:
            if each.keys:
                self.names.append(each.keys[0])
                self._on_seen(each.keys[0])
        return len(found)

    async def _ask(self) -> Response:
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if self.suspend_ms else PullFlag(0))
        header = PullMessageRequestHeader(
            consumerGroup=_GROUP,
            topic=self.queue.topic,
            queueId=self.queue.queue_id,
            queueOffset=self.position,
            maxMsgNums=self.client.random.randint(1, 32),
            sysFlag=int(flags),
            commitOffset=0,
            suspendTimeoutMillis=self.suspend_ms,
            subVersion=0,
            subscription="*",
            expressionType="TAG",
            bname=self.queue.broker_name,
        )
        address = await self.client.address_of(self.queue, self.broker_id)
        timeout_ms = self.suspend_ms * 2 + _ANSWER_MS
        return await self.client.call(address, RequestCode.PULL_MESSAGE, header, timeout_ms=timeout_ms)

    async def end(self) -> int:
        """One past the last offset of the queue. Raises RmqError."""
        return await self._bound(RequestCode.GET_MAX_OFFSET)

    async def scan(self) -> int:
        """All there is while nobody sends, and the history is told that it was all; returns the queue's end."""
        begin, end = await self._begin(), await self.end()
        self.position, self.suspend_ms = begin, 0
        while self.position < end:
            if not await self.pull():
                self._world.violated(f"{self._name} finds nothing at {self.position}, before the end, {end}")
                break
        self._world.history.scanned(self._name, self.queue, begin, self.position)
        return end

    async def _begin(self) -> int:
        """The first offset that is there; a slave says that only of what it has itself."""
        if not self.broker_id:
            return await self._bound(RequestCode.GET_MIN_OFFSET)
        self.position = self.suspend_ms = 0
        return (await self._ask()).header(PullMessageResponseHeader).minOffset

    async def _bound(self, code: RequestCode) -> int:
        kind = GetMinOffsetRequestHeader if code == RequestCode.GET_MIN_OFFSET else GetMaxOffsetRequestHeader
        header = kind(self.queue.topic, self.queue.queue_id, bname=self.queue.broker_name)
        address = await self.client.address_of(self.queue, self.broker_id)
        answer = await self.client.call(address, code, header, timeout_ms=_OFFSET_TIMEOUT_MS)
        return answer.raise_for_code().header(OffsetResponseHeader).offset
