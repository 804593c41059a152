"""How limits on a micro-batch are dealt to queues, and that nobody starves."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.cluster.measuring import Extent
from rmqspark.errors import Unreachable
from rmqspark.model import MessageQueue
from rmqspark.source.planning.admission import Admission, Limits
from rmqspark.source.planning.shares import Budget, share, share_bytes
from rmqspark.source.queue_range import QueueRange
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# --- messages


@pytest.mark.parametrize(
    ("backlogs", "limit", "first", "shares"),
    [
        ([5, 5], 100, 0, [5, 5]),
        ([100, 10, 0], 11, 0, [9, 2, 0]),
        ([1000, 1], 10, 0, [9, 1]),
        ([7, 7, 7], 2, 0, [1, 1, 0]),
        ([7, 7, 7], 2, 2, [1, 0, 1]),
        ([7, 7, 7], 2, 4, [0, 1, 1]),
        ([0, 0], 5, 0, [0, 0]),
    ],
)
def test_a_limit_is_dealt_by_backlog(backlogs: list[int], limit: int, first: int, shares: list[int]) -> None:
    """maxOffsetsPerTrigger goes to the queues by what waits in them."""
    assert share(backlogs, limit, first) == shares


@pytest.mark.property
@given(st.lists(st.integers(0, 10_000), max_size=20), st.integers(1, 5_000), st.integers(0, 1000))
def test_shares_are_exact_and_starve_nobody(backlogs: list[int], limit: int, first: int) -> None:
    """A limited batch is full, takes no more than there is, and leaves out no queue while it has room for one each."""
    shares = share(backlogs, limit, first)
    assert sum(shares) == min(limit, sum(backlogs))
    assert all(0 <= got <= backlog for got, backlog in zip(shares, backlogs, strict=True))
    waiting = [index for index, backlog in enumerate(backlogs) if backlog]
    if len(waiting) <= limit:
        assert all(shares[index] for index in waiting)


# --- bytes


class Queues:
    """Queues whose message sizes the test sets; it answers like a broker that looks at `window` entries at a time."""

    def __init__(self, sizes: Sequence[Sequence[int]], window: int = 1 << 30) -> None:
        self.sizes, self.window, self.questions = sizes, window, 0

    def measure(self, budgets: Sequence[Budget]) -> list[Extent]:
        self.questions += 1
        return [self._extent(budget) for budget in budgets]

    def _extent(self, budget: Budget) -> Extent:
        size_bytes = 0
        for offset in range(budget.start, min(budget.end, budget.start + self.window)):
            size = self.sizes[budget.number][offset]
            if size_bytes + size > budget.max_bytes:
                return Extent(offset, size_bytes, size)
            size_bytes += size
        return Extent(min(budget.end, budget.start + self.window), size_bytes, 0)

    def bytes_of(self, shares: Sequence[int]) -> int:
        return sum(sum(sizes[:count]) for sizes, count in zip(self.sizes, shares, strict=True))


def dealt(queues: Queues, max_bytes: int, first: int = 0) -> list[int]:
    return share_bytes(
        [0] * len(queues.sizes), [len(sizes) for sizes in queues.sizes], max_bytes, queues.measure, first
    )


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "first", "shares"),
    [
        ([[10] * 5, [10] * 5], 1000, 0, [5, 5]),  # everything fits
        ([[10] * 90, [10] * 10], 500, 0, [46, 4]),  # by backlog, after the one whose turn it is
        ([[10] * 50, [1] * 50], 300, 0, [25, 50]),  # what one leaves over another uses
        ([[900], [10] * 9], 100, 0, [1, 0]),  # larger than the limit: alone, when its turn comes
        ([[900], [10] * 9], 100, 1, [0, 9]),  # and not before
        ([[90, 90], [90, 90]], 100, 1, [0, 1]),  # a share too small for any message goes to whose turn it is
        ([[60, 60], [30, 30]], 100, 0, [1, 1]),  # the rest to whoever it is enough for
        ([[], [10], []], 5, 7, [0, 1, 0]),
        ([[], []], 5, 0, [0, 0]),
        ([[0, 0, 0], [50]], 50, 0, [3, 1]),  # lost messages weigh nothing
    ],
)
def test_bytes_are_dealt_by_backlog(sizes: list[list[int]], max_bytes: int, first: int, shares: list[int]) -> None:
    """maxBytesPerTrigger goes to the queues by what waits in them, and is used up as far as whole messages allow."""
    assert dealt(Queues(sizes), max_bytes, first) == shares


@pytest.mark.property
@given(
    st.lists(st.lists(st.integers(1, 200), max_size=30), min_size=1, max_size=12),
    st.integers(1, 3_000),
    st.integers(0, 50),
    st.sampled_from([2, 7, 1 << 30]),
)
def test_bytes_are_exact(sizes: list[list[int]], max_bytes: int, first: int, window: int) -> None:
    """A batch is never over its limit, unless one message alone is; and it is empty only where nothing waits."""
    queues = Queues(sizes, window)
    shares = dealt(queues, max_bytes, first)
    waiting = [number for number, each in enumerate(sizes) if each]
    assert all(0 <= count <= len(each) for count, each in zip(shares, sizes, strict=True))
    assert queues.bytes_of(shares) <= max_bytes or sum(shares) == 1
    if waiting:
        assert shares[waiting[first % len(waiting)]] >= 1
    if queues.bytes_of([len(each) for each in sizes]) <= max_bytes:
        assert shares == [len(each) for each in sizes]


def test_a_large_limit_takes_few_questions() -> None:
    """What a byte limit costs is a handful of requests a batch, whatever the sizes."""
    draw = random.Random(7)
    queues = Queues([[draw.randint(1, 5_000) for _ in range(draw.randint(1, 200))] for _ in range(64)])
    shares = dealt(queues, 4_000_000)
    assert 3_900_000 < queues.bytes_of(shares) <= 4_000_000
    assert queues.questions <= 8


# --- batch after batch


class Topic:
    """A thousand queues or so that never run dry; each has messages of its own size, some larger than any limit."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = {MessageQueue("t", "broker-a", number): size for number, size in enumerate(sizes)}
        self.positions = dict.fromkeys(self.sizes, 0)

    def backlogs(self) -> list[QueueRange]:
        return [QueueRange(queue, at, at + 1_000) for queue, at in self.positions.items()]

    def measure(self, budgets: Sequence[tuple[QueueRange, int]]) -> list[Extent]:
        return [self._extent(wanted, max_bytes) for wanted, max_bytes in budgets]

    def _extent(self, wanted: QueueRange, max_bytes: int) -> Extent:
        size = self.sizes[wanted.queue]
        count = min(wanted.size, max_bytes // size)
        return Extent(wanted.start + count, count * size, size if count < wanted.size else 0)

    def read(self, admission: Admission, limits: Limits) -> int:
        """One micro-batch; returns its bytes."""
        backlogs = self.backlogs()
        counts = admission.admit(backlogs, limits)
        for backlog, count in zip(backlogs, counts, strict=True):
            self.positions[backlog.queue] += count
        assert limits.max_rows is None or sum(counts) <= limits.max_rows
        size_bytes = sum(self.sizes[backlog.queue] * count for backlog, count in zip(backlogs, counts, strict=True))
        assert limits.max_bytes is None or size_bytes <= limits.max_bytes or sum(counts) == 1
        return size_bytes


@pytest.mark.property
@pytest.mark.parametrize(
    ("limits", "most_batches"),
    [
        (Limits(max_rows=7), 143),
        (Limits(max_rows=3_000), 1),
        (Limits(max_bytes=3_000), 1_000),
        (Limits(max_rows=30, max_bytes=3_000), 1_000),
    ],
)
def test_none_of_a_thousand_queues_starves(limits: Limits, most_batches: int) -> None:
    """Under rows, bytes or both each queue is read within as many batches as there are queues, although all always
    have more, and some messages are larger than the limit."""
    draw = random.Random(20)
    topic = Topic([draw.choice([40, 200, 200, 200, 200, 200, 200, 1_000, 1_000, 9_000]) for _ in range(1_000)])
    admission = Admission(topic.measure, ManualClock())
    batches = 0
    while min(topic.positions.values()) == 0:
        topic.read(admission, limits)
        batches += 1
    assert batches <= most_batches


@pytest.mark.property
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=25),
    st.none() | st.integers(1, 30),
    st.none() | st.integers(1, 1_000),
    st.lists(st.sets(st.integers(0, 24), max_size=10), max_size=8),
)
def test_queues_that_come_and_go_starve_nobody(
    sizes: list[int], max_rows: int | None, max_bytes: int | None, absences: list[set[int]]
) -> None:
    """However others run dry and fill again, a queue that always has more is read within so many batches."""
    topic = Topic(sizes)
    admission = Admission(topic.measure, ManualClock())
    limits = Limits(max_rows=max_rows, max_bytes=max_bytes)
    dry = itertools.cycle(absences or [set()])
    always = set(range(len(sizes))).difference(*absences)
    for _ in range(len(sizes)):
        away = next(dry)
        backlogs = [each._replace(end=each.start) if each.queue.queue_id in away else each for each in topic.backlogs()]
        for backlog, count in zip(backlogs, admission.admit(backlogs, limits), strict=True):
            topic.positions[backlog.queue] += count
    assert all(at >= 1 for queue, at in topic.positions.items() if queue.queue_id in always)


