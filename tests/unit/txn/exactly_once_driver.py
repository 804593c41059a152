"""A Spark driver with its tasks, as far as a sink can tell: offsets, attempts, retries, twins, commit, abort, death.

Order as in Spark: a batch that is not in the commit log runs its tasks; when each partition has succeeded once,
`commit` runs at the driver; then the commit log. A commit that fails is followed by `abort`, and the query ends.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zlib_ng.zlib_ng import crc32

from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.txn import HeldAttempt, TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnAbortRequestHeader,
    TxnAbortResponseHeader,
    TxnDecideRequestHeader,
    TxnDecideResponseHeader,
    TxnHalfRequestHeader,
    TxnOutcome,
    TxnPrepareRequestHeader,
    TxnPrepareResponseHeader,
    TxnStatusRequestHeader,
    TxnStatusResponseHeader,
)
from rmqspark.protocol.records.record import encode_record

if TYPE_CHECKING:
    from .exactly_once_world import World

T = "spark-q"
TOPIC = "out"
CHECKPOINT = "checkpoint"  # where Spark keeps its commit log
PARTITIONS = (0, 1)
_ROWS = 2
_MAX_FAILURES = 2
_ASKS = 4


def targets(partition: int) -> tuple[str, ...]:
    """The brokers a partition writes to: the first one to both, so that they must agree."""
    return ("a", "b") if partition == 0 else ("b",)


def is_empty(version: int) -> bool:
    return version % 5 == 3


@cache
def rows_of(broker: str, version: int) -> list[str]:
    """What a version brings to a broker, in the order of partitions."""
    if is_empty(version):
        return []
    return [
        f"{version}.{partition}.{row}"
        for partition in PARTITIONS
        if broker in targets(partition)
        for row in range(_ROWS)
    ]


class Message(NamedTuple):
    """A task's commit message. `epoch` 0: it was committed before, nothing was written."""

    partition: int
    epoch: int
    held: dict[str, HeldAttempt]


class TaskFailed(Exception):
    """Spark tries the task again."""


