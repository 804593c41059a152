"""Leases on queues: who gets one, who keeps it, when it ends."""

from __future__ import annotations

import pytest

from rmqspark.broker.state import locks as broker_locks
from rmqspark.broker.state.locks import LEASE_MEMORY_MS, QueueLocks
from rmqspark.errors import Busy, LeaseLost
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import QueueLeaseTable

FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def test_a_queue_has_one_owner_in_a_group() -> None:
    """Whoever asks second gets only what is free, while another group is not concerned."""
    locks = QueueLocks(lease_ms=60_000)
    assert locks.lock("g", "c1", [FIRST], 0) == [FIRST]
    assert locks.lock("g", "c2", [FIRST, SECOND], 1) == [SECOND]
    assert locks.lock("other", "c2", [FIRST], 1) == [FIRST]


def test_an_owner_keeps_a_queue_by_locking_it_again() -> None:
    """A lease renewed every twenty seconds never ends; one that is not can be taken when it has run out."""
    locks = QueueLocks(lease_ms=60_000)
    for now_ms in range(0, 200_000, 20_000):
        assert locks.lock("g", "c1", [FIRST], now_ms) == [FIRST]
        assert locks.lock("g", "c2", [FIRST], now_ms) == []
    assert locks.lock("g", "c2", [FIRST], 180_000 + 60_000) == []
    assert locks.lock("g", "c2", [FIRST], 180_000 + 60_001) == [FIRST]


def test_a_group_consumes_in_order_while_a_lock_of_it_lasts() -> None:
    """Its dead letters go by that; leases of queries say nothing of it."""
    locks = QueueLocks(lease_ms=60_000)
    locks.take("g", "query", [FIRST], 0)
    assert not locks.has_live("g", 0)
    locks.lock("g", "c1", [SECOND], 0)
    assert [locks.has_live("g", now_ms) for now_ms in (0, 60_000, 60_001)] == [True, True, False]
    assert not locks.has_live("other", 0)


def test_only_the_owner_gives_a_queue_up() -> None:
    """Unlocking what somebody else owns changes nothing."""
    locks = QueueLocks(lease_ms=60_000)
    locks.lock("g", "c1", [FIRST, SECOND], 0)
    locks.unlock("g", "c2", [FIRST])
    assert locks.lock("g", "c2", [FIRST], 1) == []
    locks.unlock("g", "c1", [FIRST])
    assert locks.lock("g", "c2", [FIRST, SECOND], 1) == [FIRST]


def test_leases_that_ran_out_take_no_room() -> None:
    """A table that only grows would be a leak: expired leases are forgotten, live ones stay."""
    locks = QueueLocks(lease_ms=60_000)
    locks.lock("g", "c1", [FIRST], 0)
    locks.lock("h", "c1", [SECOND], 30_000)
    locks.expire(60_001)
    assert len(locks) == 1
    assert locks.lock("h", "c2", [SECOND], 60_001) == []


