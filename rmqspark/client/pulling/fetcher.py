"""Asks brokers for what comes next in a queue, without waiting for the answer."""

from __future__ import annotations

from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.broker_client import NO_GROUP, SUSPEND_MS
from rmqspark.client.cluster.futures import after, at_hand, rephrased, then
from rmqspark.client.cluster.pull_request import PullStatus
from rmqspark.client.pulling.cursor import CHUNK_BYTES, Ask, Fetched
from rmqspark.client.pulling.received import Read, received_all
from rmqspark.errors import OffsetMoved, RmqError, StoreReplaced, TopicRemade
from rmqspark.protocol.headers.bulk import TO_THE_END
from rmqspark.protocol.headers.consume import OFFSET_RESET

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.bulk import BulkChunk
    from rmqspark.client.cluster.capabilities import Capabilities, StoreLife
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.pull_request import PullResult
    from rmqspark.client.pulling.cursor import Cursor
    from rmqspark.message_queue import MessageQueue

CHUNK_MESSAGES = 16_384
PULL_MESSAGES = 1_024  # stock brokers give 32 at most
RESET_LOOK_MS = 1_000


class Started(NamedTuple):
    """The broker can be asked for messages; a new cursor begins here."""

    position: int


class Reset(NamedTuple):
    """An operator has set the group here: what was fetched of the queue is not wanted any more."""

    position: int


class Arrival(NamedTuple):
    """An answer for a cursor, if it still is where it was when it asked (`generation`)."""

    cursor: Cursor
    generation: int
    outcome: Fetched | Started | Reset | RmqError


