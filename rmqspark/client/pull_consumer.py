"""Reads chosen queues, from where the caller says, at the caller's pace.

`cursor` knows where each queue stands, `fetcher` asks the brokers, `read_ahead` has it ask before anybody wants the
messages, and hands them out; this has the calls of users, who take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, cast

from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.user_topics import with_nearest
from rmqspark.client.pulling.cursor import Cursor
from rmqspark.client.pulling.expressions import check_sql, tag_test
from rmqspark.client.pulling.fetcher import Fetcher
from rmqspark.client.pulling.read_ahead import ReadAhead
from rmqspark.errors import GroupNotFound, InvalidArgument, StoreReplaced, TopicNotFound, TopicRemade
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import check_group, trimmed_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.clock import Clock
    from rmqspark.errors import RmqError
    from rmqspark.model import ReceivedMessage
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.response import Response


@takes_what_it_says
class PullConsumer(ClosedByWith):
    """Reads the queues it is assigned. A context manager; calls from several threads take turns.

    With a `group` it begins where the group has committed, and `commit` records how far it came; it takes no part in
    the group's rebalancing. Without one, and for queues never committed, it begins at `start`.
    """

    _kind = "consumer"

    def __init__(
        self,
        namesrv: str | None = None,
        group: str | None = None,
        *,
        tags: str = "*",
        sql: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        max_poll_messages: int = 5_000,
        clock: Clock | None = None,
        access: Access | None = None,
    ) -> None:
        """`tags` is an expression like "paid || shipped"; `sql`, instead, one like "price > 10 AND region = 'EU'" over
        the messages' properties; `max_poll_messages` is the most that one `poll` returns; `access` as in `Producer`.
        Raises InvalidFilter."""
        if start not in ("earliest", "latest"):
            raise InvalidArgument(f"start is 'earliest' or 'latest', not {start!r}.")
        if max_poll_messages < 1:
            raise InvalidArgument(f"max_poll_messages is 1 or more, not {max_poll_messages}.")
        self.group = check_group(group) if group is not None else None
        accept = tag_test(tags)
        if sql is not None:
            check_sql(sql, tags)
        self._cluster = ClusterClient(namesrv, clock=clock, access=access)
        self._fetcher = Fetcher(self._cluster, group, trimmed_tag(tags) or "*", sql, start)
        self._reading = ReadAhead(self._fetcher, accept, max_poll_messages, self._cluster.clock)
        self._pid = os.getpid()
        self._turns = {self._pid: threading.RLock()}

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. TopicNotFound."""
        try:
            return self._cluster.subscribe_queues(topic)
        except TopicNotFound as missing:
            raise with_nearest(self._cluster, missing) from None

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Reads these queues from now on, and no others. Those it reads already keep their place."""
        wanted = _checked_queues(queues)
        with self._in_turn():
            self._check_open()
            self._reading.assign(wanted)

    @property
    def assignment(self) -> list[MessageQueue]:
        return list(self._reading.cursors)

    # --- where to read -----------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """The next message of the queue is the one at `queue_offset`."""
        if queue_offset < 0:
            raise InvalidArgument(f"A queue offset is 0 or more, not {queue_offset}.")
        with self._in_turn():
            self._cursor(queue).seek(queue_offset)

    def seek_to_beginning(self, *queues: MessageQueue) -> None:
        """To the oldest message of these queues; of all that are assigned if none is named."""
        self._seek_all(queues, "earliest")

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Behind the newest message of these queues; of all that are assigned if none is named."""
        self._seek_all(queues, "latest")

    def position(self, queue: MessageQueue) -> int:
        """The queue offset from which the next message of the queue will come."""
        with self._in_turn():
            return self._position(self._cursor(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message the queue still has."""
        return self._broker(queue).min_offset(queue.topic, queue.queue_id)

    def max_offset(self, queue: MessageQueue) -> int:
        """One more than the offset of the newest message of the queue."""
        return self._broker(queue).max_offset(queue.topic, queue.queue_id)

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at that time or later; the end of the queue if there is none."""
        return self._broker(queue).offset_by_time(queue.topic, queue.queue_id, timestamp_ms)

    # --- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 1_000) -> list[ReceivedMessage]:
        """Messages of the assigned queues, those of one queue in order; waits for the first ones up to `timeout_ms`.

        OffsetMoved where a queue no longer has the offset to read next, and RecordError for a message that cannot be
        read, once those before it were returned (`seek` decides how to go on). A queue whose
        broker is away is tried again every second while the others go on; its error is raised when the time is over
        and no queue works. A poll that finds nothing waits a second at least for brokers it has not asked before, so
        that queues read from "latest" begin where they end now.
        """
        with self._in_turn():
            if not self._reading.cursors:
                self._check_open()
                raise InvalidArgument("No queue is assigned.", hint="consumer.assign(consumer.queues(topic))")
            return self._reading.poll(timeout_ms, self._check_open)

    # --- what the group has consumed ---------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Records for the group that everything before these offsets is consumed; by default, what `poll` returned.

        InvalidArgument for one beyond the end of a queue where the log has lost one: what was there is gone.
        TopicRemade or StoreReplaced where other messages have these offsets by now: those of other queues are recorded
        all the same, and the next `poll` tells.
        """
        with self._in_turn():
            self._check_open()
            group = self._group_of("commit")
            if offsets is None:
                places = ((queue, cursor.position) for queue, cursor in self._reading.cursors.items())
                offsets = {queue: position for queue, position in places if position is not None}
            under_way = [(queue, position, self._commit(group, queue, position)) for queue, position in offsets.items()]
            others_now: RmqError | None = None
            for queue, position, future in under_way:
                try:
                    self._finish_commit(group, queue, position, future)
                except (StoreReplaced, TopicRemade) as error:
                    others_now = others_now or error
            if others_now is not None:
                raise others_now

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset for the queue; None if it has never committed one."""
        group = self._group_of("committed")
        return self._broker(queue).query_offset(group, queue.topic, queue.queue_id)

    def close(self) -> None:
        """Closes the connections; a `poll` under way ends with AlreadyClosed. Commits nothing. Again: does nothing."""
        self._closed = True
        self._reading.wake()
        with self._in_turn():
            self._cluster.close()

    # --- how ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """One thread after the other. A process that is forked has a lock of its own: whoever had the turn in its
        parent is not here to pass it on."""
        pid = os.getpid()
        with self._turns.setdefault(pid, threading.RLock()):
            if self._pid != pid:  # what was asked for is answered to its parent; it goes on where that stood
                self._reading.begin_anew()
                self._pid = pid
            yield

    def _position(self, cursor: Cursor) -> int:
        """Where the cursor stands; finds out where a new one begins."""
        if cursor.position is None:
            cursor.seek(self._fetcher.first_position(cursor.queue).result())
        return cast("int", cursor.position)

    def _seek_all(self, queues: Sequence[MessageQueue], end: Literal["earliest", "latest"]) -> None:
        """All are asked before the first answer is awaited."""
        with self._in_turn():
            cursors = [self._cursor(queue) for queue in queues or self.assignment]
            places = [self._fetcher.end_of(cursor.queue, end) for cursor in cursors]
            for cursor, place in zip(cursors, places, strict=True):
                cursor.seek(place.result())

    def _commit(self, group: str, queue: MessageQueue, position: int) -> Future[Response]:
        cursor = self._reading.cursors.get(queue) or Cursor(queue)
        of = cursor.topic_deleted_ms, cursor.life
        return self._broker(queue).submit_commit(group, queue.topic, queue.queue_id, position, *of)

    def _finish_commit(self, group: str, queue: MessageQueue, position: int, answer: Future[Response]) -> None:
        """A broker keeps no offset of a group it does not know; a pull makes it known (spec: observed)."""
        try:
            answer.result().raise_for_code()
        except GroupNotFound:
            self._broker(queue).pull(queue, position, group=group, max_count=1)
            self._commit(group, queue, position).result().raise_for_code()

    def _cursor(self, queue: MessageQueue) -> Cursor:
        self._check_open()
        cursor = self._reading.cursors.get(queue)
        if cursor is None:
            raise InvalidArgument(f"Queue {queue} is not assigned.", hint="Name it in consumer.assign(...) first.")
        return cursor

    def _broker(self, queue: MessageQueue) -> BrokerClient:
        return self._cluster.broker(queue.broker_name)

    def _group_of(self, action: str) -> str:
        if self.group is None:
            raise InvalidArgument(f"{action} needs a group.", hint='Make the consumer with PullConsumer(group="...").')
        return self.group


def _checked_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """A topic's name in their place would be taken for queues letter by letter."""
    listed = list(queues) if isinstance(queues, Iterable) else [queues]
    if isinstance(queues, str) or not all(isinstance(queue, MessageQueue) for queue in listed):
        name = queues if isinstance(queues, str) else "orders"
        raise InvalidArgument(
            f"{queues!r:.80} are no queues.", hint=f'Those of a topic: consumer.assign(consumer.queues("{name}")).'
        )
    return listed
