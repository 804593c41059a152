"""Batches written exactly once, as the sink of a Spark query does it: halves, a decision, and after a failure again.

A version is tried under a new run until it is decided. Attempts that came to nothing leave their halves behind, as
tasks of Spark do that die. The last version is given up: it must never be readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

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
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.rendezvous import chosen
from rmqspark.testing.history import content_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import msgspec

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient

_TIMEOUT_MS: Final = 5_000
_QUERY: Final = "query"
_DONE: Final = (TxnOutcome.COMMITTED, TxnOutcome.ALREADY_COMMITTED)


class Row(NamedTuple):
    """One message of a version, the same in every attempt."""

    name: str
    body: bytes

    @property
    def content(self) -> tuple[str, str]:
        return self.name, content_of(self.body, {Property.KEYS: self.name})

    def record(self, queue: MessageQueue) -> bytes:
        properties = encode_properties({Property.KEYS: self.name, Property.UNIQ_KEY: self.name.ljust(32, "0")})
        return bytes(encode_record(topic=queue.topic, body=self.body, properties=properties, queue_id=queue.queue_id))


class BatchWriter:
    """The driver and the tasks of one query. `committed` are the rows that must be there in the end, once."""

    def __init__(self, client: SimClient, queues: Sequence[MessageQueue], versions: int) -> None:
        self.client = client
        self.committed: list[Row] = []
        self.name = client.name
        self._world = client.world
        self._queues = queues
        self._versions = versions
        self._owner = chosen(self.name, sorted({queue.broker_name for queue in queues}))
        self._runs = 0

    async def run(self) -> None:
        """All versions, one after the other, however long it takes; the last one is given up."""
        for version in range(self._versions):
            rows = self._rows(version)
            number = self._world.history.sending(f"{self.name}-{version}", [row.content for row in rows])
            if version < self._versions - 1:
                await self._write(version, rows)
                self.committed += rows
                self._world.history.in_doubt(number)
            else:
                await self._give_up(version, rows)
                self._world.history.not_sent(number, _GivenUp("given up"))
            await self.client.pause(3.0)

    def _rows(self, version: int) -> list[Row]:
        random = self.client.random
        return [
            Row(f"{self.name}-{version}-{number}", random.randbytes(random.randint(1, 200)))
            for number in range(random.randint(1, 8))
        ]

    # --- a version ---------------------------------------------------------------------------------------------------

    async def _write(self, version: int, rows: list[Row]) -> None:
        """Until it is committed."""
        while True:
            self._runs += 1
            self._world.trace.reached("batch tried")
            try:
                if await self._try(version, rows):
                    return
            except RmqError as error:
                self._world.trace.reached(f"batch {type(error).__name__}")
                if await self._became(version) in _DONE:
                    self._world.trace.reached("batch committed, and nobody heard")
                    return
            await self.client.pause(1.0)

    async def _try(self, version: int, rows: list[Row]) -> bool:
        """One run of it; whether it is committed now. Raises RmqError where nobody knows."""
        epoch = await self._prepare(version)
        if epoch is None:
            return True
        if epoch == 0:
            return False
        participants = await self._send_halves(version, epoch, rows)
        if self.client.random.random() < 0.2:
            self._world.trace.reached("batch aborted")
            return await self._abort(version, epoch) in _DONE
        self._world.trace.reached("batch to be decided")
        decision = TxnDecision(_QUERY, participants, rows=len(rows), topic=self._queues[0].topic, run=self._run)
        header = TxnDecideRequestHeader(self.name, self._run, epoch, version)
        answer = await self._ask(RequestCode.RMQ_TXN_DECIDE, header, TxnDecideResponseHeader, decision.encode())
        self._world.trace.reached(f"batch {answer.outcome}")
        if answer.outcome in _DONE:
            self._world.on_promise(self._owner, True)
        return answer.outcome in _DONE

    async def _prepare(self, version: int) -> int | None:
        """The epoch to write under, 0 if it may not, None if it is committed."""
        header = TxnPrepareRequestHeader(self.name, self._run, version, 0, self._attempt(version), _QUERY)
        answer = await self._ask(RequestCode.RMQ_TXN_PREPARE, header, TxnPrepareResponseHeader)
        if answer.outcome == TxnOutcome.ALREADY_COMMITTED:
            return None
        return answer.epoch if answer.outcome == TxnOutcome.WRITE else 0

    async def _send_halves(self, version: int, epoch: int, rows: list[Row]) -> dict[str, list[HeldAttempt]]:
        """Dealt to one to three queues; what each broker holds of them then."""
        random = self.client.random
        queues = random.sample(self._queues, min(len(self._queues), random.randint(1, 3)))
        held: dict[str, HeldAttempt] = {}
        for number, queue in enumerate(queues):
            records = [row.record(queue) for row in rows[number :: len(queues)]]
            if records:
                of_broker = held.setdefault(queue.broker_name, HeldAttempt(0, self._attempt(version)))
                await self._send_half(version, epoch, queue, records, of_broker)
        return {name: [attempt] for name, attempt in held.items()}

    async def _send_half(
        self, version: int, epoch: int, queue: MessageQueue, records: list[bytes], held: HeldAttempt
    ) -> None:
        body = b"".join([*(len(record).to_bytes(4, "big") for record in records), *records])
        header = TxnHalfRequestHeader(
            self.name,
            epoch,
            version,
            0,
            held.attempt,
            held.halves,
            queue.topic,
            queue.queue_id,
            len(records),
            0,
            crc32(body),
        )
        held.halves += 1
        held.rows += len(records)
        held.bytes += len(body)
        held.digest += header.bodyCrc32
        address = await self.client.address_of(queue)
        answer = await self.client.call(address, RequestCode.RMQ_TXN_HALF, header, body, timeout_ms=_TIMEOUT_MS)
        answer.raise_for_code()
        self._world.trace.reached("half batch held")

    async def _abort(self, version: int, epoch: int) -> str:
        header = TxnAbortRequestHeader(self.name, self._run, epoch, version)
        answer = await self._ask(RequestCode.RMQ_TXN_ABORT, header, TxnAbortResponseHeader)
        return str(answer.outcome)

    async def _became(self, version: int) -> str:
        """What became of it, in the end: undecided it is closed, and what is still on its way comes too late."""
        header = TxnStatusRequestHeader(self.name, 0, version, fence=True, run=self._run)
        while True:
            try:
                return str((await self._ask(RequestCode.RMQ_TXN_STATUS, header, TxnStatusResponseHeader)).outcome)
            except RmqError:
                await self.client.pause(1.0)

    async def _give_up(self, version: int, rows: list[Row]) -> None:
        """Its halves are there, and it is closed without a decision."""
        self._runs += 1
        try:
            epoch = await self._prepare(version)
            if epoch:
                await self._send_halves(version, epoch, rows)
                self._world.trace.reached("batch given up")
        except RmqError as error:
            self._world.trace.reached(f"batch {type(error).__name__}")
        if await self._became(version) in _DONE:
            self._world.violated(f"Law 8: version {version} of {self.name} is committed, and nobody asked for it")

    # --- how ---------------------------------------------------------------------------------------------------------

    @property
    def _run(self) -> str:
        return f"run-{self._runs}"

    def _attempt(self, version: int) -> str:
        return f"{version}-{self._runs}"

    async def _ask(self, code: RequestCode, header: msgspec.Struct, kind: Any, body: bytes = b"") -> Any:
        """The answer of whoever owns the transactional id. Raises RmqError."""
        queue = next(queue for queue in self._queues if queue.broker_name == self._owner)
        address = await self.client.address_of(queue)
        response = await self.client.call(address, code, header, body, timeout_ms=_TIMEOUT_MS)
        answer = response.raise_for_code().header(kind)
        if answer.outcome == TxnOutcome.REDIRECT:
            self._owner = answer.coordinator
            return await self._ask(code, header, kind, body)
        return answer


class _GivenUp(RmqError):
    """Nobody asked for it to be committed."""


def judge_rows(writers: Sequence[BatchWriter], seen: dict[str, int]) -> list[str]:
    """Law 8: of every committed version each row is there once. `seen` is how often each name was found in a scan."""
    return [
        f"Law 8: row {row.name} was committed, and is there {seen.get(row.name, 0)} times"
        for writer in writers
        for row in writer.committed
        if seen.get(row.name, 0) != 1
    ]
