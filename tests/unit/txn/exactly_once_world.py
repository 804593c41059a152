"""Two brokers, a network that loses, repeats, delays and reorders, and Spark drivers; everything can die at any moment.

The brokers are the real thing from the handlers' answers down to the files: ledger, journal, coordinator, completion,
participant, resolver, message store. Only sockets, disks and the clock are models. `World` has a method for each thing
that can happen, with a number that says where; who calls them decides what kind of test it is.

What must hold: in each target queue are the rows of versions 0..k, whole and in order, and nothing else, at every
moment; and once everything is well again, of all versions that Spark has recorded.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.broker.handlers.txn_coordinator import TxnCoordinatorHandlers
from rmqspark.broker.participation import verdict
from rmqspark.broker.queries import SparkQueries
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import RequestTimeout, RmqError
from rmqspark.fault_points import arm, disarm
from rmqspark.protocol.bodies_txn import OutputRanges, TxnComplete, TxnVote
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.header_fields import from_fields, to_fields
from rmqspark.protocol.headers_txn import TxnHalfResponseHeader, TxnOutcome, TxnVoteResponseHeader
from rmqspark.protocol.record import decode_record
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.response import Response
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.completer import Completer
from rmqspark.txn.coordination import Coordination, CoordinationConfig
from rmqspark.txn.half_batch import Batch, half_of
from rmqspark.txn.half_store import HalfStore
from rmqspark.txn.participant import Participant
from rmqspark.txn.ports import Complete, Vote
from rmqspark.txn.resolver import Resolver, Verdict

from .exactly_once_driver import CHECKPOINT, TOPIC, Driver, T, rows_of
from .exactly_once_loop import ModelLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    import msgspec

BROKERS = ("a", "b")
COORDINATOR = "a"
STEPS = ("before_vote", "after_vote", "after_decide", "before_complete", "mid_complete", "after_complete")
CONFIG = StoreConfig(
    mapped_file_size_commit_log=64 << 10, mapped_file_size_consume_queue=4_000, message_index_enable=False
)


class Message(NamedTuple):
    """A request on its way to `target`, or with `code` None the answer to one: `outcome` is a Reply or an error."""

    number: int
    target: str
    code: RequestCode | None = None
    header: Any = None
    body: bytes = b""
    outcome: Any = None


class Call(NamedTuple):
    """Somebody who waits for an answer: in this life of theirs, in no later one."""

    owner: Any
    life: int
    done: asyncio.Future[Response]


class Broken(AssertionError):
    """Rows are missing, doubled, out of order, or cannot be had at all."""


class PowerLost(ProcessDied):
    """A process dies with its machine: what was not synced is gone, or what `seed` picks of it."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.seed = seed


