"""QUERY_CONSUME_QUEUE (321): the entries of a queue as they lie in its file, as mqadmin's queryCq shows them.

RocketMQ's AdminBrokerProcessor.queryConsumeQueue, and its words. An index that the queue does not have is a success
with a remark, as there. A broker of ours compiles no filters ahead, so the one of a group that is online is `null`, and
entries have no bit maps. One answer has 10,000 entries at most; who wants more asks again from where it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import ServerFault
from rmqspark.protocol.bodies.admin import ConsumeQueueData, ConsumeQueueEntries
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import QueryConsumeQueueRequestHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.replica.copied_queues import CopiedQueues
    from rmqspark.protocol.bodies.client import SubscriptionData
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore

_MOST_ENTRIES: Final = 10_000


class QueueEntryHandlers:
    """Reads entries; the messages are not looked at."""

    def __init__(self, store: MessageStore, copied: CopiedQueues, clients: ClientRegistry) -> None:
        self._queues = store.queues
        self._copied = copied
        self._clients = clients

    def routes(self) -> Routes:
        return {RequestCode.QUERY_CONSUME_QUEUE: Route(QueryConsumeQueueRequestHeader, self.entries)}

    def entries(self, request: Request[QueryConsumeQueueRequestHeader]) -> Reply:
        header = request.header
        topic, queue_id, index = header.topic, header.queueId, header.index
        if queue_id not in self._queues.queue_ids(topic):
            raise ServerFault(f"{queue_id}@{topic} is not exist!")
        self._copied.require_begin(topic, queue_id)
        low, high = self._queues.bounds(topic, queue_id)
        if not low <= index < high:
            return Reply(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        subscription, filter_data = self._filter(header.consumerGroup, topic)
        body = ConsumeQueueEntries(subscription, filter_data, self._read(header), high, low)
        return Reply(body=body.encode())

    def _filter(self, group: str | None, topic: str) -> tuple[SubscriptionData | None, str | None]:
        """What the group subscribes to, and what there is to say of its filter."""
        if group is None:
            return None, None
        online = self._clients.consumer_group(group)
        subscription = None if online is None else online.subscriptions.get(topic)
        return subscription, f"{group}@{topic} is not online!" if subscription is None else "null"

    def _read(self, header: QueryConsumeQueueRequestHeader) -> list[ConsumeQueueData]:
        end = header.index + min(header.count, _MOST_ENTRIES)
        found = self._queues.entries(header.topic, header.queueId, header.index, end)
        return [ConsumeQueueData(*entry) for entry in found.tolist()]
