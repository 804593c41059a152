"""Asks brokers for what comes next in a queue, and makes of each answer what its consumer goes by.

Usually that is a pull, as RocketMQ's consumers send it. Of a backlog a broker of ours gives as much at once as its
consumer may hold (RMQ_BULK_READ). Nobody is told by such a read that the group is set elsewhere. So now and then, and
at the end of the backlog, comes a pull, which is told.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from rmqspark.client.cluster.broker_client import SUSPEND_MS
from rmqspark.client.cluster.pull_request import PullResult, PullStatus
from rmqspark.client.pulling.received import Read, received_all
from rmqspark.client.pushing.listening import as_sent
from rmqspark.errors import OffsetMoved, RmqError, ServerFault, StoreReplaced, TopicNotFound, TopicRemade
from rmqspark.protocol.headers.consume import OFFSET_RESET
from rmqspark.protocol.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.bulk import BulkChunk
    from rmqspark.client.cluster.capabilities import Capabilities, StoreLife
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.pushing.process_queue import ProcessQueue, Room
    from rmqspark.client.pushing.subscription import Subscription
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

T = TypeVar("T")

BEGINS_ANEW: Final = (TopicNotFound, StoreReplaced)
"""What keeps a queue from being read whose offsets mean other messages when it can be read again."""
_TOO_QUICK_MS: Final = 200
_PULL_EVERY_MS: Final = 1_000
_UNSUBSCRIBED_REST_MS: Final = 1_000  # until the queue is taken away

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """Messages, perhaps none; the next pull begins at `next_offset`, after a rest. `end_offset` is where the queue
    ends, of brokers that read in bulk; `topic_deleted_ms` when a topic of its name was last deleted, as far as it is
    known; `life` what the queue's offsets are of by now, where that has been found out."""

    messages: list[ReceivedMessage]
    next_offset: int
    rest_ms: int = 0
    end_offset: int = 0
    topic_deleted_ms: int | None = None
    life: StoreLife | None = None


class Asked(NamedTuple):
    """What a request was about."""

    subscription: Subscription
    queue: MessageQueue
    queue_offset: int
    at_ms: int
    topic_deleted_ms: int | None


class Moved(NamedTuple):
    """The queue has no such offset. Or it is to be begun with anew: an operator has set the group elsewhere, or this is
    another topic of the name."""

    next_offset: int
    is_reset: bool
    reason: str
    topic_deleted_ms: int | None = None
    life: StoreLife | None = None


class Gone(NamedTuple):
    """Nothing could be read."""

    error: RmqError


Pulled: TypeAlias = Found | Moved | Gone