class World:
    def __init__(self) -> None:
        self.loop = ModelLoop()
        self.clock = ManualClock()
        self.network: deque[Message] = deque()
        self.late: list[Message] = []  # who sent them has given up
        self.calls: dict[int, Call] = {}
        self.numbers = 0
        self.recorded: set[int] = set()  # Spark's commit log
        self.granted = 0  # the newest epoch that a driver was given
        self.closed: set[tuple[int, int]] = set()  # epochs and versions that a driver was told are closed
        self.decided: set[tuple[int, int]] = set()  # those that were decided
        self.batches = 1  # how many have input
        self.drivers: list[Driver] = []
        self.runs = 0
        self.nodes = {name: Node(self, name) for name in BROKERS}
        self.loop.settle()

    # --- messages ----------------------------------------------------------------------------------------------------

    async def call(self, owner: Any, target: str, code: RequestCode, header: msgspec.Struct, body: Any) -> Response:
        """Sends a request and waits; raises what the answer stands for, or RequestTimeout."""
        number = self.numbers = self.numbers + 1
        done: asyncio.Future[Response] = self.loop.create_future()
        self.calls[number] = Call(owner, owner.life, done)
        self.network.append(Message(number, target, code, header, bytes(body)))
        try:
            return await done
        finally:
            self.calls.pop(number, None)

    def deliver(self, place: int = 0) -> None:
        """A message arrives: the oldest for 0."""
        if self.network:
            place %= len(self.network)
            message = self.network[place]
            del self.network[place]
            self.hand_over(message)

    def flow(self, count: int) -> None:
        """That many messages arrive in their order."""
        for _ in range(count):
            self.deliver()

    def repeat(self, place: int) -> None:
        """It arrives, and will arrive again."""
        if self.network:
            self.network.append(self.network[place % len(self.network)])
            self.deliver(place % (len(self.network) - 1))

    def lose(self, place: int) -> None:
        if self.network:
            del self.network[place % len(self.network)]

    def give_up(self, place: int) -> None:
        """Somebody's patience ends; what they sent may arrive all the same."""
        waiting = [
            number for number, call in self.calls.items() if not call.done.done() and call.life == call.owner.life
        ]
        if waiting:
            self.answer(waiting[place % len(waiting)], RequestTimeout("No answer in time."))

    def hold_back(self, place: int) -> None:
        """A request is under way for longer than anybody waits for its answer; it will arrive."""
        requests = [message for message in self.network if message.code is not None]
        if requests:
            message = requests[place % len(requests)]
            self.network.remove(message)
            self.late.append(message)
            self.answer(message.number, RequestTimeout("No answer in time."))

    def arrive_late(self, place: int) -> None:
        if self.late:
            self.hand_over(self.late.pop(place % len(self.late)))

    def hand_over(self, message: Message) -> None:
        if message.code is None:
            self.answer(message.number, message.outcome)
        elif message.target == CHECKPOINT:
            self.recorded.add(message.header.version)
            self.answer(message.number, Reply())
        else:
            self.nodes[message.target].receive(message)
        self.settle()

    def answer(self, number: int, outcome: Any) -> None:
        call = self.calls.get(number)
        if call is None or call.done.done() or call.life != call.owner.life:
            return
        if isinstance(outcome, Exception):
            call.done.set_exception(outcome)
        else:
            fields = to_fields(outcome.header)
            call.done.set_result(Response(outcome.code, number, outcome.remark, 0, fields, b"".join([outcome.body])))
        self.settle()

    def settle(self) -> None:
        self.loop.settle()
        for node in self.nodes.values():
            node.check()
        self.check_promises()

    def check_promises(self) -> None:
        """Nothing is decided that was closed, or under an older epoch than a driver has been given since."""
        coordinator = self.nodes[COORDINATOR]
        txn = coordinator.coordination.ledger.get(T) if coordinator.is_up else None
        if txn is None or txn.last_version < 0 or (txn.last_epoch, txn.last_version) in self.decided:
            return
        decided = txn.last_epoch, txn.last_version
        self.decided.add(decided)
        if decided in self.closed or txn.last_epoch < self.granted:
            raise Broken(f"version {decided[1]} was decided under epoch {decided[0]}, which was fenced")

    # --- deaths ------------------------------------------------------------------------------------------------------

    def crash(self, place: int, *, power: bool, seed: int | None = None) -> None:
        """A broker dies; with `power`, what was not synced is gone, or what `seed` picks of it."""
        self.nodes[BROKERS[place % 2]].die(power=power, seed=seed)

    def crash_within(self, place: int, changes: int, after_bytes: int) -> None:
        """A broker will die inside one of its next writes."""
        node = self.nodes[BROKERS[place % 2]]
        if node.is_up:
            node.files.stop_at(1 + changes, after_bytes=after_bytes)

    def die_at(self, place: int, arrival: int, death: ProcessDied) -> None:
        """The broker that comes to this step of the protocol dies there."""

        def die() -> None:
            raise death

        arm(STEPS[place % len(STEPS)], die, arrival=1 + arrival)

    def restart(self, place: int) -> None:
        self.nodes[BROKERS[place % 2]].start()
        self.settle()

    def kill_driver(self, place: int) -> None:
        if self.drivers:
            self.drivers.pop(place % len(self.drivers)).die()

    def start_run(self) -> None:
        """Spark is started on its checkpoint; a driver that is still there is a zombie from now on."""
        if len(self.drivers) < 3:
            self.runs += 1
            self.drivers.append(Driver(self, self.runs, COORDINATOR))
            self.settle()

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, place: int, seconds: int) -> None:
        """A round of what brokers do by the clock."""
        self.clock.advance(seconds=seconds)
        self.nodes[BROKERS[place % 2]].tick(place // 2)
        self.settle()

    def flush(self, place: int) -> None:
        self.nodes[BROKERS[place % 2]].flush()

    def grow(self) -> None:
        """There is input for one more batch."""
        self.batches += 1
        for driver in self.drivers:
            driver.wake()
        self.settle()

    # --- the check ---------------------------------------------------------------------------------------------------

    def make_well(self) -> None:
        """Everything is repaired and left alone; then every batch must be in, once and in order."""
        disarm_all()
        while self.late:
            self.arrive_late(0)
        for node in self.nodes.values():
            node.files.heal()
            if node.files_are_dead or not node.is_up:
                node.die(power=False)
                node.start()
        while self.drivers:
            self.drivers.pop().die()
        for round_ in range(60):
            self.clock.advance(seconds=61)
            for node in self.nodes.values():
                node.tick(0)
                node.tick(1)
                self.settle()
            self.drain()
            if not self.drivers or self.drivers[-1].has_ended:
                if round_ > 3 and self.is_done():
                    break
                while self.drivers:
                    self.drivers.pop().die()
                self.start_run()
                self.drain()
        self.check_all()

    def drain(self) -> None:
        for _ in range(2_000):
            if self.network:
                self.deliver()
            elif any(not call.done.done() and call.life == call.owner.life for call in self.calls.values()):
                self.give_up(0)  # what it waits for was lost
            else:
                return
        raise Broken("Messages go round and round.")

    def is_done(self) -> bool:
        return self.recorded == set(range(self.batches)) and not any(
            txn.pending for txn in self.nodes[COORDINATOR].coordination.ledger
        )

    def check_all(self) -> None:
        for node in self.nodes.values():
            wanted = [row for version in range(self.batches) for row in rows_of(node.name, version)]
            if node.rows() != wanted:
                raise Broken(f"{node.name} has {node.rows()} instead of {wanted}; Spark recorded {self.recorded}")
        txn = self.nodes[COORDINATOR].coordination.ledger.get(T)
        if txn is not None and txn.pending:
            raise Broken(f"versions {[pending.version for pending in txn.pending]} are never finished")
        if self.recorded != set(range(self.batches)):
            raise Broken(f"Spark could record {self.recorded} of {self.batches} batches")

    def close(self) -> None:
        """Ends what was left lying, on disks that are not there any more."""
        disarm_all()
        for node in self.nodes.values():
            node.die(power=False)
        self.loop.end()


class Node:
    """One broker."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.files = MemoryFileSystem()
        self.life = 0
        self.is_up = False
        self.seen = 0  # the end of the target queue when it was last checked
        self.left_lying: list[Any] = []
        self.start()

    # --- life and death ----------------------------------------------------------------------------------------------

    @property
    def files_are_dead(self) -> bool:
        return self.files._machine.faults._dead

    def start(self) -> None:
        if self.is_up and not self.files_are_dead:
            return
        if self.files_are_dead:
            self.die(power=False)
        clock = self.world.clock
        try:
            self.store = MessageStore.open("s", CONFIG, files=self.files, clock=clock, entropy=SystemEntropy(1))
            halves = HalfStore(self.store, clock)
            participant = Participant(max_halves=1_000, max_bytes=1 << 20)
            completer = Completer(
                participant, halves, check_target=lambda *_: None, broker_name=self.name, on_appended=lambda *_: None
            )
            self.resolver = Resolver(
                participant,
                halves,
                completer,
                self,
                clock,
                ask=self.ask,
                timeout_ms=6_000,
                check_interval_ms=60_000,
                reads_unsynced=True,
                max_output_bytes=1 << 20,
            )
            self.coordination = Coordination(
                CoordinationConfig(self.name, (), 3_600_000, 1 << 50, 1 << 20, restate_after_bytes=3_000),
                self.store,
                self.files.within("s"),
                clock,
                peers=self,  # type: ignore[arg-type]
                append=self.store.append,
                flush_to=self.flushed,
                participant_here=self.resolver,
                commit_here=lambda *_: None,
                leases_here=lambda *_: (),
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
            if not self.resolver.is_announced(half.name.batch):
                await self.resolver.introduce(half.name.batch)
            held = self.resolver.known(half) or self.resolver.take(half, body)
            return Reply(TxnHalfResponseHeader(held.physical_offset))
        if code is RequestCode.RMQ_TXN_VOTE:
            attempts = TxnVote.decode(body).attempts
            vote = Vote(header.transactionalId, header.epoch, header.version, attempts, header.completed)
            if not self.resolver.refusal(vote):
                await self.resolver.check_vote(vote)
            answer = await self.resolver.vote(vote)
            return Reply(TxnVoteResponseHeader(answer.yes), remark=answer.remark)
        if code is RequestCode.RMQ_TXN_COMPLETE:
            names = TxnComplete.decode(body).attempts
            commit = header.outcome == TxnOutcome.COMMIT
            decided = Complete(header.transactionalId, header.epoch, header.version, commit, names, header.durable)
            await self.resolver.check_complete(decided)
            outputs = await self.resolver.complete(decided)
            return Reply(body=OutputRanges(outputs).encode())
        request = _Request(header, body)
        answer = self.handlers[code].handle(request)  # type: ignore[index,arg-type]
        return answer if isinstance(answer, Reply) else await answer  # type: ignore[misc,return-value]

    # --- Peers, as far as a coordination needs them ------------------------------------------------------------------

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

    # --- what readers see --------------------------------------------------------------------------------------------

    def rows(self) -> list[str]:
        read = self.store.read_bulk(TOPIC, 0, 0, 1 << 40, max_count=1 << 20, max_bytes=1 << 30)
        rows, at = [], 0
        for size in read.sizes.tolist():
            rows.append(decode_record(read.body, at).body.decode())
            at += size
        return rows

    def check(self) -> None:
        """Whole versions from 0 on, in their order."""
        if not self.is_up or self.files_are_dead or self.store.max_offset(TOPIC, 0) == self.seen:
            return
        rows = self.rows()
        self.seen = len(rows)
        version, wanted = 0, list[str]()
        while len(wanted) < len(rows):
            wanted += rows_of(self.name, version)
            version += 1
        if rows != wanted:
            raise Broken(f"{self.name} shows {rows}")


def disarm_all() -> None:
    for step in STEPS:
        disarm(step)


class _Request(NamedTuple):
    header: Any
    body: memoryview
