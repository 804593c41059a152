"""One broker of a `World`: its files, the parts that make up its transactions, and what readers see of it.

All parts are the real ones, put together as `rmqspark/broker/broker.py` does it; only what would be a socket ends in
the world's network.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.broker.handlers.txn_coordinator import TxnCoordinatorHandlers
from rmqspark.broker.queries import SparkQueries
from rmqspark.broker.safekeeping.expiry_rounds import ExpiryRounds
from rmqspark.broker.transactions.participation import verdict
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.txn import OutputRanges, TxnComplete, TxnVote
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.fields import from_fields, to_fields
from rmqspark.protocol.headers.txn import TxnHalfResponseHeader, TxnOutcome, TxnVoteResponseHeader
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.remoting.reply import Reply
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.coordinator.coordination import Coordination, CoordinationConfig
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_batch import Batch, half_of
from rmqspark.txn.participant.half_store import HalfStore
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.resolver import Resolver, ResolverConfig
from rmqspark.txn.ports import Complete, Vote

from .exactly_once_driver import TOPIC, rows_of
from .exactly_once_topic import TargetTopic
from .no_leases import NoLeases

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmqspark.remoting.response import Response
    from rmqspark.txn.participant.hearsay import Verdict

    from .exactly_once_topic import AwaitedDeletion
    from .exactly_once_world import World

BROKERS = ("a", "b")
CONFIG = StoreConfig(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=4_000,
    message_index_enable=False,
    delete_when=";".join(f"{hour:02}" for hour in range(24)),
)
_SMALL_FILES = replace(CONFIG, mapped_file_size_commit_log=8 << 10, mapped_file_size_consume_queue=200)
_OTHERS = "others"
_OTHERS_BYTES = 1_000


class Message(NamedTuple):
    """A request on its way to `target`, or with `code` None the answer to one: `outcome` is a Reply or an error."""

    number: int
    target: str
    code: RequestCode | None = None
    header: Any = None
    body: bytes = b""
    outcome: Any = None


class Broken(AssertionError):
    """Rows are missing, doubled, out of order, or cannot be had at all."""


class PowerLost(ProcessDied):
    """A process dies with its machine: what was not synced is gone, or what `seed` picks of it."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = seed