class Pulls:
    """For one group. `subscriptions` are those of the moment, by topic. With `commits` each pull tells how far its
    queue is consumed: so brokers are never far behind, and whoever takes a queue over has little to do again."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: str,
        subscriptions: Mapping[str, Subscription],
        batch_size: int,
        *,
        commits: bool,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._group = group
        self._retry_topic = retry_topic(group)
        self._subscriptions = subscriptions
        self._batch_size = batch_size
        self._commits = commits

    def ask(self, held: ProcessQueue, room: Room, tell: Callable[[Pulled], None]) -> None:
        """Asks for what there is room for; `tell` hears what became of it, on any thread.

        What is wanted goes with each request: it need not wait until the broker has had a heartbeat.
        """
        subscription = self._subscriptions.get(held.queue.topic)
        if subscription is None:
            tell(Found([], held.next_offset, _UNSUBSCRIBED_REST_MS, topic_deleted_ms=held.topic_deleted_ms))
            return
        now_ms = self._clock.monotonic_ms()
        asked = Asked(subscription, held.queue, held.next_offset, now_ms, held.topic_deleted_ms)
        try:
            broker = self._cluster.broker(held.queue.broker_name)
            able = broker.ask_capabilities()
            if not able.done():  # its connection is new, and its store may be, too
                able.add_done_callback(lambda done: tell(_pulled(done, lambda _: _nothing(asked), broker.name)))
                return
            if (replaced := self._replaced(held, able.result())) is not None:
                self._find_again(broker, held, asked, self._life(able.result()), replaced, tell)
                return
            reads_in_bulk = able.result().reads_in_bulk(subscription.sql)
            if reads_in_bulk and held.backlog > self._batch_size and asked.at_ms < held.pulled_ms + _PULL_EVERY_MS:
                self._submit_bulk_read(broker, held, room, asked, tell)
            else:
                held.pulled_ms = asked.at_ms
                self._submit_pull(broker, held, asked, tell, reads_in_bulk=reads_in_bulk)
        except RmqError as error:
            tell(Gone(error))
        except Exception as error:  # noqa: BLE001 - a bug: told, and the queue tried again, or it would stand still
            _log.exception("%s could not be asked for what comes next in %s", held.queue.broker_name, held.queue)
            tell(Gone(_fault(error)))

    def _life(self, able: Capabilities) -> StoreLife:
        """Who broadcasts, and keeps his offsets himself, goes on where only an end was lost: nobody else knows where
        that was."""
        return able.life if self._commits else able.life._replace(incarnation=0)

    def _replaced(self, held: ProcessQueue, able: Capabilities) -> StoreReplaced | None:
        """Why the queue's offsets may be those of other messages by now."""
        held.life = held.life or self._life(able)
        try:
            held.life.require(self._life(able), held.queue.broker_name)
        except StoreReplaced as error:
            return error
        return None

    def _find_again(
        self,
        broker: BrokerClient,
        held: ProcessQueue,
        asked: Asked,
        life: StoreLife,
        replaced: StoreReplaced,
        tell: Callable[[Pulled], None],
    ) -> None:
        """Where what was read last is in its place still, so is all before it: the store has lost nothing of that. Who
        has read nothing yet goes on if the queue ends there, unless his group tells where it is."""
        last = held.read_last
        if held.life is None or held.life.is_another(life) or (last is None and self._commits):
            raise replaced
        if last is None:
            self._find_end(broker, asked, life, replaced, tell)
            return
        future = broker.submit_pull(
            asked.queue,
            last.queue_offset,
            group=self._group,
            max_count=1,
            tags=asked.subscription.tags,
            sql=asked.subscription.sql,
        )

        def outcome(result: PullResult) -> Pulled:
            pulled = self._from_pull(result, asked, 0)
            if isinstance(pulled, Moved) and pulled.is_reset:
                return pulled._replace(life=life)
            if isinstance(pulled, Found) and [Read.of(each) for each in pulled.messages] == [last]:
                return _nothing(asked)._replace(next_offset=last.queue_offset + 1, life=life)
            return Gone(replaced)

        future.add_done_callback(lambda done: tell(_pulled(done, outcome, broker.name)))

    def _find_end(
        self,
        broker: BrokerClient,
        asked: Asked,
        life: StoreLife,
        replaced: StoreReplaced,
        tell: Callable[[Pulled], None],
    ) -> None:
        def outcome(end: int) -> Pulled:
            return _nothing(asked)._replace(life=life) if end == asked.queue_offset else Gone(replaced)

        future = broker.submit_max_offset(asked.queue.topic, asked.queue.queue_id)
        future.add_done_callback(lambda done: tell(_pulled(done, outcome, broker.name)))

    def _submit_pull(
        self,
        broker: BrokerClient,
        held: ProcessQueue,
        asked: Asked,
        tell: Callable[[Pulled], None],
        *,
        reads_in_bulk: bool,
    ) -> None:
        """The broker may hold it until something comes."""
        future = broker.submit_pull(
            asked.queue,
            asked.queue_offset,
            group=self._group,
            max_count=self._batch_size,
            tags=asked.subscription.tags,
            sql=asked.subscription.sql,
            suspend_ms=SUSPEND_MS,
            commit_offset=held.commit_offset if self._commits else 0,
            topic_deleted_ms=asked.topic_deleted_ms,
        )

        def outcome(result: PullResult) -> Pulled:
            end_offset = result.max_offset if reads_in_bulk else 0
            return self._unless_changed(self._from_pull(result, asked, end_offset), asked)

        future.add_done_callback(lambda done: tell(_pulled(done, outcome, asked.queue.broker_name)))

    def _submit_bulk_read(
        self, broker: BrokerClient, held: ProcessQueue, room: Room, asked: Asked, tell: Callable[[Pulled], None]
    ) -> None:
        """Whatever it does not say, a pull is told: that follows where it finds nothing, and now and then."""
        queue, subscription = asked.queue, asked.subscription
        if self._commits:
            broker.submit_commit(self._group, queue.topic, queue.queue_id, held.commit_offset, asked.topic_deleted_ms)
        future = broker.bulk_read(
            queue.topic,
            queue.queue_id,
            asked.queue_offset,
            held.end_offset,
            max_count=room.messages,
            max_bytes=room.size_bytes,
            tags=None if subscription.tags == "*" else subscription.tags,
            sql=subscription.sql,
            topic_deleted_ms=asked.topic_deleted_ms,
            group=self._group,
        )

        def outcome(chunk: BulkChunk) -> Pulled:
            return self._unless_changed(self._from_bulk(chunk, asked, room), asked)

        future.add_done_callback(lambda done: tell(_pulled(done, outcome, queue.broker_name, asked)))

    def _unless_changed(self, pulled: Found | Moved, asked: Asked) -> Pulled:
        """Where other messages of the topic are wanted by now, some may be among those that were passed over: they are
        asked for again. RocketMQ's consumers leave these out."""
        if isinstance(pulled, Moved) or self._subscriptions.get(asked.queue.topic) is asked.subscription:
            return pulled
        return _nothing(asked)._replace(topic_deleted_ms=pulled.topic_deleted_ms)

    def _from_pull(self, result: PullResult, asked: Asked, end_offset: int) -> Found | Moved:
        is_moved = result.status is PullStatus.OFFSET_MOVED
        is_reset = is_moved and result.reason == OFFSET_RESET
        deleted_ms = _later(asked.topic_deleted_ms, result.topic_deleted_ms)
        is_another = asked.topic_deleted_ms is not None and deleted_ms != asked.topic_deleted_ms
        if is_another and not is_reset:
            return Moved(result.min_offset, True, "its topic was deleted, and this is another one", deleted_ms)
        if is_moved:
            reason = f"it has {result.min_offset} to {result.max_offset}, not {asked.queue_offset} ({result.reason})"
            return Moved(result.next_offset, is_reset, reason, deleted_ms)
        if result.status is not PullStatus.FOUND:
            return Found([], result.next_offset, self._rest_ms(result, asked), end_offset, deleted_ms)
        messages = received_all(result.records, asked.queue.broker_name)
        return Found(self._wanted(messages, asked.subscription), result.next_offset, 0, end_offset, deleted_ms)

    def _from_bulk(self, chunk: BulkChunk, asked: Asked, room: Room) -> Found:
        """Where bodies are compressed, as many of the messages as there is room for, inflated: the next request is for
        the rest once more."""
        from rmqspark.client.pulling.received_columns import received_within  # brings NumPy
        from rmqspark.protocol.records.record_batch import RecordBatch

        batch = RecordBatch.from_sizes(chunk.records, chunk.sizes)
        messages = received_within(batch, asked.queue.broker_name, room.size_bytes)
        has_all = len(messages) == len(batch)
        next_offset = chunk.next_offset if has_all else messages[-1].queue_offset + 1
        end_offset = chunk.max_offset if next_offset > asked.queue_offset else 0
        wanted = self._wanted(messages, asked.subscription)
        return Found(wanted, next_offset, 0, end_offset, asked.topic_deleted_ms)

    def _wanted(self, messages: list[ReceivedMessage], subscription: Subscription) -> list[ReceivedMessage]:
        wanted = filter(subscription.accepts, messages) if subscription.accepts else messages
        return [as_sent(each, self._retry_topic) for each in wanted]

    def _rest_ms(self, result: PullResult, asked: Asked) -> int:
        """A broker that holds no pulls, since it is shutting down perhaps, is not asked without a pause."""
        was_quick = self._clock.monotonic_ms() - asked.at_ms < _TOO_QUICK_MS
        return _TOO_QUICK_MS if was_quick and result.next_offset == asked.queue_offset else 0


def _nothing(asked: Asked) -> Found:
    return Found([], asked.queue_offset, topic_deleted_ms=asked.topic_deleted_ms)


def _pulled(done: Future[T], outcome: Callable[[T], Pulled], broker_name: str, in_bulk: Asked | None = None) -> Pulled:
    try:
        return outcome(done.result())
    except (OffsetMoved, TopicRemade) as error:
        return Gone(error) if in_bulk is None else _nothing(in_bulk)
    except RmqError as error:
        return Gone(error)
    except Exception as error:  # noqa: BLE001 - a bug: told, and the queue tried again, or it would stand still
        _log.exception("What %s answered to a pull could not be understood", broker_name)
        return Gone(_fault(error))


def _later(known_ms: int | None, told_ms: int | None) -> int | None:
    """What is known of a deletion now; a broker that has taken over from another knows of none before that."""
    if known_ms is None or told_ms is None:
        return told_ms if known_ms is None else known_ms
    return max(known_ms, told_ms)


def _fault(error: Exception) -> ServerFault:
    return ServerFault(f"{type(error).__name__}: {error}")
