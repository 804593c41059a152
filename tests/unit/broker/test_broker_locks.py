"""Leases on queues: who gets one, who keeps it, when it ends."""

from __future__ import annotations

from rmqspark.broker.locks import QueueLocks
from rmqspark.model import MessageQueue

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