class Fetcher:
    """Fetches for one group, or none, with one tag expression, or one of SQL92; queues that the group has never
    committed begin at their `start`, earliest or latest.

    Answers are put on a queue by the connections' reader threads and taken off it by `arrivals`; so whoever polls may
    take its time, and no lock is held that an answer would need.
    """

    def __init__(
        self, cluster: ClusterClient, group: str | None, tags: str, sql: str | None = None, start: str = "earliest"
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._start = start
        self._tags = tags
        self._sql = sql
        self.begin_anew()

    def begin_anew(self) -> None:
        """What is under way arrives nowhere any more."""
        self._arrived: SimpleQueue[Arrival | None] = SimpleQueue()

    def fetch(self, cursor: Cursor) -> None:
        """Sends the request that `cursor` wants next; what becomes of it, an error too, is an arrival."""
        generation = cursor.generation

        def arrived(future: Future[Fetched] | Future[Started] | Future[Fetched | Reset]) -> None:
            error = future.exception()
            if error is not None and not isinstance(error, RmqError):
                raise error
            self._arrived.put(Arrival(cursor, generation, future.result() if error is None else error))

        try:
            self._submit(cursor).add_done_callback(arrived)
        except RmqError as error:
            self._arrived.put(Arrival(cursor, generation, error))

    def first_position(self, queue: MessageQueue) -> Future[int]:
        """Where a new cursor begins: where the group has committed, else at the queue's start."""
        if self._group is None:
            return self.end_of(queue, self._start)
        broker = self._cluster.broker(queue.broker_name)
        committed = broker.submit_query_offset(self._group, queue.topic, queue.queue_id)
        return after(committed, lambda offset: self.end_of(queue, self._start) if offset is None else at_hand(offset))

    def end_of(self, queue: MessageQueue, end: str) -> Future[int]:
        """Where the queue's oldest message is ("earliest"), or the next one will be ("latest")."""
        broker = self._cluster.broker(queue.broker_name)
        submit = broker.submit_min_offset if end == "earliest" else broker.submit_max_offset
        return submit(queue.topic, queue.queue_id)

    def arrivals(self, timeout_ms: int) -> list[Arrival]:
        """What has arrived; if nothing has, the first thing that does within the time."""
        arrivals = self._drain()
        if arrivals or timeout_ms <= 0:
            return arrivals
        try:
            first = self._arrived.get(timeout=timeout_ms / 1000)
        except Empty:
            return []
        return [*([first] if first else ()), *self._drain()]

    def wake(self) -> None:
        """Ends a wait in `arrivals`."""
        self._arrived.put(None)

    def _drain(self) -> list[Arrival]:
        arrivals: list[Arrival] = []
        while True:
            try:
                arrival = self._arrived.get_nowait()
            except Empty:
                return arrivals
            if arrival is not None:
                arrivals.append(arrival)

    def _submit(self, cursor: Cursor) -> Future[Fetched] | Future[Started] | Future[Fetched | Reset]:
        broker = self._cluster.broker(cursor.queue.broker_name)
        able = broker.ask_capabilities()
        if able.done() and cursor.position is not None:
            return self._ask(broker, able.result(), cursor)
        cursor.ask_start()
        place = self.first_position(cursor.queue) if cursor.position is None else at_hand(cursor.position)
        return after(able, lambda _: then(place, Started))

    def _ask(
        self, broker: BrokerClient, able: Capabilities, cursor: Cursor
    ) -> Future[Fetched] | Future[Fetched | Reset]:
        known = cursor.life = cursor.life or able.life
        try:
            known.require(able.life, broker.name)
        except StoreReplaced as error:
            return self._elsewhere(broker, cursor, error.message, known, able.life)
        in_bulk = able.reads_in_bulk(self._sql) and not self._looks_for_reset(cursor)
        if cursor.ask(bulk=in_bulk) is Ask.BULK:
            return self._ask_bulk(broker, cursor)
        queue, queue_offset, deleted_ms = cursor.queue, cursor.fetch_offset, cursor.topic_deleted_ms
        future = broker.submit_pull(
            queue,
            queue_offset,
            group=self._group or NO_GROUP,
            max_count=PULL_MESSAGES,
            tags=self._tags,
            sql=self._sql,
            suspend_ms=SUSPEND_MS,
        )
        return then(future, lambda result: _from_pull(result, queue, queue_offset, deleted_ms))

    def _elsewhere(
        self, broker: BrokerClient, cursor: Cursor, why: str, known: StoreLife, now: StoreLife
    ) -> Future[Fetched | Reset]:
        """Behind what was read last, where that is in its place still: so is all before it then. Who has read nothing
        yet goes on if the queue ends there: hardly has as much come as was lost. Else an error."""
        cursor.ask(bulk=False)
        moved = partial(self._moved, cursor, why, is_another=known.store_id != now.store_id)
        if known.is_another(now):
            return moved()
        last, position = cursor.read_last, cursor.position or 0
        if last is None or last.queue_offset >= position:  # it was taken back
            end = self.end_of(cursor.queue, "latest")
            return after(end, lambda offset: at_hand(Reset(position)) if offset == position else moved())
        future = broker.submit_pull(
            cursor.queue, last.queue_offset, group=self._group or NO_GROUP, max_count=1, tags=self._tags, sql=self._sql
        )

        def follow(result: PullResult) -> Future[Fetched | Reset]:
            if result.status is PullStatus.OFFSET_MOVED and result.reason == OFFSET_RESET:
                return at_hand(Reset(result.next_offset))
            there = received_all(result.records, broker.name) if result.status is PullStatus.FOUND else []
            if [Read.of(each) for each in there] == [last]:
                return at_hand(Reset(last.queue_offset + 1))
            return moved()

        return after(future, follow)

    def _moved(self, cursor: Cursor, why: str, *, is_another: bool) -> Future[Fetched | Reset]:
        """An error: where to go on is the user's to say. Another store is all new to him. Of the same one he has read
        what was before the end that is lost, and where that is only his group may tell."""
        queue, position = cursor.queue, cursor.position or 0
        if is_another:
            place = self.end_of(queue, "earliest")
        elif self._group is not None:
            place = self.first_position(queue)
        else:
            place = then(self.end_of(queue, "latest"), lambda end: min(position, end))

        def moved(begin: int) -> Fetched | Reset:
            raise OffsetMoved(
                f"{why} Offset {position} of {queue} may be that of other messages now.",
                next_offset=begin,
                hint=f"Go on with consumer.seek(queue, {begin}).",
            )

        return then(place, moved)

    def _looks_for_reset(self, cursor: Cursor) -> bool:
        """Brokers tell a pull that an operator has set the group elsewhere, and no bulk read; so of a long backlog a
        group pulls a piece now and then."""
        now_ms = self._cluster.clock.monotonic_ms()
        if self._group is None or now_ms < cursor.next_look_ms:
            return False
        cursor.next_look_ms = now_ms + RESET_LOOK_MS
        return True

    def _ask_bulk(self, broker: BrokerClient, cursor: Cursor) -> Future[Fetched]:
        future = broker.bulk_read(
            cursor.queue.topic,
            cursor.queue.queue_id,
            cursor.fetch_offset,
            TO_THE_END,
            max_count=CHUNK_MESSAGES,
            max_bytes=CHUNK_BYTES,
            tags=None if self._tags == "*" else self._tags,
            sql=self._sql,
            topic_deleted_ms=cursor.topic_deleted_ms,
            group=self._group,
        )
        return then(rephrased(future, _as_moved), _from_bulk)


def _from_bulk(chunk: BulkChunk) -> Fetched:
    return Fetched(chunk.next_offset, chunk.max_offset, chunk.records, chunk.sizes, chunk.topic_deleted_ms)


def _as_moved(error: BaseException) -> BaseException:
    return _moved_with_topic(error.message, 0) if isinstance(error, TopicRemade) else error


def _moved_with_topic(reason: str, begin: int) -> OffsetMoved:
    return OffsetMoved(reason, next_offset=begin, hint=f"Read it from its beginning: consumer.seek(queue, {begin}).")


def _from_pull(result: PullResult, queue: MessageQueue, queue_offset: int, deleted_ms: int | None) -> Fetched | Reset:
    """RocketMQ's offset corrections are errors to the user, for messages were lost or never were; a reset is not. So is
    another topic of the name: `deleted_ms` says which deletion was known of."""
    if result.status is PullStatus.OFFSET_MOVED and result.reason == OFFSET_RESET:
        return Reset(result.next_offset)
    if deleted_ms is not None and (result.topic_deleted_ms or 0) > deleted_ms:
        raise _moved_with_topic(f"The topic of {queue} was deleted, and this is another one.", result.min_offset)
    if result.status is PullStatus.OFFSET_MOVED:
        raise OffsetMoved(
            f"Offset {queue_offset} of {queue} is not there: it has {result.min_offset} to {result.max_offset}.",
            next_offset=result.next_offset,
            hint=f"Go on with consumer.seek(queue, {result.next_offset}).",
        )
    return Fetched(result.next_offset, result.max_offset, result.records, topic_deleted_ms=result.topic_deleted_ms)