def test_there_is_an_end_to_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for one too many is told so, and gets none; what is held can be renewed."""
    monkeypatch.setattr(broker_locks, "MAX_LOCKS", 2)
    locks = QueueLocks(lease_ms=60_000)
    assert locks.take("g", "c1", [FIRST], 0) == {FIRST: 1}
    for ask in (locks.take, locks.lock):
        with pytest.raises(Busy, match="no room"):
            ask("h", "c2", [FIRST, SECOND], 0)
    assert len(locks) == 1
    assert locks.lock("h", "c2", [FIRST], 0) == [FIRST]
    assert locks.take("g", "c1", [FIRST], 0) == {FIRST: 1}


def test_a_lease_has_a_number_of_its_own() -> None:
    """Whoever had the queue in between, the number tells: only who still has its own may go on."""
    locks = QueueLocks(lease_ms=60_000)
    (first,) = locks.take("g", "c1", [FIRST], 0).values()
    assert locks.take("g", "c2", [FIRST], 60_000) == {}
    assert locks.keep("g", "c1", {FIRST: first}, 60_000) == [FIRST]
    assert locks.keep("g", "c1", {FIRST: first + 1}, 60_000) == []
    (second,) = locks.take("g", "c2", [FIRST], 120_001).values()
    assert second != first
    locks.unlock("g", "c2", [FIRST])
    assert locks.keep("g", "c1", {FIRST: first}, 120_002) == []
    (third,) = locks.take("g", "c1", [FIRST], 120_003).values()
    assert third not in (first, second)


def test_a_lease_that_nobody_took_is_still_its_last_owner_s() -> None:
    """A query that comes back after a day finds its queues, unless another member has had them."""
    locks = QueueLocks(lease_ms=60_000)
    leases = locks.take("g", "c1", [FIRST, SECOND], 0)
    day_ms = 24 * 3_600_000
    locks.expire(day_ms)
    assert locks.take("g", "c2", [SECOND], day_ms).keys() == {SECOND}
    assert locks.keep("g", "c1", leases, day_ms) == [FIRST]
    assert locks.take("g", "c1", [FIRST], day_ms) == {FIRST: leases[FIRST]}
    locks.expire(day_ms + LEASE_MEMORY_MS + 1)
    assert len(locks) == 0


def test_leases_and_locks_of_orderly_consumers_respect_each_other() -> None:
    """One table: what either holds the other waits for, and takes when it has run out."""
    locks = QueueLocks(lease_ms=60_000)
    leases = locks.take("g", "query", [FIRST], 0)
    assert locks.lock("g", "orderly", [FIRST, SECOND], 1) == [SECOND]
    assert locks.take("g", "query", [SECOND], 2) == {}
    assert locks.lock("g", "orderly", [FIRST], 60_001) == [FIRST]
    assert locks.keep("g", "query", leases, 60_002) == []


def test_who_has_locked_a_queue_may_lease_it() -> None:
    """Under a number, as any lease; which says that an earlier run had it, until another one has."""
    locks = QueueLocks(lease_ms=60_000)
    locks.lock("g", "c1", [FIRST], 0)
    assert locks.take("g", "c1", [FIRST], 1, run=4)[FIRST] > 0
    assert [locks.of_earlier_runs("g", run, [FIRST, SECOND]) for run in (4, 5)] == [set(), {FIRST}]


def test_leases_survive_a_restart() -> None:
    """The owner has the time of one lease to be heard of; numbers go on where they were."""
    locks = QueueLocks(lease_ms=60_000)
    leases = locks.take("g", "c1", [FIRST], 0)
    given_up = locks.take("g", "c1", [SECOND], 0)
    locks.unlock("g", "c1", [SECOND])
    locks.lock("g", "orderly", [SECOND], 0)
    again = QueueLocks(lease_ms=60_000)
    again.load(QueueLeaseTable.decode(locks.table().encode()), 1_000_000)
    assert len(again) == 1
    assert again.take("g", "c2", [FIRST], 1_060_000) == {}
    assert again.keep("g", "c1", leases, 1_060_000) == [FIRST]
    assert again.take("g", "c2", [SECOND], 1_060_000)[SECOND] > given_up[SECOND]


def test_a_lease_belongs_to_the_latest_run_of_its_owner() -> None:
    """Which has it at once, with its number; the run before, which was only paused, can neither renew it nor give it up
    nor take what has become free, and is told so. After a restart of the broker, too."""
    locks = QueueLocks(lease_ms=60_000)
    first = locks.begin_run()
    leases = locks.take("g", "c1", [FIRST, SECOND], 0, first)
    assert locks.keep("g", "c1", leases, 1, first) == [FIRST, SECOND]
    second, before = locks.begin_run(), locks.revision
    assert second > first
    assert locks.keep("g", "c1", {FIRST: leases[FIRST]}, 2, second) == [FIRST]
    assert locks.take("g", "c1", [SECOND], 2, second) == {SECOND: leases[SECOND]}
    assert locks.revision > before
    again = QueueLocks(lease_ms=60_000)
    again.load(QueueLeaseTable.decode(locks.table().encode()), 3)
    for table in (locks, again):
        assert table.keep("g", "c1", leases, 3, first) == []
        assert table.take("g", "c1", [FIRST], 3, first) == {}
        with pytest.raises(LeaseLost, match=r"orders/broker-a/0 was taken over by a later run of this query \(c1"):
            table.check_run("g", "c1", first, [FIRST])
        table.check_run("g", "c1", second, [FIRST])
        table.check_run("g", "c2", first, [FIRST])
        assert table.keep("g", "c1", leases, 3, second) == [FIRST, SECOND]


@pytest.mark.parametrize("run", [-1, 0, 2, 1 << 62])
def test_a_run_that_nobody_began_owns_nothing(run: int) -> None:
    """It would stand above every run to come."""
    locks = QueueLocks(lease_ms=60_000)
    assert locks.begin_run() == 1
    with pytest.raises(LeaseLost, match="knows nothing of run"):
        locks.check_run("g", "c1", run, [])


def test_what_is_held_of_a_topic_ends_with_it() -> None:
    """Whoever held a queue of it holds none of the next topic's, and its number is never given out again."""
    locks, other = QueueLocks(lease_ms=60_000), MessageQueue("bills", "broker-a", 0)
    taken = locks.take("g", "m", [FIRST, other], 0)
    locks.lock("h", "c", [SECOND], 0)
    before = locks.revision
    locks.forget_topics(["orders"])
    assert locks.revision > before
    assert locks.keep("g", "m", taken, 1) == [other]
    assert len(locks) == 1
    assert locks.take("g", "m", [FIRST], 1)[FIRST] > max(taken.values())
    assert locks.lock("h", "another", [SECOND], 1) == [SECOND]


