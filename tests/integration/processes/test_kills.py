"""Brokers killed under load, again and again, on one store: what they acknowledged is there, and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from random import Random
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.testing.history import Event, History, JsonLines, Seen, Send, Sent
from rmqspark.testing.history_checker import Checker

from .derived import assert_derived
from .load import QUEUES, TOPIC, Doubt, Load, kind_of
from .readers import scan, scan_as_consumer
from .servers import BROKER, UpProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]
KILLS, KILLS_OF_A_SOAK = 30, 300
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
_MOST_BETWEEN_KILLS = 3000  # acknowledged messages
_STARTS_KILLED = 0.2  # share of starts that are killed before they are through
_QUERIES = 100
_PATIENCE_S = 60


class UnderWay:
    """Which kinds of sends nobody heard the end of, since the last look."""

    def __init__(self) -> None:
        self._producers: dict[int, str] = {}
        self._kinds: set[str] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Send):
            self._producers[event.id] = event.producer
        elif isinstance(event, Sent):
            producer = self._producers.pop(event.id)
            if event.outcome == "unknown":
                self._kinds.add(kind_of(producer))

    def take(self, doubts: list[Doubt]) -> set[str]:
        """`doubts` are sends that are not over for the history."""
        kinds = self._kinds | {kind_of(self._producers[doubt.number]) for doubt in doubts}
        self._kinds = set()
        return kinds


class Kills:
    """A broker that is killed under load as often as wanted, and everything that was ever sent to it."""

    def __init__(self, server: UpProcess, seed: int, *listeners: Callable[[Event], None]) -> None:
        self.server = server
        self.checker = Checker()
        self._under_way = UnderWay()
        self.history = History(self.checker.feed, self._under_way, *listeners)
        self.met: Counter[tuple[str, str]] = Counter()  # kills by flush mode and by a kind of sends under way
        self.count = self.in_flight = self.starts_killed = self.rounds = 0
        self.slowest_start_s = 0.0
        self._rng = Random(seed)
        self._doubts: list[Doubt] = []
        self._ends = dict.fromkeys(QUEUES, 0)
        self._incarnation: int | None = None

    def start(self) -> bool:
        """Starts the broker in either flush mode and reads what is new; whether it is SYNC_FLUSH."""
        if self._rng.random() < _STARTS_KILLED:
            self._kill_a_start()
        mode = self._rng.choice(MODES)
        begun = time.monotonic()
        self.server.start("--flush-disk-type", mode, "--min-free-bytes", "1")
        self.slowest_start_s = max(self.slowest_start_s, time.monotonic() - begun)
        if not self.rounds:
            self.server.create_topic(TOPIC, len(QUEUES))
        self.rounds += 1
        self._note_incarnation()
        self._ends = scan(self.history, f"scan-{self.rounds}", self.server.namesrv, self._ends)
        self.assert_lawful()
        return mode == "SYNC_FLUSH"

    def kill_under_load(self, *, durable: bool) -> None:
        """Kills the broker some time after clients have begun; counts it if it left sends without an answer."""
        load = Load(self.history, self.server, str(self.rounds), self._rng.getrandbits(32), durable=durable)
        load.settle(self._doubts)
        self._under_way.take([])
        unknown, goal = self.history.unknown, self.history.acknowledged + self._rng.randint(1, _MOST_BETWEEN_KILLS)
        with load:
            reached = self.history.wait_for(
                lambda: self.history.acknowledged >= goal and self.history.under_way > 0, _PATIENCE_S
            )
            assert reached, f"the load came to a halt ({load.failure!r}): {self.server.errors[-2000:]}"
            self.server.kill()
        self._doubts = load.doubts
        in_flight = self.history.unknown - unknown + len(load.doubts)
        self.in_flight += in_flight
        self.count += in_flight > 0
        mode = "SYNC_FLUSH" if durable else "ASYNC_FLUSH"
        self.met.update((mode, kind) for kind in self._under_way.take(load.doubts))

    def assert_lawful(self) -> None:
        assert not self.checker.violations, "\n".join(map(str, self.checker.violations[:20]))

    def _note_incarnation(self) -> None:
        """A kill leaves the page cache whole: no recovery after one has a reason to think that something is gone."""
        incarnation = self.server.incarnation
        self._incarnation = incarnation if self._incarnation is None else self._incarnation
        assert incarnation == self._incarnation, f"the incarnation rose to {incarnation}: {self.server.errors[-2000:]}"
        self.history.opened(BROKER, incarnation)

    def _kill_a_start(self) -> None:
        """Kills it somewhere between its first line of code and its first answer."""
        process = self.server.launch()
        with suppress(TimeoutExpired):
            process.wait(self._rng.uniform(0, 0.3))
        self.server.kill()
        self.starts_killed += 1

    def __str__(self) -> str:
        history = self.history
        met = ", ".join(f"{count} of {kind} in {mode}" for (mode, kind), count in sorted(self.met.items()))
        return (
            f"{self.count} kills with {self.in_flight} messages under way ({met}); {self.starts_killed} starts killed; "
            f"{history.acknowledged} messages acknowledged, {history.unknown} unknown, {history.refused} refused; "
            f"slowest start {self.slowest_start_s:.2f} s"
        )


class Find(NamedTuple):
    """Where a message was read."""

    queue_offset: int
    name: str


class Sample:
    """A few of all messages that were read, each as likely as any other."""

    def __init__(self, size: int, seed: int) -> None:
        self.found: list[Find] = []
        self._size = size
        self._rng = Random(seed)
        self._count = 0

    def __call__(self, event: Event) -> None:
        for queue_offset, name, _ in event.messages if isinstance(event, Seen) else ():
            self._count += 1
            if len(self.found) < self._size:
                self.found.append(Find(queue_offset, name))
            elif (place := self._rng.randrange(self._count)) < self._size:
                self.found[place] = Find(queue_offset, name)


@pytest.mark.slow_first
@pytest.mark.timeout(3600)
def test_kills_lose_and_invent_nothing(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """SIGKILL at random moments, in both flush modes: every acknowledged message stays where it was promised."""
    wanted = amount(KILLS, KILLS_OF_A_SOAK, by=0.01)
    sample = Sample(_QUERIES, seed)
    with UpProcess(tmp_path) as server, (tmp_path / "history.jsonl").open("wb") as file:
        kills = Kills(server, seed, JsonLines(file), sample)
        try:
            while kills.count < wanted:
                kills.kill_under_load(durable=kills.start())
            kills.start()
            scan_as_consumer(kills.history, "consumer", server.namesrv, QUEUES)
            kills.checker.finish()
            kills.assert_lawful()
            assert_found_by_key(server.namesrv, sample.found)
            assert server.stop() == 0
        finally:
            tell(f"--randomly-seed={seed}: {kills}")
        assert_derived(server.broker_files, tmp_path / "copy")
    assert kills.in_flight >= kills.count == wanted
    assert set(kills.met) == {(mode, kind) for mode in MODES for kind in ("singles", "batches", "bulks")}
    (tmp_path / "history.jsonl").unlink()  # it is large, and evidence only where something is wrong


def test_a_kill_that_costs_a_message_is_noticed(tmp_path: Path, seed: int) -> None:
    """The same test with the log wiped, from a message that was acknowledged on, between kill and start: it fails."""
    events: list[Event] = []
    with UpProcess(tmp_path) as server:
        kills = Kills(server, seed, events.append)
        kills.kill_under_load(durable=kills.start())
        acknowledged = {event.id for event in events if isinstance(event, Sent) and event.outcome == "ok"}
        sends = [event for event in events if isinstance(event, Send) and event.id in acknowledged]
        wipe_from(server.broker_files / "commitlog", sends[-1].messages[-1][0])
        with pytest.raises(AssertionError, match="Law|incarnation"):
            kills.start()


def wipe_from(commit_log: Path, name: str) -> None:
    """Zeroes a file of the log from the key of a message on."""
    key = f"KEYS\x01{name}\x02".encode()
    for path in commit_log.iterdir():
        content = path.read_bytes()
        before, found, _ = content.partition(key)
        if found:
            path.write_bytes(before.ljust(len(content), b"\0"))


def assert_found_by_key(namesrv: str, finds: list[Find]) -> None:
    """The index leads to each of these messages."""
    with AdminClient(namesrv) as admin:
        for find in finds:
            offsets = {message.queue_offset for message in admin.query(TOPIC, find.name)}
            assert find.queue_offset in offsets, f"{find} is not found by its key, but {offsets}"
