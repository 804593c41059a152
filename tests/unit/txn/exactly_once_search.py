"""Every interleaving of two runs of a query, two versions, two participants and one coordinator, up to a bound.

The ledger, the participant, its resolver and completer are the real ones; a state keeps only their logs, and they are
made from these again (what a log says is all they know). Around them, as tuples: what the drivers are at, which DECIDEs
are still on their way, what the coordinator is doing. Its voting, rollout and journal are models here, and so are
stores, disks and check-backs.

In every state, anything that can happen next does: the next step of anybody; a request or its answer lost; a DECIDE
delivered late or twice; a power loss of anybody, which leaves any part of the log behind the last flush; a driver that
gives up, or goes on as a zombie beside the next one.

Checked in every state: what readers see, and that nothing is decided which a driver was told is closed. In a share of
them, from there on everything goes well: then each version is there once, in order, on both brokers, and the
coordinator knows.

Nearest first and up to a bound, from the beginning, it does not come to version 1's decision. So tests begin it
further on, too (`follow`), and count how far it came (`reach`).
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.errors import Busy, RmqError
from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.txn.coordinator.events import Event, decode_event, encode_event
from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_batch import Batch, HalfBatch, HalfName
from rmqspark.txn.participant.held import AppendedRows
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.participant_events import Summary
from rmqspark.txn.participant.participant_events import decode_event as decode_participant_event
from rmqspark.txn.participant.participant_events import encode_event as encode_participant_event
from rmqspark.txn.participant.resolver import Resolver, ResolverConfig
from rmqspark.txn.ports import Complete, Vote, VoteAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

T = "t"
BROKERS = (0, 1)
LAST_VERSION = 1
RUNS = (1, 2)
LOSSES = CUTS = 2
HELD = HeldAttempt(0, "x", 1, 1, 1, 1)


class Log(NamedTuple):
    """Entries, and how many of them are on disk."""

    entries: tuple[Any, ...] = ()
    flushed: int = 0


class Driver(NamedTuple):
    """A run: which version it is at, with which epoch, and what it does next."""

    version: int
    epoch: int = 0
    at: str = "prepare"  # hold0, hold1, decide, wait, ask, over


class Service(NamedTuple):
    """A DECIDE that the coordinator is at: the votes it has, or whether the decision is taken and who has completed."""

    run: int
    epoch: int
    version: int
    voted: int = 0
    is_decided: bool = False
    completed: int = 0


class State(NamedTuple):
    ledger: Log = Log()
    brokers: tuple[Log, Log] = (Log(), Log())
    drivers: tuple[Driver | None, Driver | None] = (None, None)
    requests: tuple[tuple[int, int, int], ...] = ()  # DECIDEs on their way: run, epoch, version
    service: Service | None = None
    recorded: int = -1  # Spark's commit log
    told: frozenset[tuple[int, int]] = frozenset()  # what drivers know to be closed
    losses: int = LOSSES  # of requests or answers, still to come
    cuts: int = CUTS  # of power
    repeats: int = 1


class Wrong(AssertionError):
    """A law is broken; `path` leads there."""

    def __init__(self, law: str, path: list[str]) -> None:
        super().__init__(f"{law}, after {len(path)} steps: {' · '.join(path)}")
        self.path = path


class Search:
    """`run` visits states, nearest first, until there are `limit` of them. Tests override one rule to switch it off."""

    def __init__(self, *, healed_share: int = 8) -> None:
        self._healed_share = healed_share
        self._memory: dict[Any, Any] = {}
        self.parents: dict[State, tuple[State, str] | None] = {}

    def run(self, limit: int, start: State | None = None) -> int:
        """How many states there were. Raises Wrong with the shortest way to a state that breaks a law."""
        first = start or State()
        if start not in self.parents:
            self.parents = {first: None}
        waiting = deque([first])
        while waiting and len(self.parents) < limit:
            state = waiting.popleft()
            for step, after in self.steps(state):
                if after not in self.parents:
                    self.parents[after] = (state, step)
                    self.check(after)
                    waiting.append(after)
        return len(self.parents)

    def follow(self, *steps: str) -> State:
        """Goes this way from the beginning, each step named by how its text begins."""
        state = State()
        self.parents = {state: None}
        for wanted in steps:
            step, after = next(found for found in self.steps(state) if found[0].startswith(wanted))
            self.parents[after] = (state, step)
            self.check(after)
            state = after
        return state

    def reach(self) -> Counter[str]:
        """How far this came: its states, steps from the beginning, and states in which the last version was in."""
        found, depths = Counter(states=len(self.parents), steps=0), dict[State, int]()
        for state, parent in self.parents.items():
            depths[state] = depths[parent[0]] + 1 if parent else 0
            txn = self.ledger_of(state.ledger).get(T)
            found["decided"] += txn is not None and txn.last_version == LAST_VERSION
            found["recorded"] += state.recorded == LAST_VERSION
            for broker in BROKERS:
                is_readable = LAST_VERSION in rows_in(state.brokers[broker])
                found[f"readable on {broker}"] += is_readable
                found[f"readable after faults on {broker}"] += (
                    is_readable and state.losses < LOSSES and state.cuts < CUTS
                )
        found["steps"] = max(depths.values())
        return found

    # --- rules that tests switch off ---------------------------------------------------------------------------------

    def flush_ledger(self, log: Log) -> Log:
        return log._replace(flushed=len(log.entries))

    def vote(self, log: Log, request: Vote) -> tuple[Log, VoteAnswer]:
        return self.on_broker(log, "vote", request)

    def earlier(self, ledger: Log, broker: int) -> list[Any]:
        """What a broker has to complete before it votes."""
        return self.in_order(ledger, broker)

    def in_order(self, ledger: Log, broker: int) -> list[Any]:
        txn = self.ledger_of(ledger).get(T)
        return [each for each in txn.pending if str(broker) in each.brokers_left()] if txn else []

    # --- what can happen next ----------------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for run in RUNS:
            yield from self.steps_of_driver(state, run)
        yield from self.steps_of_coordinator(state)
        if state.cuts:
            yield from self.power_cuts(state)

    def steps_of_driver(self, state: State, run: int) -> Iterator[tuple[str, State]]:
        driver = state.drivers[run - 1]
        if driver is None:
            if (run == 1 or state.drivers[0] is not None) and state.recorded < LAST_VERSION:
                yield f"run {run} starts", self.move(state, run, Driver(state.recorded + 1))
            return
        version, epoch, at = driver
        if at == "prepare":
            ledger, answer = self.on_ledger(state.ledger, "prepare", T, f"r{run}", version, "", 0)
            after = state._replace(ledger=self.flush_ledger(ledger))
            if answer.outcome is TxnOutcome.WRITE:
                yield f"run {run} may write {version}", self.move(after, run, Driver(version, answer.epoch, "hold0"))
            elif answer.outcome is TxnOutcome.ALREADY_COMMITTED:
                yield f"run {run} finds {version} committed", self.record(after, run, driver)
            else:
                yield f"run {run} is refused", self.move(after, run, driver._replace(at="over"))
        elif at in ("hold0", "hold1"):
            broker = int(at[-1])
            log, taken = self.on_broker(state.brokers[broker], "hold", (epoch, version))
            after = self.put(state, broker, log)
            following = ("hold1" if broker == 0 else "decide") if taken else "ask"
            yield f"run {run} sends {version} to {broker}", self.move(after, run, driver._replace(at=following))
        elif at == "decide":
            requests = tuple(sorted((*state.requests, (run, epoch, version))))
            yield (
                f"run {run} asks to commit {version}",
                self.move(state._replace(requests=requests), run, driver._replace(at="wait")),
            )
        elif at == "wait":
            yield f"run {run} waits no longer", self.move(state, run, driver._replace(at="ask"))
        elif at == "ask" and (state.service is None or state.service.is_decided):
            try:
                ledger, answer = self.on_ledger(state.ledger, "close", T, epoch, version, 0)
            except RmqError:
                return
            after = state._replace(ledger=self.flush_ledger(ledger))
            if answer.outcome is TxnOutcome.COMMITTED:
                yield f"run {run} hears {version} is committed", self.record(after, run, driver)
            else:
                told = after.told | {(epoch, version)}
                after = after._replace(told=told)
                yield f"run {run} hears {version} is closed", self.move(after, run, driver._replace(at="over"))

    def steps_of_coordinator(self, state: State) -> Iterator[tuple[str, State]]:
        if state.service is None:
            for request in dict.fromkeys(state.requests):
                yield from self.take_request(state, request)
            yield from self.background(state)
        elif not state.service.is_decided:
            yield from self.poll(state, state.service)
        else:
            yield from self.complete(state, state.service)

    def take_request(self, state: State, request: tuple[int, int, int]) -> Iterator[tuple[str, State]]:
        run, epoch, version = request
        rest = list(state.requests)
        rest.remove(request)
        kept = [(state._replace(requests=tuple(rest)), "")]
        if state.repeats:
            kept.append((state._replace(repeats=state.repeats - 1), " (and will again)"))
        for after, note in kept:
            try:
                answer = self.ledger_of(after.ledger).decide(T, f"r{run}", epoch, version, decision())
            except RmqError:
                yield f"a commit of {version} is refused{note}", self.answer(after, run, version, committed=False)
                continue
            if answer is None:
                yield f"the commit of {version} arrives{note}", after._replace(service=Service(run, epoch, version))
            else:
                committed = answer.outcome is TxnOutcome.ALREADY_COMMITTED
                service = Service(run, epoch, version, is_decided=True)
                if committed:
                    yield f"{version} is committed already{note}", after._replace(service=service)
                else:
                    yield f"{version} is {answer.outcome}{note}", self.answer(after, run, version, committed=False)

    def poll(self, state: State, service: Service) -> Iterator[tuple[str, State]]:
        run, epoch, version = service[:3]
        if service.voted < len(BROKERS):
            broker = service.voted
            after, done = state, -1
            for pending in self.earlier(state.ledger, broker):
                log, error = self.on_broker(after.brokers[broker], "complete", completing(pending))
                after, done = self.put(after, broker, log), pending.version
                if error:
                    yield (
                        f"{broker} cannot complete {pending.version}",
                        self.answer(after, run, version, committed=False),
                    )
                    return
            log, vote = self.vote(after.brokers[broker], Vote(T, epoch, version, [HELD], done))
            voted = self.put(after, broker, log)
            if vote.yes:
                for pending in self.earlier(state.ledger, broker):
                    voted = self.confirm(voted, pending.version, broker)
                yield f"{broker} votes yes", voted._replace(service=service._replace(voted=broker + 1))
            else:
                yield f"{broker} votes no", self.answer(voted, run, version, committed=False)
            if state.losses:
                lost = voted._replace(losses=state.losses - 1)
                yield f"the vote of {broker} is lost", self.answer(lost, run, version, committed=False)
            return
        ledger, answer = self.on_ledger(state.ledger, "record", T, epoch, version, decision(), 0)
        if answer.outcome is not TxnOutcome.COMMITTED:
            yield f"{version} is {answer.outcome}", self.answer(state, run, version, committed=False)
            return
        if (epoch, version) in state.told:
            raise Wrong(f"version {version} was decided under epoch {epoch}, which is closed", self.path(state))
        decided = state._replace(ledger=self.flush_ledger(ledger), service=service._replace(is_decided=True))
        yield f"{version} is decided", decided

    def complete(self, state: State, service: Service) -> Iterator[tuple[str, State]]:
        """The answer goes out when all brokers were told; it, too, may be lost."""
        if service.completed < len(BROKERS):
            broker = service.completed
            after = state._replace(service=service._replace(completed=broker + 1))
            yield f"{broker} completes", self.complete_on(after, broker)
            if state.losses:
                yield f"{broker} is not told", after._replace(losses=state.losses - 1)
            return
        yield f"{service.version} is answered", self.answer(state, service.run, service.version, committed=True)

    def background(self, state: State) -> Iterator[tuple[str, State]]:
        for broker in BROKERS:
            pending = self.in_order(state.ledger, broker)
            if pending:
                yield f"{broker} is told again", self.complete_on(state, broker, durable=True)

    def complete_on(self, state: State, broker: int, *, durable: bool = False) -> State:
        for pending in self.in_order(state.ledger, broker):
            log, error = self.on_broker(state.brokers[broker], "complete", completing(pending, durable))
            state = self.put(state, broker, log)
            if error:
                break
            if durable:
                state = self.confirm(state, pending.version, broker)
        return state

    def power_cuts(self, state: State) -> Iterator[tuple[str, State]]:
        """Any part of what is behind the last flush may survive, but no hole."""
        spent = state._replace(cuts=state.cuts - 1)
        for kept in range(state.ledger.flushed, len(state.ledger.entries) + 1):
            log = Log(state.ledger.entries[:kept], kept)
            yield f"the coordinator loses power, {kept} events stay", spent._replace(ledger=log, service=None)
        for broker in BROKERS:
            log = state.brokers[broker]
            for kept in range(log.flushed, len(log.entries) + 1):
                cut = self.restart(Log(log.entries[:kept], kept))
                yield f"{broker} loses power, {kept} entries stay", self.put(spent, broker, cut)

    # --- small parts -------------------------------------------------------------------------------------------------

    def move(self, state: State, run: int, driver: Driver) -> State:
        drivers = list(state.drivers)
        drivers[run - 1] = driver
        return state._replace(drivers=(drivers[0], drivers[1]))

    def record(self, state: State, run: int, driver: Driver) -> State:
        """The driver writes its commit log, and goes on."""
        following = Driver(driver.version + 1) if driver.version < LAST_VERSION else driver._replace(at="over")
        return self.move(state, run, following)._replace(recorded=max(state.recorded, driver.version))

    def answer(self, state: State, run: int, version: int, *, committed: bool) -> State:
        """The driver hears of it, if it still waits."""
        state = state._replace(service=None)
        driver = state.drivers[run - 1]
        if driver is None or driver.at != "wait" or driver.version != version:
            return state
        return self.record(state, run, driver) if committed else self.move(state, run, driver._replace(at="ask"))

    def put(self, state: State, broker: int, log: Log) -> State:
        return state._replace(brokers=(log, state.brokers[1]) if broker == 0 else (state.brokers[0], log))

    def confirm(self, state: State, version: int, broker: int) -> State:
        events = self.ledger_of(state.ledger).completed(T, version, {str(broker): []})
        return state._replace(ledger=appended(state.ledger, events))

    # --- the real parts ----------------------------------------------------------------------------------------------

    def ledger_of(self, log: Log) -> Ledger:
        key = ("ledger", log.entries)
        if key not in self._memory:
            ledger = Ledger()
            for entry in log.entries:
                ledger.apply(decode_event(entry))
            self._memory[key] = ledger
        return self._memory[key]

    def on_ledger(self, log: Log, name: str, *arguments: Any) -> tuple[Log, Any]:
        answer = getattr(self.ledger_of(log), name)(*arguments)
        return appended(log, answer.events), answer

    def on_broker(self, log: Log, name: str, request: Any) -> tuple[Log, Any]:
        """What a broker does and says; remembered, for the same happens in many states."""
        key = (log, name, repr(request))
        if key not in self._memory:
            broker = _Broker(log)
            answer = getattr(broker, name)(request)
            self._memory[key] = broker.log, answer
        return self._memory[key]

    def restart(self, log: Log) -> Log:
        key = ("restart", log)
        if key not in self._memory:
            self._memory[key] = _Broker(log, restore=True).log
        return self._memory[key]

    # --- the laws ----------------------------------------------------------------------------------------------------

    def path(self, state: State) -> list[str]:
        steps = []
        while (parent := self.parents.get(state)) is not None:
            state, step = parent
            steps.append(step)
        return steps[::-1]

    def check(self, state: State) -> None:
        for broker in BROKERS:
            rows = rows_in(state.brokers[broker])
            if rows != list(range(len(rows))):
                raise Wrong(f"broker {broker} shows versions {rows}", self.path(state))
        if hash((state.ledger, state.brokers, state.recorded)) % self._healed_share == 0:
            self.heal(state)

    def heal(self, state: State) -> None:
        """From here on nothing goes wrong any more."""
        path = self.path(state)
        key = ("healed", state.ledger, state.brokers, state.recorded, state.requests)
        if key in self._memory:
            return
        self._memory[key] = True
        late = state.requests
        state = state._replace(service=None, losses=0, cuts=0, repeats=0, requests=())
        for version in range(state.recorded + 1, LAST_VERSION + 1):
            state = self.calm(state)
            state = self.write(state, version, path)
        for request in late:
            state = self.calm(state._replace(requests=(request,)))
            ((_, state),) = self.take_request(state, request)  # not twice: no repeats are left
            if state.service is not None and not state.service.is_decided:
                raise Wrong(f"a late commit of {request[2]} is taken", path)
            state = state._replace(service=None)
        state = self.calm(state)
        for broker in BROKERS:
            rows = rows_in(state.brokers[broker])
            if rows != list(range(LAST_VERSION + 1)):
                raise Wrong(f"when all is well again, broker {broker} shows versions {rows}", path)
            if pending := self.in_order(state.ledger, broker):
                raise Wrong(f"when all is well again, broker {broker} is still to complete {pending[0].version}", path)

    def calm(self, state: State) -> State:
        """Everybody asks about, and completes, what is left over."""
        ledger = self.flush_ledger(state.ledger)
        state = state._replace(ledger=ledger)
        for broker in BROKERS:
            state = self.complete_on(state, broker, durable=True)
            log, _ = self.on_broker(
                state.brokers[broker], "check_back", _Verdicts(ledger, self.ledger_of(ledger), broker)
            )
            state = self.put(state, broker, log)
            state = self.complete_on(state, broker, durable=True)
        return state

    def write(self, state: State, version: int, path: list[str]) -> State:
        """A run for which everything goes well."""
        name = f"well-{version}"
        ledger, answer = self.on_ledger(state.ledger, "prepare", T, name, version, "", 0)
        state = state._replace(ledger=self.flush_ledger(ledger))
        if answer.outcome is TxnOutcome.ALREADY_COMMITTED:
            return state._replace(recorded=version)
        if answer.outcome is not TxnOutcome.WRITE:
            raise Wrong(f"a new run is told {answer.outcome} for version {version}", path)
        for broker in BROKERS:
            log, taken = self.on_broker(state.brokers[broker], "hold", (answer.epoch, version))
            if not taken:
                raise Wrong(f"broker {broker} takes nothing of a new run", path)
            log, vote = self.on_broker(log, "vote", Vote(T, answer.epoch, version, [HELD], -1))
            if not vote.yes:
                raise Wrong(f"broker {broker} never votes yes: {vote.remark}", path)
            state = self.put(state, broker, log)
        ledger, recorded = self.on_ledger(state.ledger, "record", T, answer.epoch, version, decision(), 0)
        if recorded.outcome is not TxnOutcome.COMMITTED:
            raise Wrong(f"version {version} of a new run is {recorded.outcome}", path)
        return self.calm(state._replace(ledger=self.flush_ledger(ledger), recorded=version))


def decision() -> TxnDecision:
    return TxnDecision("", {str(broker): [HELD] for broker in BROKERS}, rows=len(BROKERS))


def completing(pending: Any, durable: bool = False) -> Complete:
    return Complete(T, pending.epoch, pending.version, True, [AttemptName(0, "x")], durable)


def appended(log: Log, events: Collection[Event]) -> Log:
    return log._replace(entries=(*log.entries, *map(encode_event, events))) if events else log


def rows_in(log: Log) -> list[int]:
    """The versions whose rows are in the target queue."""
    return [entry[2] for entry in log.entries if isinstance(entry, tuple) and entry[0] == "rows"]


class _Verdicts(NamedTuple):
    """What the coordinator says when a broker checks back. Two with the same log say the same."""

    log: Log
    ledger: Ledger
    broker: int

    def __repr__(self) -> str:
        return f"{self.log} {self.broker}"


_RESOLVER = ResolverConfig(1, 1, reads_unsynced=True, max_output_bytes=1 << 20)


class _Broker:
    """The real participant, completer and resolver on a log of tuples: halves, events, rows."""

    def __init__(self, log: Log, *, restore: bool = False) -> None:
        self._entries = list(log.entries)
        self._flushed = log.flushed
        self._participant = Participant(max_halves=100, max_bytes=1 << 20)
        self._completer = Completer(
            self._participant,
            self,  # type: ignore[arg-type]
            check_target=lambda *_: None,
            broker_name="",
        )
        if restore:
            self._completer.restore()
            self._flushed = len(self._entries)
        else:
            for at, entry in enumerate(log.entries):
                self._recall(entry, at)
        self._resolver = Resolver(
            _RESOLVER,
            self._participant,
            self,  # type: ignore[arg-type]
            self._completer,
            self,
            ManualClock(),
            ask=None,  # type: ignore[arg-type]
        )

    def _recall(self, entry: Any, at: int) -> None:
        if isinstance(entry, HalfBatch):
            self._participant.hold(entry)
        elif isinstance(entry, bytes):
            event = decode_participant_event(entry)
            self._participant.apply(event, at)
            if isinstance(event, Summary):
                for half in event.held:
                    self._participant.hold(self._entries[half])

    @property
    def log(self) -> Log:
        return Log(tuple(self._entries), self._flushed)

    # --- requests

    def hold(self, request: tuple[int, int]) -> bool:
        epoch, version = request
        half = HalfBatch(HalfName(Batch(T, epoch, version), 0, "x", 0), "out", 0, 1, 0, 1, 1)
        try:
            if self._resolver.known(half) is None:
                self._resolver.take(half, memoryview(b"x"))
        except RmqError:
            return False
        return True

    def vote(self, request: Vote) -> VoteAnswer:
        return _now(self._resolver.vote(request))

    def complete(self, request: Complete) -> str:
        """Empty, or what went wrong."""
        try:
            _now(self._resolver.complete(request))
        except RmqError as error:
            return str(error)
        return ""

    def check_back(self, verdicts: _Verdicts) -> bool:
        for batch in sorted(self._participant.batches(), key=lambda batch: (batch.version, batch.epoch)):
            if T not in verdicts.ledger:
                self._completer.dismiss(batch)
                continue
            answer = verdicts.ledger.status(*batch)
            if answer.outcome is TxnOutcome.UNKNOWN:
                continue
            commit = answer.outcome is TxnOutcome.COMMITTED and answer.epoch == batch.epoch
            try:
                if commit:
                    _now(self._resolver.complete(Complete(*batch, commit=True, attempts=[AttemptName(0, "x")])))
                else:
                    self._completer.dismiss(batch)
            except Busy:
                continue
        return True

    # --- HalfStore

    @property
    def end_offset(self) -> int:
        return len(self._entries)

    @property
    def min_offset(self) -> int:
        return 0

    @property
    def next_half(self) -> int:
        return len(self._entries)

    def put(self, half: HalfBatch, body: memoryview) -> HalfBatch:
        held = half._replace(queue_offset=len(self._entries), physical_offset=len(self._entries))
        self._entries.append(held)
        return held

    def find(self, summary: Summary | None) -> list[HalfBatch]:
        wanted = None if summary is None else set(summary.held)
        return [
            entry
            for at, entry in enumerate(self._entries)
            if isinstance(entry, HalfBatch) and (wanted is None or at in wanted or at >= summary.next_half)  # type: ignore[union-attr]
        ]

    def record(self, event: Any, *, most_bytes: int | None = None) -> int:
        self._entries.append(encode_participant_event(event))
        return len(self._entries) - 1

    def events(self) -> list[tuple[Any, int]]:
        found = [
            (decode_participant_event(entry), at) for at, entry in enumerate(self._entries) if isinstance(entry, bytes)
        ]
        summaries = [place for place, (event, _) in enumerate(found) if isinstance(event, Summary)]
        return found[summaries[-1] if summaries else 0 :]

    def prepare(self, halves: Sequence[HalfBatch], skipped: int = 0) -> Any:
        return SimpleNamespace(run=lambda: None, halves=halves, skipped=skipped)

    def append(self, preparation: Any, meanwhile: Callable[[], None]) -> list[AppendedRows]:
        appended = []
        for half in preparation.halves:
            self._entries.append(("rows", half.physical_offset, half.name.batch.version))
            appended.append(AppendedRows(len(self._entries) - 1, 1))
        meanwhile()
        return appended

    def rows_present(self, log_offset: int, halves: Collection[int]) -> dict[int, AppendedRows]:
        return {
            entry[1]: AppendedRows(at, 1)
            for at, entry in enumerate(self._entries)
            if isinstance(entry, tuple) and entry[0] == "rows" and at >= log_offset and entry[1] in halves
        }

    def check_room(self, size_bytes: int) -> None: ...

    def was_deleted(self, half: HalfBatch) -> bool:
        return False

    def flush(self) -> None:
        self._flushed = len(self._entries)

    @contextmanager
    def publishing_together(self) -> Iterator[None]:
        yield

    # --- Disk

    async def flushed(self, end_offset: int) -> None:
        self._flushed = max(self._flushed, len(self._entries))

    def hurry(self) -> None: ...


def _now(work: Any) -> Any:
    """Runs a coroutine that waits for nobody."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        return end.value