def test_what_a_group_holds_ends_with_it() -> None:
    """Its members hold nothing in the next group of the name; other groups keep what is theirs."""
    locks = QueueLocks(lease_ms=60_000)
    taken = locks.take("g", "m", [FIRST], 0)
    others = locks.take("h", "m", [FIRST], 0)
    before = locks.revision
    locks.forget_group("g")
    assert locks.revision > before
    assert locks.keep("g", "m", taken, 1) == []
    assert locks.keep("h", "m", others, 1) == [FIRST]
    assert locks.take("g", "another", [FIRST], 1)[FIRST] > max(taken.values())


def test_only_what_a_restart_must_remember_is_written() -> None:
    """Renewals come all the time and change nothing on disk."""
    locks = QueueLocks(lease_ms=60_000)
    locks.lock("g", "orderly", [SECOND], 0)
    assert locks.revision == 0
    leases = locks.take("g", "c1", [FIRST], 0)
    after_taking = locks.revision
    assert after_taking > 0
    locks.keep("g", "c1", leases, 1)
    locks.take("g", "c1", [FIRST], 2)
    locks.lock("g", "c1", [FIRST], 3)
    assert locks.revision == after_taking
    assert locks.keep("g", "c1", leases, 4) == [FIRST]
    locks.expire(60_005)
    assert (locks.revision, len(locks)) == (after_taking, 1)  # the lock went, and the lease is remembered
    locks.lock("g", "orderly", [FIRST], 70_000)
    assert locks.revision > after_taking
    again = locks.take("h", "c1", [FIRST], 70_000)
    before = locks.revision
    locks.expire(70_000 + LEASE_MEMORY_MS)
    assert locks.revision == before
    locks.expire(70_001 + LEASE_MEMORY_MS)
    assert locks.revision > before
    assert locks.keep("h", "c1", again, 70_002 + LEASE_MEMORY_MS) == []


