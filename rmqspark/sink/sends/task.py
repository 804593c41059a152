"""What one writing task does: Arrow batches in, records in queues out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqspark.errors import InvalidMessage, InvalidQueue
from rmqspark.gathering import gathered
from rmqspark.protocol.records.message_id import ZERO_HOST, pack_ipv4_host
from rmqspark.sink.rows.checks import check_queue_ids, check_rows, check_texts, check_topics
from rmqspark.sink.rows.delays import DELAY_COLUMNS, SLOTS, parking_queue, parking_texts, parted, slots
from rmqspark.sink.rows.rows import Rows, column, is_plain
from rmqspark.sink.sends.dealing import Run, by_queue_id, by_sharding_key, evenly, grouped, in_turn
from rmqspark.sink.sends.outbox import Outbox
from rmqspark.sink.sends.targets import Targets
from rmqspark.sink.sends.topic_sends import QueueRows, TopicsSend, by_broker, full_sends, shared_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.sink.options import SinkOptions
    from rmqspark.sink.rows.delays import Waiting
    from rmqspark.sink.sends.delivery import Delivery

_SENDS_AT_A_TIME = 8  # are made of rows that columns divide among queues
_BYTES_FOR_EACH_TOPIC = 32 << 10  # some hundred rows: few more cost as much as they do
_MOST_SENDS_AT_A_TIME = 32  # where these are for many topics


@dataclass
class Written:
    """What a task has written: rows, bytes of records, and rows by queue (`topic/broker/id`)."""

    rows: int = 0
    bytes: int = 0
    queues: dict[str, int] = field(default_factory=dict)

    def add(self, queue: MessageQueue, rows: int, size_bytes: int) -> None:
        self.rows += rows
        self.bytes += size_bytes
        self.queues[str(queue)] = self.queues.get(str(queue), 0) + rows


class WriteTask:
    """Writes the rows of one task, as `delivery` has it.

    Memory is bounded by the batches Spark gives, a send for each queue, and the sends under way.
    """

    def __init__(self, client: ClusterClient, options: SinkOptions, delivery: Delivery) -> None:
        self._options = options
        self._clock = client.clock
        self._targets = Targets(client, options)
        self._delivery = delivery
        self._outbox = Outbox(client, delivery.pack)
        self._born_host = pack_ipv4_host(client.ip, 0) or ZERO_HOST  # what rows travel as has no room for IPv6
        self._written = Written()

    def write(self, batches: Iterable[Any]) -> Written:
        """Returns when every row is acknowledged. Raises what ended the task; rows sent before that stay."""
        for batch in gathered(batches, self._most_bytes):
            first_row = self._written.rows
            check_rows(batch, first_row)
            try:
                self._write_batch(batch)
            except InvalidMessage:
                check_texts(batch, first_row)
                raise
            except InvalidQueue:
                if self._options.partitioner == "column":
                    check_queue_ids(batch, first_row, self._options.topic, self._queue_count)
                raise
        self._outbox.flush()
        return self._written

    def _queue_count(self, topic: str) -> int:
        return len(self._targets.queues(topic))

    def _most_bytes(self, batch: Any) -> int:
        """How many bytes of rows to handle at once: a send, or several where columns divide the rows; the more topics
        have sends of their own, the more."""
        first_bytes = self._options.first_send_bytes
        if self._options.topic is not None and not self._is_dealt(batch.schema.names):
            return self._targets.send_bytes(self._options.topic)
        at_once = _SENDS_AT_A_TIME * first_bytes
        if self._options.topic is not None or self._may_join(batch.schema.names):
            return at_once
        for_each = len(batch.column("topic").unique()) * _BYTES_FOR_EACH_TOPIC
        return min(max(at_once, for_each), _MOST_SENDS_AT_A_TIME * first_bytes)

    def _write_batch(self, batch: Any) -> None:
        """All to one topic or, where a column names the topic, by topic. Option `topic` beats the column."""
        if self._options.topic is not None:
            self._check_waits(batch, [self._options.topic])
            self._write(self._options.topic, batch)
            return
        topics = batch.column("topic").dictionary_encode()
        check_topics(topics, self._written.rows)
        names = topics.dictionary.to_pylist()
        self._targets.look_up(names)
        self._check_waits(batch, names)
        order, runs = grouped(np.asarray(topics.indices).astype(np.int64))
        if len(names) > 1 and self._may_join(batch.schema.names) and self._targets.take_topics(names):
            self._write_joined(batch, names, order, runs)
            return
        ordered = batch if len(names) == 1 else batch.take(pa.array(order))
        for number, first, end in runs:
            self._write(names[number], ordered.slice(first, end - first))

    def _check_waits(self, batch: Any, topics: list[str]) -> None:
        """What brokers hold back at most is asked of them, where rows are to wait."""
        if not DELAY_COLUMNS.isdisjoint(batch.schema.names):
            longest = self._targets.longest_waits(topics)
            longest.check(batch, self._written.rows, self._clock.now_ms())

    def _may_join(self, columns: list[str]) -> bool:
        """Whether rows for many queues may travel together."""
        are_plain = is_plain(columns) and DELAY_COLUMNS.isdisjoint(columns) and self._options.compression == "none"
        return are_plain and not self._is_dealt(columns) and self._delivery.joins_topics

    def _write_joined(self, batch: Any, names: list[str], order: Positions, runs: list[Run]) -> None:
        """Sends rows for many queues together: `runs` of rows in this `order`, each for the topic `names[target]`."""
        dealt: list[QueueRows] = []
        for number, first, end in runs:
            queues, turn = self._targets.answering(names[number]), self._targets.turn(names[number])
            shares = shared_out(first, end, queues, turn, self._targets.spread)
            self._targets.took_turns(names[number], len(shares))
            dealt += shares
        order, dealt = by_broker(order, dealt)
        batch, now_ms = batch.take(pa.array(order)), self._clock.now_ms()
        rows = Rows(batch, max(names, key=len), self._delivery.ids(now_ms, batch.num_rows), self._options.compression)
        for shares in full_sends(dealt, rows.sizes, self._options.first_send_bytes):
            first, end = shares[0].first, shares[-1].end
            self._outbox.hand_over(TopicsSend.of(shares, rows.plain(first, end, now_ms, self._born_host)))
            for queue, low, high in shares:
                self._written.add(queue, high - low, int(rows.sizes[low:high].sum()))

    def _write(self, topic: str, batch: Any) -> None:
        batch, waiting = parted(batch, self._clock.now_ms())
        if waiting is not None:
            self._write_waiting(topic, waiting)
        if batch.num_rows:
            self._write_at_once(topic, batch)

    def _write_at_once(self, topic: str, batch: Any) -> None:
        queues = self._queues(topic, batch)
        batch, groups = self._dealt(topic, batch, len(queues))
        now_ms = self._clock.now_ms()
        rows = Rows(batch, topic, self._delivery.ids(now_ms, batch.num_rows), self._options.compression)
        self._delivery.note(batch, rows)
        for target, first, end in self._runs(topic, rows, groups, queues):
            self._send(queues[target], rows, first, end, now_ms)

    def _write_waiting(self, topic: str, waiting: Waiting) -> None:
        """Rows that are to wait go to where their brokers keep them, and say there which queue they belong to."""
        queues = self._queues(topic, waiting.batch)
        self._targets.require_delays(queues)
        targets = self._chosen(topic, waiting.batch, len(queues))
        if targets is None:
            targets = (self._targets.turn(topic) + np.arange(waiting.batch.num_rows)) % len(queues)
            self._targets.took_turns(topic, len(targets))
        brokers = sorted({queue.broker_name for queue in queues})
        number_of = np.array([brokers.index(queue.broker_name) for queue in queues])
        order, runs = grouped(number_of[targets] * SLOTS + slots(waiting))
        texts = {name: each.take(pa.array(order)) for name, each in parking_texts(waiting, queues, targets).items()}
        batch, now_ms = waiting.batch.take(pa.array(order)), self._clock.now_ms()
        rows = Rows(batch, topic, self._delivery.ids(now_ms, len(order)), self._options.compression, texts)
        self._delivery.note(batch, rows)
        for number, first, end in runs:
            queue = parking_queue(brokers[number // SLOTS], number % SLOTS)
            for low, high in evenly(rows.sizes[first:end], self._targets.max_bytes(topic, queues)):
                self._send(queue, rows, first + low, first + high, now_ms)

    def _queues(self, topic: str, batch: Any) -> list[MessageQueue]:
        """Where a column decides, order is worth more than to go on beside a broker that hangs."""
        return self._targets.queues(topic) if self._is_dealt(batch.schema.names) else self._targets.answering(topic)

    def _dealt(self, topic: str, batch: Any, queue_count: int) -> tuple[Any, list[Run] | None]:
        """The rows brought together by queue, where a column decides; None for the runs where rows take turns."""
        targets = self._chosen(topic, batch, queue_count)
        if targets is None:
            return batch, None
        order, runs = grouped(targets)
        return batch if len(runs) == 1 else batch.take(pa.array(order)), runs

    def _chosen(self, topic: str, batch: Any, queue_count: int) -> Positions | None:
        """The queue of each row where a column decides, by its number; None where rows take turns."""
        if not self._is_dealt(batch.schema.names):
            return None
        if self._options.partitioner == "column":
            ids = batch.column("queueId")
            present = ids.is_valid().to_numpy(zero_copy_only=False)
            return by_queue_id(ids.fill_null(-1).to_numpy(), present, queue_count)
        return by_sharding_key(column(batch.column("shardingKey")), queue_count, self._targets.turn(topic))

    def _is_dealt(self, names: list[str]) -> bool:
        """Whether a column decides about queues."""
        by_key = "shardingKey" in names and self._options.partitioner != "roundRobin"
        return by_key or self._options.partitioner == "column"

    def _runs(self, topic: str, rows: Rows, groups: list[Run] | None, queues: list[MessageQueue]) -> Iterator[Run]:
        max_bytes = self._targets.max_bytes(topic, queues)
        if groups is None:
            spread_over = 1 if self._targets.has_begun(topic) else self._targets.spread
            turn = self._targets.turn(topic)
            runs = list(in_turn(rows.sizes, len(queues), turn, max_bytes, spread_over=spread_over))
            self._targets.took_turns(topic, len(runs), int(rows.sizes.sum()))
            yield from runs
            return
        for target, first, end in groups:
            for low, high in evenly(rows.sizes[first:end], max_bytes):
                yield Run(target, first + low, first + high)

    def _send(self, queue: MessageQueue, rows: Rows, first: int, end: int, now_ms: int) -> None:
        bulk = rows.bulk(
            queue, first, end, born_timestamp_ms=now_ms, born_host=self._born_host, out=self._outbox.buffer()
        )
        self._outbox.send(queue, bulk)
        self._written.add(queue, end - first, int(rows.sizes[first:end].sum()))
