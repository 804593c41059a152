"""The heart of a push consumer, event by event: nothing here has a socket, a thread, or a clock that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.cluster.futures import at_hand, failing
from rmqspark.client.pushing.asking import PULL_RETRY_MS
from rmqspark.client.pushing.config import PushConfig
from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.listening import Outcome
from rmqspark.client.pushing.process_queue import LOCK_LIVE_MS, Batch, ProcessQueue, Room
from rmqspark.client.pushing.pulls import Found, Gone, Moved
from rmqspark.client.pushing.pump import Pump
from rmqspark.client.pushing.rules import Rules
from rmqspark.errors import RmqError, StoreError, StoreReplaced, TopicNotFound, Unreachable
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

QUEUE = MessageQueue("orders", "broker-a", 0)
AWAY = Unreachable("Nobody is there.", address="nowhere")


def messages(offsets: Iterable[int]) -> list[ReceivedMessage]:
    return [ReceivedMessage("orders", b"12", None, [], {}, f"id-{n}", QUEUE, n, 0, 0) for n in offsets]


class Bench:
    """A pump without threads: pulls wait for the test to answer them, batches for it to end them."""

    def __init__(self, *, ordered: bool = False, start: int = 0, **settings: Any) -> None:
        self.clock = ManualClock()
        self.pulls: list[tuple[int, Callable[[object], None]]] = []  # offsets, and how to answer
        self.rooms: list[Room] = []
        self.commits: list[int] = []
        self.refusal: Unreachable | None = None
        self.disk_error: StoreError | None = None
        self.unlocked: list[MessageQueue] = []
        self.troubles: list[MessageQueue] = []
        self.forgotten: list[MessageQueue] = []
        config = replace(PushConfig(), **settings)
        self.pump = Pump(
            self,
            self,
            None,
            Rules(config, 0, 1, self.unlock if ordered else None),
            self.clock,
            on_trouble=lambda queue, _: self.troubles.append(queue),
            farewell=lambda: None,
        )
        self.held = ProcessQueue(QUEUE, start)
        self.held.locked_until = self.locked()
        self.pump.hold(self.held)
        self.batches: list[Batch] = []
        self.run()

    def locked(self) -> Instant:
        """Until when a lock lasts that begins now."""
        return Instant.now(self.clock).later(LOCK_LIVE_MS)

    def ask(self, held: ProcessQueue, room: Room, tell: Callable[[object], None]) -> None:
        self.rooms.append(room)
        self.pulls.append((held.next_offset, tell))

    def commit(self, queue: MessageQueue, queue_offset: int, *of: object) -> Future[None]:
        self.commits.append(queue_offset)
        return failing(self.refusal) if self.refusal else at_hand(None)

    def forget(self, queue: MessageQueue) -> None:
        self.forgotten.append(queue)

    def flush(self) -> None:
        """Brokers have been told already; or a file is refused."""
        if self.disk_error is not None:
            raise self.disk_error

    def unlock(self, queue: MessageQueue) -> Future[None]:
        self.unlocked.append(queue)
        return at_hand(None)

    def run(self, after_ms: int = 0) -> list[int]:
        """Lets the pump do all that is to be done after that time; the offsets of messages handed out."""
        self.clock.advance(ms=after_ms)
        self.pump.reset({})  # it has something to wake for
        while not self.pump._inbox.empty():
            self.pump.turn()
        given = self.pump._workers.withdraw()
        self.batches += given
        return [message.queue_offset for batch in given for message in batch.messages]

    def pulled(self, answer: Found | Moved | Gone) -> list[int]:
        """Answers the pull that waits."""
        (_, tell) = self.pulls.pop()
        tell(answer)
        return self.run()

    def end(self, queue_offset: int, *, left: bool = False, delay_ms: int = 0) -> list[int]:
        """The listener is through with the message."""
        (batch,) = [each for each in self.batches if each.messages[0].queue_offset == queue_offset]
        self.batches.remove(batch)
        self.pump._report(batch, Outcome(batch.messages, delay_ms) if left else Outcome())
        return self.run()

    def commit_all(self) -> list[int]:
        """What a round of commits commits."""
        before = len(self.commits)
        self.pump._commits.catch_up(self.pump._held.values())
        self.run()
        return self.commits[before:]


def test_a_queue_is_read_on_while_its_messages_are_consumed() -> None:
    """What was pulled is handed out, the next pull goes behind it, and commits follow what is consumed."""
    bench = Bench(start=5)
    assert [offset for offset, _ in bench.pulls] == [5]
    assert bench.pulled(Found(messages([5, 6, 8]), 9)) == [5, 6, 8]
    assert [offset for offset, _ in bench.pulls] == [9]
    assert bench.commit_all() == [], "where it began is committed already"
    bench.end(6)
    assert bench.commit_all() == []
    bench.end(5)
    assert bench.commit_all() == [8]
    bench.end(8)
    assert bench.commit_all() == [9]
    assert bench.commit_all() == [], "nothing is committed twice"


def test_reading_stops_where_enough_is_held() -> None:
    """And goes on as soon as there is room, without being asked."""
    bench = Bench(pull_threshold_for_queue=2)
    bench.pulled(Found(messages([0, 1, 2]), 3))
    assert bench.pulls == []
    bench.end(0)
    assert [offset for offset, _ in bench.pulls] == [3]


def test_a_backlog_is_read_in_large_pieces() -> None:
    """The next when half of what may be held is consumed; a queue that is set elsewhere begins with a pull."""
    bench = Bench(pull_threshold_for_queue=100)
    bench.pulled(Found(messages(range(60)), 60, end_offset=1_000))
    assert bench.pulls == []
    for offset in range(11):
        bench.end(offset)
    assert [offset for offset, _ in bench.pulls] == [60]
    assert bench.rooms[-1].messages == 100 - 49
    bench.pulled(Moved(500, is_reset=True, reason="an operator"))
    assert bench.rooms[-1].messages == 32


def test_a_commit_that_fails_is_made_again() -> None:
    bench = Bench()
    bench.pulled(Found([], 7))
    bench.refusal = AWAY
    assert bench.commit_all() == [7]
    bench.refusal = None
    assert bench.commit_all() == [7]
    assert bench.commit_all() == []


def test_a_queue_that_cannot_be_read_rests(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again after three seconds and complained of once; what its broker may have forgotten is told anew."""
    bench = Bench()
    bench.pulled(Found([], 7))
    assert bench.commit_all() == [7]
    for _ in range(3):
        bench.pulled(Gone(AWAY))
        assert bench.pulls == []
        bench.run(after_ms=PULL_RETRY_MS)
        assert [offset for offset, _ in bench.pulls] == [7]
    assert bench.troubles == [QUEUE] * 3
    assert caplog.text.count("cannot be read") == 1
    assert bench.commit_all() == [7]
    bench.pulled(Found([], 7))
    bench.pulled(Gone(AWAY))
    assert caplog.text.count("cannot be read") == 2