def test_who_may_have_decided_what_was_read_is_asked_first() -> None:
    """A lease that ran out is its owner's alone until then, over a restart, too: neither a query nor a consumer that
    locks has the queue."""
    locks = QueueLocks(lease_ms=60_000)
    locks.take("g", "c1", [FIRST, SECOND], 0)
    revision = locks.revision
    locks.await_word("g", [FIRST], "a")
    assert locks.revision > revision
    again = QueueLocks(lease_ms=60_000)
    again.load(locks.table(), 0)
    for table in (locks, again):
        assert table.orphans(60_000) == {}
        orphans = table.orphans(60_001)["a"]["g"]
        assert orphans.keys() == {FIRST}
        assert table.take("g", "c2", [FIRST, SECOND], 60_001).keys() == {SECOND}
        assert table.lock("g", "c3", [FIRST], 60_001) == []
        table.expire(60_002 + LEASE_MEMORY_MS)
        table.settle("g", orphans)
        assert table.orphans(60_001) == {}
        assert table.take("g", "c2", [FIRST], 60_001).keys() == {FIRST}


def test_what_its_owner_comes_back_to_is_asked_about_again() -> None:
    """It went on while the coordinator of before was asked; and what it has given up nobody is asked about."""
    locks = QueueLocks(lease_ms=60_000)
    leases = locks.take("g", "c1", [FIRST, SECOND], 0)
    locks.await_word("g", locks.keep("g", "c1", leases, 0), "a")
    revision, orphans = locks.revision, locks.orphans(60_001)["a"]["g"]
    assert locks.keep("g", "c1", {FIRST: leases[FIRST]}, 60_001) == [FIRST]
    assert locks.take("g", "c1", [FIRST], 60_001) == {FIRST: leases[FIRST]}
    assert locks.revision == revision
    locks.settle("g", orphans)
    assert locks.orphans(60_001) == {}
    assert locks.orphans(120_002)["a"]["g"].keys() == {FIRST}
    locks.unlock("g", "c1", [FIRST])
    assert locks.orphans(120_002) == {}


def test_nobody_is_asked_who_has_said_it() -> None:
    """Until the next decision, which is written down no more than that of before."""
    locks = QueueLocks(lease_ms=60_000)
    leases = locks.take("g", "c1", [FIRST, SECOND], 0)
    locks.await_word("g", locks.keep("g", "c1", leases, 0), "a")
    revision = locks.revision
    locks.await_word("g", locks.keep("g", "c1", leases, 1), "a", {FIRST})
    assert locks.orphans(60_002)["a"]["g"].keys() == {SECOND}
    locks.keep("g", "c1", leases, 2)
    assert locks.orphans(60_003)["a"]["g"].keys() == {SECOND}
    locks.await_word("g", locks.keep("g", "c1", leases, 3), "a")
    assert locks.orphans(60_004)["a"]["g"].keys() == {FIRST, SECOND}
    assert locks.revision == revision


def test_where_groups_are_is_doubted_once_another_broker_was_the_master() -> None:
    """That one knew who had still to say where they go on. Those of which all have been asked are remembered."""
    locks, again = QueueLocks(lease_ms=60_000), QueueLocks(lease_ms=60_000)
    assert locks.is_trusted("g")
    locks.begin_term(1)
    assert not locks.is_trusted("g")
    before = locks.revision
    locks.trust("g")
    assert locks.revision > before
    again.load(QueueLeaseTable.decode(locks.table().encode()), 0)
    again.begin_term(1)
    assert (again.is_trusted("g"), again.is_trusted("h")) == (True, False)
    again.begin_term(2)
    assert not again.is_trusted("g")


def test_a_group_that_an_earlier_version_has_leased_queues_to_is_not_doubted() -> None:
    """It asked nobody, and wrote down of no group that all had been asked."""
    locks, again = QueueLocks(lease_ms=60_000), QueueLocks(lease_ms=60_000)
    locks.begin_term(1)
    locks.take("g", "c1", [FIRST], 0)
    again.load(QueueLeaseTable.decode(locks.table().encode()), 0)
    again.begin_term(1)
    assert (again.is_trusted("g"), again.is_trusted("h")) == (True, False)