class Node:
    """One broker."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.files = MemoryFileSystem(clock=world.clock)
        self.life = 0
        self.is_up = False
        self.seen = 0  # the end of the target queue when it was last checked
        self.topic = TargetTopic(self.files.within("s"))
        self.awaited: AwaitedDeletion | None = None
        self.left_lying: list[Any] = []
        self.start()

    # --- life and death ----------------------------------------------------------------------------------------------

    @property
    def files_are_dead(self) -> bool:
        return self.files.has_died

    def start(self) -> None:
        if self.is_up and not self.files_are_dead:
            return
        if self.files_are_dead:
            self.die(power=False)
        clock = self.world.clock
        config = _SMALL_FILES if self.world.files_are_small else CONFIG
        try:
            self.store = MessageStore.open("s", config, files=self.files, clock=clock, entropy=SystemEntropy(1))
            self.topic.store_opened()
            halves = HalfStore(self.store, clock)
            participant = Participant(max_halves=1_000, max_bytes=1 << 20)
            completer = Completer(
                participant,
                halves,
                check_target=self.topic.check,
                broker_name=self.name,
                on_appended=lambda *_: None,
            )
            self.resolver = Resolver(
                ResolverConfig(6_000, 60_000, reads_unsynced=True, max_output_bytes=1 << 20),
                participant,
                halves,
                completer,
                self,
                clock,
                ask=self.ask,
            )
            self.expiry = ExpiryRounds(self.store, self, self.needed_offset, clock)
            self.coordination = Coordination(
                CoordinationConfig(3_600_000, self.world.expiration_ms, 1 << 20, restate_after_bytes=3_000),
                self.store,
                self.files.within("s"),
                clock,
                peers=self,  # type: ignore[arg-type]
                append=self.store.append,
                flush_to=self.flushed,
                participant_here=self.resolver,
                commit_here=lambda _: [],
                leases_here=NoLeases(),
            )
            self.resolver.recover()
            self.handlers = TxnCoordinatorHandlers(
                self.coordination, SparkQueries(), clock, self.resolver.held_versions
            ).routes()
        except ProcessDied:
            self.die(power=False)
            return
        self.is_up, self.seen = True, 0

    def die(self, *, power: bool, seed: int | None = None) -> None:
        self.left_lying.append(self.__dict__.copy())
        self.life += 1
        self.is_up = False
        if power:
            self.files.crash(None if seed is None else SystemEntropy(seed))
        else:
            self.files.kill()

    def copy_of_disk(self) -> MemoryFileSystem:
        """As it is now, and of no process."""
        copy = deepcopy(self.files, {id(self.world.clock): self.world.clock})
        copy.kill()
        return copy

    def restart_on(self, disk: MemoryFileSystem) -> None:
        """It dies, and is started again with another disk: an earlier copy, or one that has nothing."""
        self.die(power=False)
        self.files, self.topic.files = disk, disk.within("s")
        self.start()

    def begin(self, work: Any) -> None:
        """A task that ends with this life of the broker."""
        life = self.life
        self.left_lying.append(self.world.loop.start(work, lambda: self.life == life))

    def process_died(self, life: int, death: ProcessDied) -> None:
        if life == self.life:
            self.die(power=isinstance(death, PowerLost), seed=getattr(death, "seed", None))

    # --- requests ----------------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        if self.is_up:
            if self.awaited is not None and self.awaited.amid is message.code:
                self.begin_deletion()
            self.begin(self.serve(message, self.life))

    async def serve(self, message: Message, life: int) -> None:
        try:
            outcome: Any = await self.handle(message)
        except RmqError as error:
            outcome = error
        except ProcessDied as death:
            self.process_died(life, death)
            return
        if life == self.life and not self.files_are_dead:
            self.world.network.append(Message(message.number, "", outcome=outcome))

    async def handle(self, message: Message) -> Reply:
        code, header = message.code, from_fields(to_fields(message.header), type(message.header))
        body = memoryview(bytearray(message.body))
        if code is RequestCode.RMQ_TXN_HALF:
            half = half_of(header, len(body))
            if not self.resolver.hearsay.is_announced(half.name.batch):
                await self.resolver.hearsay.introduce(half.name.batch)
            self.topic.check()
            held = self.resolver.known(half)
            if held is None:
                self.topic.take(half.name)
                held = self.resolver.take(half, body)
            return Reply(TxnHalfResponseHeader(held.physical_offset))
        if code is RequestCode.RMQ_TXN_VOTE:
            attempts = TxnVote.decode(body).attempts
            vote = Vote(header.transactionalId, header.epoch, header.version, attempts, header.completed)
            if not self.resolver.refusal(vote):
                await self.resolver.hearsay.check_vote(vote)
            answer = await self.resolver.vote(vote)
            if answer.yes and not self.topic.has_all_of(attempts):
                self.world.complain(f"{self.name} voted for rows of a topic that was deleted")
            return Reply(TxnVoteResponseHeader(answer.yes), remark=answer.remark)
        if code is RequestCode.RMQ_TXN_COMPLETE:
            names = TxnComplete.decode(body).attempts
            commit = header.outcome == TxnOutcome.COMMIT
            decided = Complete(header.transactionalId, header.epoch, header.version, commit, names, header.durable)
            await self.resolver.hearsay.check_complete(decided)
            outputs = await self.resolver.complete(decided)
            return Reply(body=OutputRanges(outputs).encode())
        request = _Request(header, body)
        answer = self.handlers[code].handle(request)  # type: ignore[index,arg-type]
        return answer if isinstance(answer, Reply) else await answer  # type: ignore[misc,return-value]

    # --- Peers, as far as a coordination needs them ------------------------------------------------------------------

    retired: frozenset[str] = frozenset()

    @property
    def own_name(self) -> str:
        return self.name

    def names(self) -> list[str]:
        return [name for name in BROKERS if name != self.name]

    async def listed(self, brokers: Collection[str]) -> set[str]:
        return set(self.names()) & set(brokers)

    async def refresh(self) -> bool:
        return True

    async def call(self, broker: str, code: RequestCode, header: Any, body: Any = b"", *, timeout_ms: int) -> Response:
        return await self.world.call(self, broker, code, header, body)

    async def ask(self, batch: Batch) -> Verdict:
        return verdict(batch, await self.coordination.status_of(*batch), self.name)

    # --- the disk ----------------------------------------------------------------------------------------------------

    async def flushed(self, end_offset: int) -> None:
        self.store.flush()

    def hurry(self) -> None: ...

    def flush(self) -> None:
        if self.is_up and not self.files_are_dead:
            try:
                self.store.checkpoint()
            except ProcessDied:
                return

    def fill(self, count: int) -> None:
        """Others write so many messages to a topic of theirs: files fill, and older ones may go."""
        if self.is_up and not self.files_are_dead:
            records = [encode_record(topic=_OTHERS, body=bytes(_OTHERS_BYTES)) for _ in range(count)]
            try:
                self.store.append([Draft(_OTHERS, 0, record) for record in records])
            except ProcessDied:
                return

    def expire(self) -> None:
        if self.is_up and not self.files_are_dead:
            self.begin(self.guarded(self.expired(), self.life))

    async def expired(self) -> None:
        self.store.checkpoint()  # as a broker does every second
        report = await self.expiry.run()
        self.world.expired_files += len(report.deleted)

    def needed_offset(self) -> int:
        needed = (self.coordination.needed_offset, self.resolver.needed_offset())
        return min(offset for offset in needed if offset is not None)

    def tick(self, which: int) -> None:
        if self.is_up and not self.files_are_dead:
            work = self.resolver.check_back() if which % 2 else self.coordination.tick()
            self.begin(self.guarded(work, self.life))

    async def guarded(self, work: Any, life: int) -> None:
        try:
            await work
        except RmqError:
            return
        except ProcessDied as death:
            self.process_died(life, death)

    def begin_deletion(self) -> None:
        """The one of the target topic that is awaited."""
        deletion, self.awaited = self.awaited, None
        if deletion is not None and self.topic.is_there and self.is_up and not self.files_are_dead:
            self.begin(self.guarded(self.delete_topic(deletion), self.life))

    async def delete_topic(self, deletion: AwaitedDeletion) -> None:
        for _ in range(deletion.turns):
            await asyncio.sleep(0)
        self.seen = 0
        self.topic.delete(self.store, anew=deletion.anew)

    # --- what readers see --------------------------------------------------------------------------------------------

    def rows(self) -> list[str]:
        """Those that have not expired."""
        first = self.store.queues.min_offset(TOPIC, 0)
        if first == self.store.queues.max_offset(TOPIC, 0):
            return []
        read = self.store.read_bulk(TOPIC, 0, first, 1 << 40, max_count=1 << 20, max_bytes=1 << 30)
        rows, at = [], 0
        for size in read.sizes.tolist():
            rows.append(decode_record(read.body, at).body.decode())
            at += size
        return rows

    def check(self) -> None:
        """Whole versions from the first on, in their order, but for what has expired of them."""
        if not self.is_up or self.files_are_dead or self.store.queues.max_offset(TOPIC, 0) == self.seen:
            return
        self.seen = self.store.queues.max_offset(TOPIC, 0)
        wanted = list[str]()
        for rows in self.decided():
            if len(wanted) < self.seen:
                wanted += rows
        self.check_rows(wanted)

    def decided(self) -> list[list[str]]:
        """The rows of each version that was decided and is for the topic as it is now, in their order."""
        attempts = sorted(self.world.attempts_of(self.name).items())
        return [rows_of(self.name, version) for version, counted in attempts if self.topic.has_all_of(counted)]

    def check_rows(self, wanted: list[str]) -> None:
        """These were written, and nothing else; the oldest may have expired."""
        count, rows = self.store.queues.max_offset(TOPIC, 0), self.rows()
        if count != len(wanted) or rows != wanted[self.store.queues.min_offset(TOPIC, 0) :]:
            raise Broken(f"{self.name} shows {rows}, the last of {count}, instead of {wanted}")


class _Request(NamedTuple):
    header: Any
    body: memoryview
