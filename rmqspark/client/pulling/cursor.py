"""Where the reading of one queue stands: what was handed out, what has been fetched, what to ask next. Pure.

A cursor moves along its queue in three places: `position` is the next message the user gets, what is fetched lies
ahead of it, and `fetch_offset` is where the next request begins. `seek` throws away what was fetched and counts
`generation` up, by which an answer to an older request is recognised and dropped.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.pulling.received import Read

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import int32
    from numpy.typing import NDArray

    from rmqspark.client.cluster.capabilities import StoreLife
    from rmqspark.errors import RmqError
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

TAIL_MESSAGES = 32  # a queue with fewer messages ahead is followed by held pulls, one with more by bulk reads
MAX_CHUNKS_AHEAD = 2
CHUNK_BYTES = 1 << 20  # of a bulk read


class Ask(Enum):
    """How to fetch what comes next."""

    START = auto()  # what its broker can do, and where a new cursor begins
    BULK = auto()  # a large piece at once
    TAIL = auto()  # a pull that the broker may hold until something comes


class Fetched(NamedTuple):
    """What one request brought, not yet decoded. `sizes` of the records where the broker told them, and
    `topic_deleted_ms`, when a topic of this name was last deleted."""

    next_offset: int
    max_offset: int
    records: bytes | memoryview
    sizes: NDArray[int32] | None = None
    topic_deleted_ms: int | None = None


class Cursor:
    """The place of a consumer in one queue. Belongs to whoever holds the consumer's lock."""

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.position: int | None = None  # None: to be found out (committed, or the queue's beginning or end)
        self.fetch_offset = 0
        self.max_offset: int | None = None  # as last told by the broker; None: nothing was told yet
        self.topic_deleted_ms: int | None = None  # as its broker told since the last seek
        self.life: StoreLife | None = None  # what the offsets are of, likewise
        self.read_last: Read | None = None  # what was handed out last, likewise
        self.generation = 0
        self.asking: Ask | None = None  # the request under way
        self.failure: RmqError | None = None
        self.retry_at_ms = 0
        self.next_look_ms = 0  # when a reset of the group is looked for next
        self._chunks: deque[Fetched] = deque()
        self._messages: list[ReceivedMessage] = []
        self._taken = 0
        self._decoded_up_to = 0  # where the reading goes on after the decoded messages

    def seek(self, queue_offset: int) -> None:
        """Goes on at `queue_offset`; everything fetched or on its way is dropped."""
        self.position = queue_offset
        self.topic_deleted_ms = self.life = self.read_last = None
        self.ask_again()

    def ask_again(self) -> None:
        """Goes on where it stands; everything fetched or on its way is dropped."""
        self.generation += 1
        if self.position is not None:
            self.fetch_offset = self._decoded_up_to = self.position
        self.max_offset = None
        self.asking = None
        self.failure = None
        self.retry_at_ms = 0
        self._chunks.clear()
        self._messages, self._taken = [], 0

    # --- asking ------------------------------------------------------------------------------------------------------

    def wants_fetch(self, now_ms: int) -> bool:
        return self.asking is None and len(self._chunks) < MAX_CHUNKS_AHEAD and now_ms >= self.retry_at_ms

    @property
    def backlogged(self) -> bool:
        """Whether much is waiting in the broker, or nobody knows yet."""
        return self.max_offset is None or self.max_offset - self.fetch_offset > TAIL_MESSAGES

    def ask(self, *, bulk: bool) -> Ask:
        """What is asked now: a large piece of a backlog, if the broker has bulk reads, else a pull that may wait."""
        self.asking = Ask.BULK if bulk and self.backlogged else Ask.TAIL
        return self.asking

    def ask_start(self) -> None:
        self.asking = Ask.START

    @property
    def is_starting(self) -> bool:
        """Whether the first answer of its broker is awaited."""
        return self.asking is Ask.START and self.failure is None

    def started(self, position: int) -> None:
        """Its broker is ready to be asked; a new cursor stands at `position`."""
        self.asking = None
        if self.position is None:
            self.seek(position)

    def arrived(self, fetched: Fetched) -> None:
        self.asking = None
        self.failure = None
        self.max_offset = fetched.max_offset
        self.fetch_offset = fetched.next_offset
        if fetched.topic_deleted_ms is not None:
            self.topic_deleted_ms = max(self.topic_deleted_ms or 0, fetched.topic_deleted_ms)
        self._chunks.append(fetched)

    def failed(self, error: RmqError, retry_at_ms: int) -> None:
        self.asking = None
        self.failure = error
        self.retry_at_ms = retry_at_ms

    # --- handing out -------------------------------------------------------------------------------------------------

    @property
    def bytes_ahead(self) -> int:
        """What is fetched and not decoded, and what a bulk read under way may bring."""
        expected = CHUNK_BYTES if self.asking is Ask.BULK else 0
        return expected + sum(len(chunk.records) for chunk in self._chunks)

    def take(self, max_count: int, decode: Callable[[Fetched], list[ReceivedMessage]]) -> list[ReceivedMessage]:
        """Up to `max_count` (1 or more) of the messages fetched, in order; the position moves behind them.

        `decode` gives the messages of a chunk that the user wants to see, perhaps none. Where it raises the chunk
        stays; it may `cut` that before.
        """
        while not self._messages and self._chunks:
            self._messages = decode(self._chunks[0])
            chunk = self._chunks.popleft()
            self._decoded_up_to = chunk.next_offset
            if not self._messages:
                self.position = chunk.next_offset
        taken = self._messages[self._taken : self._taken + max_count]
        self._taken += len(taken)
        if taken:
            self.read_last = Read.of(taken[-1])
        if self._taken < len(self._messages):
            self.position = taken[-1].queue_offset + 1
        elif taken:
            self.position = self._decoded_up_to
            self._messages, self._taken = [], 0
        return taken

    def cut(self, size_bytes: int, queue_offset: int) -> Fetched:
        """Makes two of what is decoded next; returns the first, of so many bytes. The second begins at
        `queue_offset`."""
        chunk = self._chunks.popleft()
        first = Fetched(queue_offset, chunk.max_offset, chunk.records[:size_bytes])
        self._chunks.extendleft((chunk._replace(records=chunk.records[size_bytes:], sizes=None), first))
        return first
