"""Who is killed next: inside each step of the protocol, and at random moments, always while a batch is open."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from random import Random
from typing import TYPE_CHECKING

from rmqspark.client.admin import AdminClient
from rmqspark.errors import RmqError
from rmqspark.fault_points import NAMES
from rmqspark.protocol.rendezvous import chosen

from .traffic import copied, send, stored
from .victims import CopyDriver, Process, does_tasks, signal_process, wait_for, workers

if TYPE_CHECKING:
    from pathlib import Path

    from .victims import Brokers

T = "copy"
BROKERS = ("broker-a", "broker-b")
COORDINATOR = chosen(T, BROKERS)
PARTICIPANT = next(name for name in BROKERS if name != COORDINATOR)
MESSAGES_A_BATCH = 300
BACKLOG = 6_000

# Which process stops at which step, and is killed there. With a driver's commit the whole driver goes.
STEPS = {
    "coordinator": ("before_vote", "after_vote", "after_decide", "before_complete", "after_complete"),
    "participant": ("mid_complete",),
    "worker": ("after_prepare", "half_sent"),
    "driver": ("before_decide", "after_commit_answered", "before_abort"),
}
assert {step for steps in STEPS.values() for step in steps} == NAMES
_STOPS = {"before_abort": "before_decide:raise,before_abort:stop"}  # what makes a driver abort is a commit that fails


class Campaign:
    """Brokers and a driver at work, and what has been done to them. Every choice follows from the seed."""

    def __init__(self, directory: Path, brokers: Brokers, seed: int) -> None:
        self.hits: Counter[str] = Counter()  # kills in open batches, by step, or by victim at random moments
        self.between_batches = 0
        self.ended_by_itself = 0  # drivers whose query failed
        self.brokers = brokers
        self.copy = CopyDriver(directory, brokers.namesrv, T, MESSAGES_A_BATCH)
        self._rng = Random(seed)
        self._sent = 0
        self._to_come = {role: deque(self._in_some_order(steps)) for role, steps in STEPS.items()}
        self._armed = dict.fromkeys(STEPS, "")
        for name in BROKERS:
            self._start_broker(name)
        with AdminClient(brokers.namesrv) as admin:
            admin.create_topic("source", queues=2)
            admin.create_topic("target", queues=2)
        self._feed()
        self.driver = self._start_driver()

    @property
    def kills(self) -> int:
        return sum(self.hits.values())

    def kill_in_every_step(self) -> None:
        """Lets each process come to each of its steps, and kills it there."""
        while any(self._armed.values()) or any(self._to_come.values()):
            self._kill_who_stops()

    def kill_each_at_random(self, victims: tuple[str, ...]) -> None:
        """Each of them once, in some order, within a batch."""
        for victim in self._rng.sample(victims, len(victims)):
            while not self.hits[f"{victim} at random"]:
                self.kill_at_random((victim,))

    def kill_at_random(self, victims: tuple[str, ...]) -> None:
        """Kills one of `victims` somewhere within a batch that this driver has begun."""
        begun = self.copy.batches[0]
        wait_for(lambda: self._goes_on() and self.copy.batches[0] > begun and self.copy.is_in_a_batch,
                 "a batch begins", self.driver)  # fmt: skip
        time.sleep(self._rng.uniform(0, 0.5))
        victim = self._rng.choice(victims)
        found = workers(self.driver)[:1]
        if victim == "worker" and not found:  # none is there at this moment, so nobody is killed and nothing counted
            return
        if victim == "driver":
            self.driver.kill()  # before it is counted: it could end its batch in between
        self._count(f"{victim} at random")
        self._kill(victim, found)

    def finish(self) -> None:
        """Lets everything that is in the source be copied."""
        there = stored(self.brokers.namesrv, "source")

        def done() -> bool:
            return self._goes_on() and copied(self.copy) >= there and not self.copy.is_in_a_batch

        wait_for(done, "all is copied", self.driver)

    def _kill_who_stops(self) -> None:
        """Waits until somebody stands still at a step."""
        met: list[tuple[str, list[int]]] = []

        def somebody_stops() -> bool:
            met[:] = self._stopped()
            return self._goes_on() and bool(met)

        wait_for(somebody_stops, f"somebody comes to one of {self._armed}", self.driver)
        role, pids = met[0]
        step, self._armed[role] = self._armed[role], ""
        if not self._count(step):  # it comes again, until it has met a batch
            self._to_come[role].append(step)
        self._kill(role, pids)

    def _stopped(self) -> list[tuple[str, list[int]]]:
        """Who stands still at an armed step. A worker that does so where its like was killed before goes on."""
        found = [
            (role, pids)
            for role, name in (("coordinator", COORDINATOR), ("participant", PARTICIPANT))
            if (pids := self.brokers.running[name].stopped())
        ]
        for pid in self.driver.stopped():
            role = "worker" if does_tasks(pid) else "driver"
            if self._armed[role]:
                found.append((role, [pid]))
            else:
                signal_process(pid, signal.SIGCONT)
        return found

    def _kill(self, role: str, pids: list[int]) -> None:
        if role == "worker":
            for pid in pids:
                signal_process(pid, signal.SIGKILL)
        elif role == "driver":
            self.driver.kill()
            self.driver = self._start_driver()
        else:
            name = COORDINATOR if role == "coordinator" else PARTICIPANT
            self.brokers.kill(name)
            self._start_broker(name)
            self._feed()

    def _goes_on(self) -> bool:
        """A driver whose query has failed is started again, as a cluster would."""
        if not self.driver.alive:
            self.ended_by_itself += 1
            self._kill("driver", [])
        return True

    def _count(self, what: str) -> bool:
        """Notes a kill; whether it is one in an open batch."""
        in_a_batch = self.copy.is_in_a_batch
        if in_a_batch:
            self.hits[what] += 1
        else:
            self.between_batches += 1
        return in_a_batch

    def _in_some_order(self, steps: tuple[str, ...]) -> list[str]:
        """Behind a commit that was answered the same batch comes again, and of it nothing is left to abort: a driver
        that is to die aborting would fail with it for ever. So that commit is the last of a driver's steps."""
        return sorted(self._rng.sample(steps, len(steps)), key="after_commit_answered".__eq__)

    def _start_broker(self, name: str) -> None:
        self.brokers.start(name, self._arm("coordinator" if name == COORDINATOR else "participant"))

    def _start_driver(self) -> Process:
        return self.copy.start(",".join(filter(None, (self._arm("worker"), self._arm("driver")))))

    def _arm(self, role: str) -> str:
        """The next step of a role, as $RMQ_FAULT_POINTS has it; one that was not met yet comes again."""
        if not self._armed[role] and self._to_come[role]:
            self._armed[role] = self._to_come[role].popleft()
        step = self._armed[role]
        return _STOPS.get(step, f"{step}:stop" if step else "")

    def _feed(self) -> None:
        """Sees to it that there is something to copy. Not while a broker stands still at its step: its turn to be
        killed comes next, and then there is another feeding. What is sent twice, as one stops, is twice in the source.
        """
        while self._sent - copied(self.copy) < BACKLOG:
            if any(self.brokers.running[name].stopped() for name in BROKERS):
                return
            try:
                send(self.brokers.namesrv, range(self._sent, self._sent + 1_000))
            except RmqError:
                return
            self._sent += 1_000

    def __str__(self) -> str:
        told = ", ".join(f"{step} {times}" for step, times in sorted(self.hits.items()))
        return (
            f"{self.kills} kills in open batches ({told}); {self.between_batches} between batches; "
            f"{self.ended_by_itself} drivers ended by themselves; {self._sent} rows"
        )
