"""Bodies that did not parse, on their way to a topic of their own.

They are sent by the task that found them and stored before it goes on. A task that runs again sends them again, under
the same key: `topic/broker/queue/offset` of where each was read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.identity import MessageIds
from rmqspark.client.cluster.patience import patiently
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.outgoing import SendConfig, outgoing_batch
from rmqspark.client.sending.selection import Target
from rmqspark.errors import TopicNotFound
from rmqspark.model import Message
from rmqspark.protocol.names import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import SendReceipt
    from rmqspark.source.retry import RetryPolicy

PRODUCER_GROUP = "rmqspark-source"
BATCH_BYTES = 1 << 20
MAX_SENT_BYTES = MAX_BODY_BYTES - (8 << 10)  # of a body, so that its properties fit into the same request
MAX_REASON_LETTERS = 500

_SEND = SendConfig(send_msg_timeout=10_000)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class BadRecord(NamedTuple):
    """A body that does not parse, where it is, and why."""

    queue: MessageQueue
    queue_offset: int
    body: bytes
    reason: str


class BadRecords:
    """Sends to one topic; a send that fails is tried again as reading is."""

    def __init__(self, client: ClusterClient, topic: str, retry: RetryPolicy) -> None:
        self._client = client
        self._topic = topic
        self._retry = retry
        self._ids = MessageIds(client)
        self._delivery = Delivery(client, PRODUCER_GROUP, tries=1 + _SEND.retry_times_when_send_failed)

    def send(self, records: Iterable[BadRecord]) -> None:
        """Returns when all are stored. Raises what the last try raised."""
        for messages in _portions(message(self._topic, record) for record in records):
            unique_ids = tuple(self._ids.next() for _ in messages)
            parcel = Parcel(self._topic, unique_ids, outgoing_batch(messages, unique_ids, _SEND), batch=True)
            self._deliver(parcel)

    def _deliver(self, parcel: Parcel) -> None:
        def attempt() -> list[SendReceipt]:
            return self._delivery.deliver(parcel, Target(), _SEND.send_msg_timeout)

        patiently(attempt, self._retry.under_way, self._client.clock)


def check_bad_records_topic(client: ClusterClient, topic: str, retry: RetryPolicy) -> None:
    """Raises TopicNotFound where nothing could be sent to: before the query reads, not at its first bad body."""
    try:
        patiently(lambda: client.publish_queues(topic), retry.beginning, client.clock)
    except TopicNotFound as missing:
        missing.hint = f"badRecordsTopic must be there. Create it with: rmq topic create {topic}"
        raise


def message(topic: str, record: BadRecord) -> Message:
    """The body as it was, its key, and properties that say where it was and why it is here."""
    queue, body = record.queue, record.body[:MAX_SENT_BYTES]
    cut = {"bodyBytes": str(len(record.body))} if len(body) < len(record.body) else {}
    return Message(
        topic,
        body or b" ",  # no message is empty
        keys=[f"{queue}/{record.queue_offset}"],
        properties={
            "reason": _CONTROL.sub("\N{REPLACEMENT CHARACTER}", record.reason)[:MAX_REASON_LETTERS],
            "sourceTopic": queue.topic,
            "sourceBroker": queue.broker_name,
            "sourceQueueId": str(queue.queue_id),
            "sourceQueueOffset": str(record.queue_offset),
            **cut,
        },
    )


def _portions(messages: Iterable[Message]) -> Iterator[Sequence[Message]]:
    """Messages as they go into one request."""
    portion: list[Message] = []
    size = 0
    for each in messages:
        if portion and size + len(each.body) > BATCH_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += len(each.body) + 1_024  # what its properties take, about
    if portion:
        yield portion