class Driver:
    """One run of the query. Its tasks die with it, but what they have sent is on its way."""

    def __init__(self, world: World, number: int, coordinator: str) -> None:
        self.world = world
        self.run = f"run-{number}"
        self.number = number
        self.coordinator = coordinator
        self.life = 1
        self.has_ended = False
        self.attempts = 0
        self._awake = asyncio.Event()
        self._task = world.loop.create_task(self.query())
        self._workers: list[asyncio.Task[Any]] = []

    def die(self) -> None:
        self.life += 1
        for task in (self._task, *self._workers):
            task.cancel()
        self.world.loop.settle()

    def wake(self) -> None:
        self._awake.set()

    # --- the query ---------------------------------------------------------------------------------------------------

    async def query(self) -> None:
        try:
            while True:
                version = max(self.world.recorded, default=-1) + 1
                if version >= self.world.batches:
                    self._awake.clear()
                    await self._awake.wait()
                    continue
                if not await self.batch(version):
                    break
                await self.record(version)
        except RmqError:
            pass
        self.has_ended = True

    async def record(self, version: int) -> None:
        """Writes Spark's commit log. A driver that dies before that leaves the hard window open."""
        header = TxnDecideRequestHeader(T, self.run, 0, version)
        await self.world.call(self, CHECKPOINT, RequestCode.RMQ_CAPABILITIES, header, b"")

    async def batch(self, version: int) -> bool:
        messages = await asyncio.gather(*(self.task(version, partition) for partition in PARTITIONS))
        if None in messages:
            await self.abort(version, [message for message in messages if message])
            return False
        if await self.commit(version, messages):  # type: ignore[arg-type]
            return True
        await self.abort(version, messages)  # type: ignore[arg-type]
        return False

    async def task(self, version: int, partition: int) -> Message | None:
        """The first attempt that succeeds; every third task has a speculative twin. None when too many have failed."""
        for failures in range(_MAX_FAILURES + 1):
            count = 2 if (version + partition + self.number + failures) % 3 == 0 else 1
            attempts = [self.worker(self.attempt(version, partition)) for _ in range(count)]
            for finished in asyncio.as_completed(attempts):
                try:
                    return await finished  # the twin goes on, and sends what it likes
                except (RmqError, TaskFailed):
                    continue
        return None

    def worker(self, work: Any) -> asyncio.Task[Any]:
        task = self.world.loop.create_task(work)
        self._workers.append(task)
        return task

    # --- a task ------------------------------------------------------------------------------------------------------

    async def attempt(self, version: int, partition: int) -> Message:
        self.attempts += 1
        attempt = f"{self.number}-{self.attempts}"
        header = TxnPrepareRequestHeader(T, self.run, version, partition, attempt, "q")
        response = await self.world.call(self, self.coordinator, RequestCode.RMQ_TXN_PREPARE, header, b"")
        prepared = response.header(TxnPrepareResponseHeader)
        if prepared.outcome == TxnOutcome.ALREADY_COMMITTED:
            return Message(partition, 0, {})
        if prepared.outcome != TxnOutcome.WRITE:
            raise TaskFailed(prepared.outcome)
        self.world.granted = max(self.world.granted, prepared.epoch)
        held: dict[str, HeldAttempt] = {}
        if not is_empty(version):
            for broker in targets(partition):
                held[broker] = await self.send(broker, version, partition, attempt, prepared.epoch)
        return Message(partition, prepared.epoch, held)

    async def send(self, broker: str, version: int, partition: int, attempt: str, epoch: int) -> HeldAttempt:
        """One half batch; sent again once if there is no answer."""
        body, record_size = _half(version, partition)
        digest = crc32(body)
        header = TxnHalfRequestHeader(T, epoch, version, partition, attempt, 0, TOPIC, 0, _ROWS, record_size, digest)
        try:
            await self.world.call(self, broker, RequestCode.RMQ_TXN_HALF, header, body)
        except RmqError:
            await self.world.call(self, broker, RequestCode.RMQ_TXN_HALF, header, body)
        return HeldAttempt(partition, attempt, 1, _ROWS, len(body), digest)

    # --- commit and abort --------------------------------------------------------------------------------------------

    async def commit(self, version: int, messages: list[Message]) -> bool:
        epochs = {message.epoch for message in messages if message.epoch}
        if len(epochs) > 1 or (epochs and any(not message.epoch for message in messages)):
            return False
        epoch = max(epochs, default=0)
        participants: dict[str, list[HeldAttempt]] = {}
        for message in messages:
            for broker, held in message.held.items():
                participants.setdefault(broker, []).append(held)
        rows = sum(held.rows for some in participants.values() for held in some)
        body = TxnDecision("q", participants, rows, 0).encode(standard=True)
        header = TxnDecideRequestHeader(T, self.run, epoch, version)
        for _ in range(1 + self.number % 2):
            try:
                response = await self.world.call(self, self.coordinator, RequestCode.RMQ_TXN_DECIDE, header, body)
            except RmqError as error:
                if not error.retriable:
                    return False
                continue
            outcome = response.header(TxnDecideResponseHeader).outcome
            return outcome in (TxnOutcome.COMMITTED, TxnOutcome.ALREADY_COMMITTED)
        return await self.ask(version, epoch)

    async def ask(self, version: int, epoch: int) -> bool:
        """No answer to DECIDE: what has become of it? Whatever it is, it is so for good."""
        header = TxnStatusRequestHeader(T, epoch, version, fence=True, run=self.run)
        for _ in range(_ASKS):
            try:
                response = await self.world.call(self, self.coordinator, RequestCode.RMQ_TXN_STATUS, header, b"")
            except RmqError:
                continue
            outcome = response.header(TxnStatusResponseHeader).outcome
            if outcome == TxnOutcome.FENCED:
                self.world.closed.add((epoch, version))
            return outcome == TxnOutcome.COMMITTED
        return False

    async def abort(self, version: int, messages: list[Message]) -> None:
        epoch = max((message.epoch for message in messages), default=0)
        header = TxnAbortRequestHeader(T, self.run, epoch, version)
        response = await self.world.call(self, self.coordinator, RequestCode.RMQ_TXN_ABORT, header, b"")
        if response.header(TxnAbortResponseHeader).outcome == TxnOutcome.FENCED:
            self.world.closed.add((epoch, version))


@cache
def _half(version: int, partition: int) -> tuple[bytes, int]:
    """The rows of a partition as a bulk body, and the size of each record."""
    records = [encode_record(topic=TOPIC, body=f"{version}.{partition}.{row}".encode()) for row in range(_ROWS)]
    return b"".join(records), len(records[0])
