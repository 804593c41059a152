"""What a push consumer may commit of a queue, whatever its listeners do with the messages and in whichever order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqspark.client.pushing.process_queue import Batch, ProcessQueue, Room, Thresholds
from rmqspark.model import MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

QUEUE = MessageQueue("orders", "broker-a", 0)
ROOMY = Thresholds(1000, 100 << 20, 2000)


def message(queue_offset: int, body: bytes = b"12") -> ReceivedMessage:
    return ReceivedMessage("orders", body, None, [], {}, f"id-{queue_offset}", QUEUE, queue_offset, 0, 0)


def messages(offsets: Iterable[int]) -> list[ReceivedMessage]:
    return [message(offset) for offset in offsets]


def offsets(batch: Batch | None) -> list[int]:
    return [] if batch is None else [each.queue_offset for each in batch.messages]


def test_the_lowest_that_is_not_consumed_is_what_can_be_committed() -> None:
    """A message that takes long holds back those behind it, however many of them are through."""
    held = ProcessQueue(QUEUE, 5)
    assert held.commit_offset == 5
    held.arrived(messages([5, 6, 9]), 12)
    first, second, third = (held.take(1) for _ in range(3))
    held.finish(third)
    held.finish(second)
    assert held.commit_offset == 5
    held.finish(first)
    assert held.commit_offset == 12, "also behind what was filtered out"


def test_what_is_left_of_a_batch_comes_first_again() -> None:
    """In its order, before what came after it; until it is put back, the batch is out."""
    held = ProcessQueue(QUEUE, 0)
    held.arrived(messages(range(5)), 5)
    batch = held.take(3)
    held.finish(batch, batch.messages[1:])
    assert (held.commit_offset, held.is_idle) == (1, False)
    held.put_back(batch, batch.messages[1:])
    assert held.is_idle
    assert offsets(held.take(10)) == [1, 2, 3, 4]


def test_a_restart_forgets_what_was_held() -> None:
    """A batch that was taken before it changes nothing, but is out until it has come back."""
    held = ProcessQueue(QUEUE, 0)
    held.arrived(messages(range(3)), 3)
    batch = held.take(1)
    held.restart(100)
    assert (held.commit_offset, len(held), held.size_bytes) == (100, 0, 0)
    assert not batch.is_wanted
    assert not held.is_idle
    held.finish(batch, batch.messages)
    held.put_back(batch, batch.messages)
    assert held.is_idle
    assert held.take(1) is None
    assert held.commit_offset == 100


@pytest.mark.parametrize(
    ("offsets", "body", "most", "room"),
    [
        ([], b"", Thresholds(0, 0, 0), True),
        (range(3), b"", Thresholds(3, 9, 9), True),
        (range(4), b"", Thresholds(3, 9, 9), False),
        (range(3), b"1234", Thresholds(9, 12, 9), True),
        (range(3), b"12345", Thresholds(9, 12, 9), False),
        ([10, 2010], b"", Thresholds(9, 9, 2000), True),
        ([10, 2011], b"", Thresholds(9, 9, 2000), False),
    ],
)
def test_a_queue_holds_no_more_than_it_may(offsets: Iterable[int], body: bytes, most: Thresholds, room: bool) -> None:
    """Pulls stop beyond RocketMQ's three bounds: of messages, of bytes, and of how far they lie apart."""
    held = ProcessQueue(QUEUE, 0)
    held.arrived([message(offset, body) for offset in offsets], 5000)
    assert held.has_room(most) == room


@pytest.mark.parametrize(
    ("held_already", "end_offset", "room"),
    [
        (0, 0, Room(32, 5_000)),  # a broker that reads nothing in bulk
        (0, 32, Room(32, 5_000)),
        (0, 33, Room(100, 5_000)),
        (49, 1_000, Room(51, 5_000 - 49 * 2)),
        (50, 1_000, None),
        (50, 82, Room(32, 5_000)),
        (101, 1_000, None),
        (101, 0, None),
    ],
)
def test_of_a_backlog_much_is_asked_for_at_once(held_already: int, end_offset: int, room: Room | None) -> None:
    """Once half of what may be held is consumed; else a pull is as large as RocketMQ's."""
    held = ProcessQueue(QUEUE, 0)
    held.arrived(messages(range(held_already)), held_already, end_offset)
    assert held.room(Thresholds(100, 5_000, 2_000), 32) == room


class AnyOrder(RuleBasedStateMachine):
    """Against a set of offsets: whatever is taken, ended, left and put back, in whichever order."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ProcessQueue(QUEUE, 0)
        self.unconsumed: dict[int, int] = {}  # offset -> bytes
        self.waiting: list[int] = []
        self.next_offset = 0
        self.out: list[Batch] = []  # with a listener
        self.left: list[tuple[Batch, list[ReceivedMessage]]] = []  # wait for another try

    @rule(gaps=st.lists(st.integers(1, 4), max_size=6), passed=st.integers(0, 3), size=st.integers(0, 9))
    def arrive(self, gaps: list[int], passed: int, size: int) -> None:
        found, at = [], self.next_offset - 1
        for gap in gaps:
            at += gap
            found.append(at)
        self.next_offset = at + 1 + passed
        self.held.arrived([message(offset, b"x" * size) for offset in found], self.next_offset)
        self.unconsumed |= dict.fromkeys(found, size)
        self.waiting += found

    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        batch = self.held.take(count)
        assert offsets(batch) == self.waiting[:count]
        del self.waiting[:count]
        if batch is not None:
            self.out.append(batch)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        batch = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        left = [each for each in batch.messages if data.draw(st.booleans())]
        self.held.finish(batch, left)
        if batch.generation == self.held.generation:
            for each in batch.messages:
                if each not in left:
                    del self.unconsumed[each.queue_offset]
        if left:
            self.left.append((batch, left))

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        batch, left = self.left.pop(data.draw(st.integers(0, len(self.left) - 1)))
        self.held.put_back(batch, left)
        if batch.generation == self.held.generation:
            self.waiting[:0] = [each.queue_offset for each in left]

    @rule(queue_offset=st.integers(0, 1000))
    def restart(self, queue_offset: int) -> None:
        self.held.restart(queue_offset)
        self.next_offset = queue_offset
        self.unconsumed, self.waiting = {}, []

    @invariant()
    def commits_what_is_consumed(self) -> None:
        assert self.held.commit_offset == min(self.unconsumed, default=self.next_offset)
        assert len(self.held) == len(self.unconsumed)
        assert self.held.size_bytes == sum(self.unconsumed.values())
        assert self.held.is_at_work == bool(self.out)
        assert self.held.is_idle == (not self.out and not self.left)


TestAnyOrder = pytest.mark.property(AnyOrder.TestCase)