def test_a_broker_that_holds_no_pulls_is_asked_with_pauses() -> None:
    bench = Bench()
    bench.pulled(Found([], 0, rest_ms=200))
    assert bench.pulls == []
    bench.run(after_ms=200)
    assert [offset for offset, _ in bench.pulls] == [0]


def test_a_queue_that_lost_its_oldest_messages_is_read_on_behind_them() -> None:
    """What is held of it is consumed all the same, and held back the commit."""
    bench = Bench()
    bench.pulled(Found(messages([0]), 1))
    bench.pulled(Moved(50, is_reset=False, reason="expired"))
    assert [offset for offset, _ in bench.pulls] == [50]
    assert bench.commits == [0]
    bench.end(0)
    assert bench.commit_all() == [50]


@pytest.mark.parametrize("moved", [Moved(50, True, "an operator"), Moved(0, False, "a tail is lost")])
def test_a_queue_that_is_set_elsewhere_begins_anew(moved: Moved) -> None:
    """What is held is nothing any more; where it begins is committed at once, and what listeners were at, is not."""
    bench = Bench(start=10)
    bench.pulled(Found(messages([10, 11]), 12))
    bench.pulled(moved)
    assert bench.commits.pop() == moved.next_offset
    assert [offset for offset, _ in bench.pulls] == [moved.next_offset]
    bench.end(10)
    bench.end(11, left=True, delay_ms=5_000)
    assert bench.run(after_ms=5_000) == []
    assert bench.commit_all() == []


