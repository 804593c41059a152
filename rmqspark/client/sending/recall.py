"""Recalls a message that waits for its time (RocketMQ's DefaultMQProducerImpl.recallMessage)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import BrokerNotRegistered, InvalidName, NotRecallable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader, RecallMessageResponseHeader
from rmqspark.protocol.names import DLQ_PREFIX, RETRY_PREFIX, check_sendable
from rmqspark.protocol.recall_handle import RecallHandle

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient


def recall(cluster: ClusterClient, group: str, topic: str, recall_handle: str, timeout_ms: int) -> str:
    """The id of the message, which will not be delivered. Raises what `Producer.recall` says."""
    check_sendable(topic)
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise InvalidName(f"Nothing in topic {topic!r} can be recalled.", hint="Name the topic it was sent to.")
    handle = _read(recall_handle)
    broker = cluster.broker(_broker_of(cluster, topic, handle))
    header = RecallMessageRequestHeader(topic, recall_handle, group, bname=handle.broker_name)
    response = broker.call(RequestCode.RECALL_MESSAGE, header, timeout_ms=timeout_ms)
    return response.header(RecallMessageResponseHeader).msgId


def _read(recall_handle: str) -> RecallHandle:
    try:
        return RecallHandle.decode(recall_handle)
    except NotRecallable:
        raise NotRecallable(
            f"{recall_handle!r:.80} is no recall handle.", hint="A receipt of a timed message has one."
        ) from None


def _broker_of(cluster: ClusterClient, topic: str, handle: RecallHandle) -> str:
    """The one that the handle names; behind RocketMQ's proxies, which are called otherwise, any of the topic."""
    route = cluster.route(topic)
    if handle.broker_name in route.brokers or not route.brokers:
        return handle.broker_name
    try:
        cluster.broker_address(handle.broker_name)
    except BrokerNotRegistered:
        return min(route.brokers)
    return handle.broker_name
