"""Two brokers, a network that loses, repeats, delays and reorders, and Spark drivers; everything can die at any moment.

The brokers are the real thing from the handlers' answers down to the files: ledger, journal, coordinator, completion,
participant, resolver, message store. Only sockets, disks and the clock are models. `World` has a method for each thing
that can happen, with a number that says where; who calls them decides what kind of test it is.

What must hold: in each target queue are the rows of versions 0..k, whole and in order, and nothing else, at every
moment; and once everything is well again, of all versions that Spark has recorded. Where the topic was deleted, those
are missing that were sent before; nobody votes for such, and nothing that was decided waits for a topic.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.errors import RequestTimeout
from rmqspark.fault_points import arm, disarm
from rmqspark.protocol.headers.fields import to_fields
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.response import Response
from rmqspark.testing.manual_clock import ManualClock

from .exactly_once_driver import CHECKPOINT, Driver, T, is_empty
from .exactly_once_loop import ModelLoop
from .exactly_once_node import BROKERS, Broken, Message, Node
from .exactly_once_topic import AwaitedDeletion

if TYPE_CHECKING:
    import asyncio

    import msgspec

    from rmqspark.protocol.bodies.txn import HeldAttempt, TxnDecision
    from rmqspark.protocol.codes import RequestCode
    from rmqspark.testing.disk_faults import ProcessDied

COORDINATOR = "a"
STEPS = ("before_vote", "after_vote", "after_decide", "before_complete", "mid_complete", "after_complete")


class Call(NamedTuple):
    """Somebody who waits for an answer: in this life of theirs, in no later one."""

    owner: Any
    life: int
    done: asyncio.Future[Response]


class World:
    def __init__(self, *, expiration_ms: int = 1 << 50, files_are_small: bool = False) -> None:
        self.expiration_ms = expiration_ms  # of transactional ids
        self.files_are_small = files_are_small  # those of the log: a few batches fill one
        self.expired_files = 0
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
        self.decisions: dict[int, TxnDecision] = {}  # by version
        self.complaints: list[str] = []
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
        self.note_decisions()
        if self.complaints:
            raise Broken(self.complaints[0])
        for node in self.nodes.values():
            node.check()
        self.check_promises()

    def complain(self, story: str) -> None:
        """Something is wrong, says a task in which nobody would see an error."""
        self.complaints.append(story)

    def note_decisions(self) -> None:
        """Also what a coordinator has decided that is dead by now: others may have been told."""
        txn = self.nodes[COORDINATOR].coordination.ledger.get(T)
        for pending in txn.pending if txn is not None else ():
            self.decisions[pending.version] = pending.decision

    def attempts_of(self, broker: str) -> dict[int, list[HeldAttempt]]:
        """Which attempts count on a broker, by version; those of decisions."""
        return {
            version: decision.participants[broker]
            for version, decision in self.decisions.items()
            if broker in decision.participants
        }

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

    # --- the target topic --------------------------------------------------------------------------------------------

    def delete_topic(self, place: int, turns: int, *, amid: RequestCode | None, anew: bool) -> None:
        """A broker deletes the target topic: now, or so many turns into the next request of a kind."""
        node = self.nodes[BROKERS[place % 2]]
        node.awaited = AwaitedDeletion(amid, turns, anew)
        if amid is None:
            node.begin_deletion()
            self.settle()

    def make_topic(self, place: int) -> None:
        self.nodes[BROKERS[place % 2]].topic.is_there = True

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, place: int, seconds: int) -> None:
        """A round of what brokers do by the clock."""
        self.clock.advance(seconds=seconds)
        self.nodes[BROKERS[place % 2]].tick(place // 2)
        self.settle()

    def fill(self, place: int, count: int) -> None:
        """Others write to a broker."""
        self.nodes[BROKERS[place % 2]].fill(count)
        self.settle()

    def expire(self, place: int, hours: int, *, ticks: bool = True) -> None:
        """Time goes by, a broker writes down anew what it needs of old files (if it `ticks`), and they go."""
        self.clock.advance(hours=hours)
        node = self.nodes[BROKERS[place % 2]]
        for which in (0, 1) if ticks else ():
            node.tick(which)
            self.settle()
        node.expire()
        self.settle()

    def set_clock(self, hours: int) -> None:
        """The wall clock jumps, ahead or back."""
        self.clock.set_now_ms(self.clock.now_ms() + hours * 3_600_000)

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
            has_died = node.files_are_dead or not node.is_up  # it may be that no task of it has told yet
            node.files.heal()
            node.awaited = None
            if has_died:
                node.die(power=False)
                node.start()
        while self.drivers:
            self.drivers.pop().die()
        self.finish_without_topics()
        for round_ in range(60):
            self.pass_a_minute()
            if not self.drivers or self.drivers[-1].has_ended:
                if round_ > 3 and self.is_done():
                    break
                while self.drivers:
                    self.drivers.pop().die()
                self.start_run()
                self.drain()
        self.check_all()

    def finish_without_topics(self) -> None:
        """What is decided waits for no topic that was deleted; they are made anew behind that."""
        for _ in range(10):
            if not self.pending():
                break
            self.pass_a_minute()
        else:
            raise Broken(f"versions {self.pending()} are held up")
        for node in self.nodes.values():
            node.topic.is_there = True

    def pending(self) -> list[int]:
        """The versions that are decided and not known to be on all disks."""
        txn = self.nodes[COORDINATOR].coordination.ledger.get(T)
        return [pending.version for pending in txn.pending] if txn is not None else []

    def pass_a_minute(self) -> None:
        self.clock.advance(seconds=61)
        for node in self.nodes.values():
            node.tick(0)
            node.tick(1)
            self.settle()
        self.drain()

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
        return self.recorded == set(range(self.batches)) and not self.pending()

    def check_all(self) -> None:
        for node in self.nodes.values():
            node.check_rows([row for rows in node.decided() for row in rows])
            if [*self.attempts_of(node.name)] != [version for version in range(self.batches) if not is_empty(version)]:
                raise Broken(
                    f"Of {self.batches} batches only {[*self.attempts_of(node.name)]} were decided on {node.name}"
                )
        if self.pending():
            raise Broken(f"versions {self.pending()} are never finished")
        if self.recorded != set(range(self.batches)):
            raise Broken(f"Spark could record {self.recorded} of {self.batches} batches")

    def close(self) -> None:
        """Ends what was left lying, on disks that are not there any more."""
        disarm_all()
        for node in self.nodes.values():
            node.die(power=False)
        self.loop.end()


def disarm_all() -> None:
    for step in STEPS:
        disarm(step)