# --- waiting for more


def test_a_batch_waits_until_there_is_enough() -> None:
    """minOffsetsPerTrigger: nothing is read before so many messages wait; the first batch of a run comes at once."""
    clock = ManualClock()
    admission = Admission(Topic([1]).measure, clock)
    limits = Limits(min_rows=100, max_delay_ms=60_000)
    queue = MessageQueue("t", "broker-a", 0)

    def admitted(count: int) -> int:
        return admission.admit([QueueRange(queue, 0, count)], limits)[0]

    steps: list[tuple[int, int, int]] = [(0, 5, 5), (1_000, 99, 0), (1_000, 100, 100), (59_999, 7, 0), (1, 7, 7)]
    for pause_ms, waits, taken in steps:
        clock.advance(ms=pause_ms)
        assert admitted(waits) == taken


def test_the_longest_delay_begins_with_the_last_batch() -> None:
    """maxTriggerDelay is the time between two batches: what comes after an idle hour is read at once."""
    clock = ManualClock()
    admission = Admission(Topic([1]).measure, clock)
    limits = Limits(min_rows=100, max_delay_ms=60_000)
    queue = MessageQueue("t", "broker-a", 0)
    assert admission.admit([QueueRange(queue, 0, 200)], limits) == [200]
    clock.advance(ms=3_600_000)
    assert admission.admit([QueueRange(queue, 200, 200)], limits) == [0]
    assert admission.admit([QueueRange(queue, 200, 201)], limits) == [1]


