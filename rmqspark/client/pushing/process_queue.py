"""One queue as its consumer holds it: what was pulled, what a listener has, and how far everything is consumed. Pure.

Messages are consumed by many threads and end in any order, so what may be committed is not the last that ended but the
lowest offset that has not: everything before it is consumed, whatever dies meanwhile. It follows the pulls where
nothing is held at all, so that messages filtered out are passed, too.

    arrived → waiting → taken (a Batch is with a listener) → finished, or left: put back, and taken again

A restart throws all of that away and goes on elsewhere; `generation` counts them, by which a batch that was taken
before is known and changes nothing. RocketMQ: ProcessQueue; spec: semantics, sections 8.3 and 8.4.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.pulling.received import Read
from rmqspark.client.pushing.instant import LONG_AGO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.cluster.capabilities import StoreLife
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage


LOCK_LIVE_MS: Final = 30_000  # RocketMQ's rebalanceLockMaxLiveTime: half of what its brokers grant


class Thresholds(NamedTuple):
    """No more is pulled for a queue that holds more than this; `span` is from its lowest offset to its highest."""

    messages: int
    size_bytes: int
    span: int


class Room(NamedTuple):
    """What a queue has room for."""

    messages: int
    size_bytes: int


class Batch(NamedTuple):
    """What one call of a listener is about."""

    of: ProcessQueue
    generation: int
    messages: list[ReceivedMessage]

    @property
    def is_wanted(self) -> bool:
        """Whether its queue is still held, and where it was when this was taken."""
        return not self.of.dropped and self.generation == self.of.generation


class ProcessQueue:
    """What a consumer holds of one queue. It has one owner; others look at `dropped`, `generation` and the lock."""

    def __init__(self, queue: MessageQueue, start: int, now_ms: int = 0) -> None:
        self.queue = queue
        self.next_offset = start  # of the next pull
        self.end_offset = 0  # of the queue, as its broker told last; 0 where a backlog is not read in bulk
        self.topic_deleted_ms: int | None = None  # as its broker told last; None: not yet
        self.life: StoreLife | None = None  # what the offsets are of; None: its broker was not asked yet
        self.read_last: Read | None = None  # since it began
        self.pulled_ms = 0  # when the last pull was sent
        self.asked_ms = now_ms  # when more was asked for last
        self.consumed_ms = now_ms  # when a listener had anything last
        self.generation = 0
        self.dropped = False
        self.locked_until = LONG_AGO  # of those that are consumed in order: until then nobody else has it
        self.size_bytes = 0
        self._waiting: deque[ReceivedMessage] = deque()
        self._sizes: dict[int, int] = {}  # of what is not consumed yet, by offset
        self._offsets: deque[int] = deque()  # from the lowest that is not consumed; those behind it may be
        self._at_work = 0  # batches that are with a listener
        self._left = 0  # batches of which something waits to be put back

    def restart(self, queue_offset: int) -> None:
        """Goes on at `queue_offset`, with nothing held. Batches that are out come to nothing."""
        self.generation += 1
        self.next_offset = queue_offset
        self.end_offset = 0
        self.read_last = None
        self.size_bytes = 0
        self._waiting.clear()
        self._sizes.clear()
        self._offsets.clear()

    def skip_to(self, queue_offset: int) -> None:
        """The next pull begins at `queue_offset`, behind all that is held."""
        self.next_offset = queue_offset

    def drop(self) -> None:
        """The queue is another's from now on."""
        self.dropped = True

    # --- messages ----------------------------------------------------------------------------------------------------

    def arrived(self, messages: Sequence[ReceivedMessage], next_offset: int, end_offset: int = 0) -> None:
        """What a pull brought, in order; the next one begins at `next_offset`."""
        for message in messages:
            size = len(message.body)
            self._sizes[message.queue_offset] = size
            self.size_bytes += size
            self._offsets.append(message.queue_offset)
        self._waiting.extend(messages)
        if messages:
            self.read_last = Read.of(messages[-1])
        self.next_offset = next_offset
        self.end_offset = end_offset

    def take(self, max_count: int) -> Batch | None:
        """The next messages for a listener; None where none wait."""
        if not self._waiting:
            return None
        messages = [self._waiting.popleft() for _ in range(min(max_count, len(self._waiting)))]
        self._at_work += 1
        return Batch(self, self.generation, messages)

    def finish(self, batch: Batch, left: Sequence[ReceivedMessage] = ()) -> None:
        """A listener is through with a batch; all of it is consumed but what is `left`, which is put back later."""
        self._at_work -= 1
        self._left += bool(left)
        if batch.generation != self.generation:
            return
        kept = {message.queue_offset for message in left}
        for message in batch.messages:
            if message.queue_offset not in kept:
                self._let_go(message)
        self._pass_over()

    def given_away(self, batch: Batch, message: ReceivedMessage) -> None:
        """A broker has it again, though a listener is still at it: the queue goes on without it."""
        if batch.generation == self.generation:
            self._let_go(message)
            self._pass_over()

    def put_back(self, batch: Batch, left: Sequence[ReceivedMessage]) -> None:
        """What was left of a batch waits again, before all others."""
        self._left -= 1
        if batch.generation == self.generation:
            self._waiting.extendleft(message for message in reversed(left) if self.holds(message))

    def _let_go(self, message: ReceivedMessage) -> None:
        self.size_bytes -= self._sizes.pop(message.queue_offset, 0)

    def _pass_over(self) -> None:
        while self._offsets and self._offsets[0] not in self._sizes:
            self._offsets.popleft()

    # --- what follows ------------------------------------------------------------------------------------------------

    @property
    def commit_offset(self) -> int:
        """Everything before it is consumed."""
        return self._offsets[0] if self._offsets else self.next_offset

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether it is not consumed yet. Any thread may ask."""
        return message.queue_offset in self._sizes

    def offsets(self) -> list[int]:
        """Of what is not consumed, in order."""
        return [offset for offset in self._offsets if offset in self._sizes]

    @property
    def waiting(self) -> int:
        """The messages that no listener has."""
        return len(self._waiting)

    @property
    def is_at_work(self) -> bool:
        """Whether a listener has a batch, be it of an earlier generation."""
        return self._at_work > 0

    @property
    def is_idle(self) -> bool:
        """Whether no batch is with a listener, or waits to be put back."""
        return not self._at_work and not self._left

    def __len__(self) -> int:
        """The messages that are not consumed."""
        return len(self._sizes)

    @property
    def backlog(self) -> int:
        """The offsets that are there to be read in bulk."""
        return max(self.end_offset - self.next_offset, 0)

    def room(self, most: Thresholds, batch_size: int) -> Room | None:
        """What is asked for next; None where nothing is. Of a backlog that is as much as may be held, once half of that
        is consumed: fewer and larger answers cost less."""
        if not self.has_room(most):
            return None
        free = most.messages - len(self._sizes)
        if self.backlog <= batch_size:
            return Room(batch_size, most.size_bytes)
        return Room(free, most.size_bytes - self.size_bytes) if free > most.messages // 2 else None

    def has_room(self, most: Thresholds) -> bool:
        span = self._offsets[-1] - self._offsets[0] if self._offsets else 0
        return len(self._sizes) <= most.messages and self.size_bytes <= most.size_bytes and span <= most.span