def test_a_queue_whose_offsets_cannot_be_saved_is_read_on_from_another_place() -> None:
    """Be it moved by its broker or by an operator: the next round of commits saves it."""
    bench = Bench(start=5)
    bench.disk_error = StoreError("The offsets cannot be saved.")
    bench.pulled(Moved(3, is_reset=False, reason="it ends there"))
    assert [offset for offset, _ in bench.pulls] == [3]
    bench.pump.reset({QUEUE: 1})
    bench.run()
    assert [offset for offset, _ in bench.pulls] == [3, 1]


def test_an_answer_from_before_a_reset_is_dropped() -> None:
    """The pull that waits for the old place does not keep the new one waiting."""
    bench = Bench()
    bench.pump.reset({QUEUE: 100, MessageQueue("orders", "broker-a", 1): 7})
    bench.run()
    assert [offset for offset, _ in bench.pulls] == [0, 100]
    (_, stale), bench.pulls = bench.pulls[0], bench.pulls[1:]
    stale(Found(messages([0]), 1))
    assert bench.run() == []
    assert bench.pulled(Found(messages([100]), 101)) == [100]


def test_what_is_left_comes_again_after_its_time() -> None:
    """And is not committed before."""
    bench = Bench()
    bench.pulled(Found(messages([0, 1]), 2))
    bench.end(1)
    assert bench.end(0, left=True, delay_ms=5_000) == []
    assert bench.commit_all() == []
    assert bench.run(after_ms=5_000) == [0]
    bench.end(0)
    assert bench.commit_all() == [2]


def test_a_queue_that_is_released_is_committed_and_left() -> None:
    """Whoever comes next begins with what is not consumed here, also if a listener is still at it."""
    bench = Bench()
    bench.pulled(Found(messages([0, 1, 2]), 3))
    bench.end(0)
    gone = bench.pump.release(bench.held)
    bench.run()
    assert gone.done()
    assert bench.commits == [1]
    assert not bench.batches[0].is_wanted
    bench.end(1)
    bench.pulled(Found(messages([3]), 4))
    assert bench.pulls == []
    assert bench.commit_all() == []


def test_a_queue_whose_offsets_cannot_be_saved_is_left_all_the_same() -> None:
    """Of consumers that keep them in a file, on a disk that is full: it can be begun with again. At the end each queue
    is tried, and it is told how many were not saved."""
    bench = Bench(await_termination_millis_when_shutdown=0)
    bench.disk_error = StoreError("The offsets cannot be saved: no space.")
    gone = bench.pump.release(bench.held)
    bench.run()
    assert gone.done()
    for queue_id in (1, 2):
        bench.pump.hold(ProcessQueue(MessageQueue("orders", "broker-a", queue_id), 7))
    bench.run()
    bench.pump.close()
    bench.pump._run()
    assert bench.commits == [0, 7, 7]


# --- in order --------------------------------------------------------------------------------------------------------


def test_in_order_the_next_message_waits_for_the_one_before() -> None:
    """Until it is consumed, tries that fail among it."""
    bench = Bench(ordered=True)
    assert bench.pulled(Found(messages([0, 1]), 2)) == [0]
    assert bench.end(0, left=True, delay_ms=1_000) == []
    assert bench.run(after_ms=1_000) == [0]
    assert bench.end(0) == [1]


def test_in_order_nothing_is_consumed_after_a_sleep() -> None:
    """A machine that has slept for hours does not know it by the clock that nobody sets, and brokers have given the
    lock to another member meanwhile."""
    bench = Bench(ordered=True)
    bench.clock.set_now_ms(bench.clock.now_ms() + 8 * 3_600_000)
    assert bench.pulled(Found(messages([0]), 1)) == []
    bench.pump.renewed(bench.held, bench.locked())
    assert bench.run() == [0]


def test_in_order_nothing_is_consumed_without_a_lock() -> None:
    """A message that met the end of the lock waits, and its queue goes on when the lock is renewed."""
    bench = Bench(ordered=True)
    assert bench.pulled(Found(messages([0]), 1)) == [0]
    bench.clock.advance(ms=30_000)
    assert bench.end(0, left=True) == []
    bench.pump.renewed(bench.held, bench.locked())
    assert bench.run() == [0]


