"""What a member takes, keeps and gives up, round by round, by what it has seen and by what brokers grant."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rmqspark.client.pushing.assignment import View
from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.rebalancer import LOCK_LIVE_MS, Division, Rebalancer
from rmqspark.errors import RmqError, Unreachable
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.rebalance.strategies import Strategy
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pytest

    from rmqspark.client.pushing.process_queue import ProcessQueue

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
AWAY = Unreachable("Nobody is there.", address="nowhere")


class Bench:
    """A rebalancer without a thread, and all that it asks: members, starts, locks, and the pump."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.clock = ManualClock()
        self.members = ["me"]
        self.refused: dict[MessageQueue, RmqError] = {}  # have no start
        self.others: set[MessageQueue] = set()  # locked by somebody else
        self.unknown: set[MessageQueue] = set()  # of which no broker tells
        self.asked_for: list[MessageQueue] = []  # by the last lock
        self.reading: dict[MessageQueue, Instant] = {}  # and until when it is locked
        self.released: list[tuple[MessageQueue, bool, Future[None]]] = []
        self.is_at_work = False  # a listener, on what is released
        self.ends_meanwhile = False  # while a lock is asked for
        self.unlocked: list[MessageQueue] = []
        self.ends_before_starts = False  # the consumer is closed while it finds out where to begin
        self.forgotten: list[str] = []
        self.group, self.cluster = "billing", SimpleNamespace(client_id="me")
        division = Division(Strategy(), ordered, 20_000)
        self.rebalancer = Rebalancer(self, self, {}, self, self, division, self.clock)

    def round(self) -> bool:
        self.clock.advance(ms=1)
        return self.rebalancer._round(fresh=False)

    # of its lookout

    def look(self, subscriptions: Mapping[str, object], *, fresh: bool) -> dict[str, View | None]:
        return {"orders": View(QUEUES, self.members)}

    def is_later(self, queue: MessageQueue) -> bool:
        return False

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    # of its starts

    def of(self, queues: Iterable[MessageQueue], *_: object) -> dict[MessageQueue, int | RmqError]:
        if self.ends_before_starts:
            self.rebalancer.let_go()
        return {queue: self.refused.get(queue, 7) for queue in queues}

    # of its membership

    def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        self.asked_for = sorted(queues)
        for _, _, gone in self.released if self.ends_meanwhile else ():
            gone.set_result(None)
        return set(queues) - self.others - self.unknown, set(queues) & self.unknown

    def unlock(self, queue: MessageQueue) -> None:
        self.unlocked.append(queue)

    # of the pump

    def hold(self, held: ProcessQueue) -> None:
        assert held.next_offset == 7
        self.reading[held.queue] = held.locked_until

    def renewed(self, held: ProcessQueue, locked_until: Instant) -> None:
        self.reading[held.queue] = locked_until

    def release(self, held: ProcessQueue, *, is_lost: bool = False) -> Future[None]:
        del self.reading[held.queue]
        gone: Future[None] = Future()
        if self.is_at_work:
            held.arrived([ReceivedMessage("orders", b"", None, [], {}, "id", held.queue, 7, 0, 0)], 8)
            held.take(1)
        else:
            gone.set_result(None)
        self.released.append((held.queue, is_lost, gone))
        return gone


def test_members_come_and_go() -> None:
    """What is another's share is released, and taken again when the other is gone."""
    bench = Bench()
    assert bench.round()
    assert bench.rebalancer.assignment == QUEUES
    bench.members = ["me", "you"]
    assert bench.round()
    assert [(queue, is_lost) for queue, is_lost, _ in bench.released] == [(QUEUES[2], False), (QUEUES[3], False)]
    bench.members = ["me"]
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_a_queue_that_cannot_be_begun_with_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """And tried again; the others are read meanwhile."""
    bench = Bench()
    bench.refused = {QUEUES[1]: AWAY}
    for _ in range(3):
        assert not bench.round()
    assert sorted(bench.reading) == [QUEUES[0], *QUEUES[2:]]
    assert caplog.text.count("cannot be begun with") == 1
    bench.refused = {}
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_a_queue_that_cannot_be_begun_with_is_not_locked() -> None:
    """Or it would be nobody's for a minute when this member leaves, or somebody else is to have it."""
    bench = Bench(ordered=True)
    bench.refused = {QUEUES[1]: AWAY}
    assert not bench.round()
    assert bench.unlocked == [QUEUES[1]]
    bench.refused = {}
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_who_leaves_in_the_middle_of_a_round_locks_nothing() -> None:
    """A broker that hangs keeps it from beginning with the queues of others, too."""
    bench = Bench(ordered=True)
    bench.ends_before_starts = True
    bench.round()
    assert bench.unlocked == QUEUES
    bench.rebalancer.let_go()
    assert bench.unlocked == QUEUES, "what it has begun with is the pump's to give up"