def test_a_broker_that_cannot_be_asked_puts_no_batch_off() -> None:
    """What was due is read without it at the next look, and not when maxTriggerDelay is over once more."""
    topic, failures = Topic([10]), [Unreachable("Nobody is there.", address="broker-a")]

    def measure(budgets: Sequence[tuple[QueueRange, int]]) -> Sequence[Extent]:
        if failures:
            raise failures.pop()
        return topic.measure(budgets)

    admission = Admission(measure, ManualClock())
    limits = Limits(max_bytes=500, min_rows=10_000)
    with pytest.raises(Unreachable):
        admission.admit(topic.backlogs(), limits)
    assert admission.admit(topic.backlogs(), limits) == [50]


def test_all_limits_hold_together() -> None:
    """A batch that has waited for enough is still no larger than rows and bytes allow."""
    topic = Topic([10, 10])
    admission = Admission(topic.measure, ManualClock())
    every: Callable[[Limits], int] = lambda limits: sum(admission.admit(topic.backlogs(), limits))  # noqa: E731
    assert every(Limits(max_rows=100, max_bytes=500, min_rows=1_000)) == 50
    assert every(Limits(max_rows=20, max_bytes=500, min_rows=1_000)) == 20
    assert every(Limits(max_rows=20, max_bytes=500, min_rows=2_001)) == 0