def test_in_order_nothing_is_consumed_while_a_broker_is_away() -> None:
    """When it is back it has forgotten the lock, and gives it to another member that asks first; until it is renewed
    nobody knows."""
    bench = Bench(ordered=True)
    bench.pulled(Found(messages([0, 1]), 2))
    bench.pulled(Gone(AWAY))
    assert bench.end(0) == []
    bench.pump.renewed(bench.held, bench.locked())
    assert bench.run() == [1]


def test_in_order_a_queue_is_given_up_after_what_is_under_way() -> None:
    """Committed first, and only then unlocked; until then it cannot be begun with again."""
    bench = Bench(ordered=True)
    bench.pulled(Found(messages([0, 1]), 2))
    gone = bench.pump.release(bench.held)
    bench.run()
    assert (gone.done(), bench.commits, bench.unlocked) == (False, [], [])
    assert bench.end(0) == []
    assert (gone.done(), bench.commits, bench.unlocked) == (True, [1], [QUEUE])


def test_in_order_a_message_that_waits_for_another_try_keeps_no_queue() -> None:
    bench = Bench(ordered=True)
    bench.pulled(Found(messages([0]), 1))
    bench.end(0, left=True, delay_ms=1_000)
    gone = bench.pump.release(bench.held)
    bench.run()
    assert (gone.done(), bench.commits, bench.unlocked) == (True, [0], [QUEUE])
    assert bench.run(after_ms=1_000) == []


def test_of_a_queue_that_is_lost_nobody_is_told() -> None:
    """Another member has it, and may have come further."""
    bench = Bench(ordered=True)
    bench.pulled(Found(messages([0]), 1))
    gone = bench.pump.release(bench.held, is_lost=True)
    bench.run()
    assert not gone.done(), "a listener is at work on it"
    bench.end(0)
    assert (gone.done(), bench.commits, bench.unlocked) == (True, [], [])


def test_closing_unlocks_what_waited_for_a_listener() -> None:
    """And commits what is consumed; nothing is begun any more."""
    bench = Bench(ordered=True)
    bench.pulled(Found(messages([0, 1]), 2))
    bench.end(0)
    bench.pump._workers.give(bench.batches.pop())  # as it is while all threads are busy
    bench.pump.close()
    bench.pump._run()
    assert (bench.commits, bench.unlocked) == ([1], [QUEUE])


def test_closing_commits_what_was_consumed_of_a_queue_that_is_leaving() -> None:
    """Its listener is still at work, and not waited for any longer: only what it is at is consumed again. Others may
    not have the queue yet."""
    bench = Bench(ordered=True, await_termination_millis_when_shutdown=0)
    bench.pulled(Found(messages([0, 1]), 2))
    bench.end(0)
    gone = bench.pump.release(bench.held)
    bench.run()
    assert (gone.done(), bench.commits) == (False, [])
    bench.pump.close()
    bench.pump._run()
    assert (bench.commits, bench.unlocked) == ([1], [])


def test_closing_gives_up_a_queue_that_came_too_late_to_be_read() -> None:
    """It was locked, and nobody else would have it for a minute."""
    bench, late = Bench(ordered=True), MessageQueue("orders", "broker-a", 1)
    bench.pump.close()
    bench.pump.hold(ProcessQueue(late, 7))
    bench.pump._run()
    assert (bench.commits, bench.unlocked) == ([0, 7], [QUEUE, late])
    assert [offset for offset, _ in bench.pulls] == [0]


@pytest.mark.parametrize("error", [TopicNotFound("orders"), StoreReplaced("another store")])
def test_nothing_is_committed_of_a_queue_whose_topic_or_store_is_gone(error: RmqError) -> None:
    """In another topic of its name, and in another store, its offsets are those of other messages."""
    bench = Bench()
    bench.pulled(Found(messages([0, 1]), 2))
    bench.pulled(Gone(error))
    bench.end(0)
    assert (bench.troubles, bench.commit_all()) == ([QUEUE], [])
    gone = bench.pump.release(bench.held, is_lost=True)
    assert bench.run(after_ms=PULL_RETRY_MS) == []
    assert (gone.done(), bench.commits, bench.pulls, bench.forgotten) == (True, [], [], [QUEUE])