def test_a_queue_is_not_taken_again_before_it_is_given_up() -> None:
    """Or it would be read from before what is about to be committed; its lock is renewed until then."""
    bench = Bench(ordered=True)
    bench.round()
    bench.is_at_work, bench.members = True, ["me", "you"]
    assert bench.round(), "what is left to do is the pump's"
    assert bench.asked_for == QUEUES
    bench.members = ["me"]
    assert not bench.round()
    assert (sorted(bench.reading), bench.asked_for) == (QUEUES[:2], QUEUES)
    for _, _, gone in bench.released:
        gone.set_result(None)
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_a_lock_that_is_renewed_too_late_is_given_up() -> None:
    """A queue that is unlocked while its lock is asked for once more would be nobody's for a minute."""
    bench = Bench(ordered=True)
    bench.round()
    bench.is_at_work, bench.members = True, ["me", "you"]
    bench.round()
    assert bench.unlocked == []
    bench.ends_meanwhile = True
    assert bench.round()
    assert bench.unlocked == QUEUES[2:]


def test_a_lock_that_was_lost_is_not_asked_for_while_a_listener_is_at_work() -> None:
    """Given by a broker then, it would be nobody's for a minute: what is lost is not unlocked when the work ends."""
    bench = Bench(ordered=True)
    bench.round()
    bench.is_at_work, bench.others = True, {QUEUES[1]}
    bench.round()
    assert [(queue, is_lost) for queue, is_lost, _ in bench.released] == [(QUEUES[1], True)]
    bench.others, bench.members = set(), ["me", "you", "they", "them"]
    bench.round()
    assert bench.asked_for == [QUEUES[0], *QUEUES[2:]]
    bench.members = ["me"]
    for _, _, gone in bench.released:
        gone.set_result(None)
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_locks_are_renewed_while_brokers_grant_them() -> None:
    """One that another has is lost, and got back when that is gone; one of a broker that is away lasts to its end."""
    bench = Bench(ordered=True)
    bench.others = {QUEUES[0]}
    assert not bench.round()
    first = Instant.now(bench.clock).later(LOCK_LIVE_MS)
    assert bench.reading == dict.fromkeys(QUEUES[1:], first)
    bench.others, bench.unknown = {QUEUES[1]}, {QUEUES[2]}
    assert not bench.round()
    again = Instant.now(bench.clock).later(LOCK_LIVE_MS)
    assert bench.reading == {QUEUES[0]: again, QUEUES[2]: first, QUEUES[3]: again}
    assert [(queue, is_lost) for queue, is_lost, _ in bench.released] == [(QUEUES[1], True)]
    bench.others, bench.unknown = set(), set()
    assert bench.round()
    assert sorted(bench.reading) == QUEUES


def test_nothing_is_kept_of_a_queue_that_has_been_given_up() -> None:
    """What was read of it and not consumed may be a hundred mebibytes."""
    bench = Bench()
    bench.round()
    kept = weakref.ref(bench.rebalancer._held[QUEUES[3]])
    bench.members = ["me", "you"]
    bench.round()
    assert bench.round()
    assert kept() is None


def test_a_queue_whose_topic_is_gone_is_begun_with_anew() -> None:
    """Where it is there: it is that of another topic, of which nothing is consumed yet. But after a pause, since it may
    be that its broker has lost it, and its name servers do not know."""
    bench = Bench()
    bench.round()
    before = bench.rebalancer._held[QUEUES[1]]
    bench.rebalancer.lose(QUEUES[1])
    assert not bench.round()
    assert sorted(bench.reading) == [QUEUES[0], *QUEUES[2:]]
    assert bench.round()
    assert [(queue, is_lost) for queue, is_lost, _ in bench.released] == [(QUEUES[1], True)]
    assert (sorted(bench.reading), bench.forgotten) == (QUEUES, ["orders"])
    assert bench.rebalancer._held[QUEUES[1]] is not before
