"""Which topics and groups the bodies of requests, and the properties of sends, name, by the code that has them
(security: S19). Pure.

The handler of a request reads its body again, by the same functions, so that nobody is asked about one thing and given
another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.auth.resources import Action, Need, group, topic
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupList, TopicConfigList
from rmqspark.protocol.bodies.bulk import QueueBudgets, QueuesOfTopics
from rmqspark.protocol.bodies.client import CheckClientConfigBody, GroupLeasesBody, HeartbeatData, LockBatchBody
from rmqspark.protocol.bodies.queries import QueryReport
from rmqspark.protocol.bodies.txn import InputRanges, TxnDecision
from rmqspark.protocol.bulk.bulk_body import read_bulk
from rmqspark.protocol.bulk.topic_ranges import decode_ranges
from rmqspark.protocol.bulk.topic_rows import decode_topic_rows
from rmqspark.protocol.names import PARKING_TOPICS
from rmqspark.protocol.records.properties import Property, decode_properties, parse_properties
from rmqspark.protocol.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.protocol.headers.bulk import BulkSendRequestHeader, TopicsReadRequestHeader, TopicsSendRequestHeader
    from rmqspark.protocol.headers.txn import TxnHalfRequestHeader
    from rmqspark.remoting.request import Request

_SUB: Final = (Action.SUB,)
_COMMIT: Final = (Action.SUB, Action.UPDATE)


def of_heartbeat(request: Request[Any]) -> Iterator[Need]:
    """The groups it is a consumer of, and the topics that they subscribe to."""
    for consumer in HeartbeatData.decode_request(request.body).consumerDataSet:
        yield group(consumer.groupName, *_SUB)
        for subscription in consumer.subscriptionDataSet:
            yield topic(subscription.topic, *_SUB)


def of_check(request: Request[Any]) -> Iterator[Need]:
    body = CheckClientConfigBody.decode_request(request.body)
    yield group(body.group, *_SUB)
    yield topic(body.subscriptionData.topic, *_SUB)


def of_lock(request: Request[Any]) -> Iterator[Need]:
    body = LockBatchBody.decode_request(request.body)
    yield group(body.consumerGroup, *_SUB)
    for queue in body.mqSet:
        yield topic(queue.topic, *_SUB)


def of_leases(request: Request[Any]) -> Iterator[Need]:
    body = GroupLeasesBody.decode_request(request.body)
    for queue in (*body.keep, *body.release, *body.take):
        yield topic(queue.topic, *_SUB)


def of_topic_configs(request: Request[Any]) -> Iterator[Need]:
    for config in TopicConfigList.decode_request(request.body).topicConfigList:
        yield topic(config.topicName, Action.CREATE)


def of_group_config(request: Request[Any]) -> Iterator[Need]:
    yield group(SubscriptionGroupConfig.decode_request(request.body).groupName, Action.CREATE)


def of_group_configs(request: Request[Any]) -> Iterator[Need]:
    for config in SubscriptionGroupList.decode_request(request.body).groupConfigList:
        yield group(config.groupName, Action.CREATE)


def of_bulk(request: Request[BulkSendRequestHeader] | Request[TxnHalfRequestHeader]) -> Iterator[Need]:
    """The topic of a bulk; of one whose messages are to wait, those where they belong."""
    header = request.header
    if header.topic not in PARKING_TOPICS:
        yield topic(header.topic, Action.PUB)
        return
    bulk = read_bulk(request.body, header.count, header.recordSize)
    for name in _real_topics(bulk) if isinstance(bulk, RecordBatch) else ():  # rows say nothing of it, and are refused
        yield topic(name, Action.PUB)


def _real_topics(bulk: RecordBatch) -> set[str]:
    raw, spans = bulk.buffer.data, bulk.properties
    ends = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return {decode_properties(raw[start:end]).get(Property.REAL_TOPIC, "") for start, end in ends}


def recalled_topics(properties: str | None) -> list[str]:
    """The topic of the waiting message that a message with these properties takes back, where they say it
    (`broker.delays.deliver_times.waiting_of`): it need not be the one that this is sent to."""
    if properties is None or Property.TIMER_DEL_UNIQKEY not in properties:
        return []
    name, plus, _ = parse_properties(properties).get(Property.TIMER_DEL_UNIQKEY, "").partition("+")
    return [name] if name and plus else []


def of_topic_rows(request: Request[TopicsSendRequestHeader]) -> Iterator[Need]:
    runs, _ = decode_topic_rows(request.body, request.header.queues, request.header.count)
    for run in runs:
        yield topic(run.topic, Action.PUB)


def of_ranges(request: Request[TopicsReadRequestHeader]) -> Iterator[Need]:
    for wanted in decode_ranges(request.body, request.header.ranges):
        yield topic(wanted.topic, *_SUB)


def of_budgets(request: Request[Any]) -> Iterator[Need]:
    for queue in QueueBudgets.decode_request(request.body).queues:
        yield topic(queue.topic, Action.SUB, Action.GET)


def of_bounds(request: Request[Any]) -> Iterator[Need]:
    for queue in QueuesOfTopics.decode_request(request.body).queues:
        yield topic(queue.topic, Action.SUB, Action.GET)


def of_report(request: Request[Any]) -> Iterator[Need]:
    report = QueryReport.decode_request(request.body)
    yield from _read_by(report.queues, _SUB)
    for name in report.groups:
        yield group(name, *_SUB)


def of_inputs(request: Request[Any]) -> Iterator[Need]:
    return _read_by(InputRanges.decode_request(request.body).inputs, _SUB)


def of_decision(request: Request[Any]) -> Iterator[Need]:
    """The groups that the decision moves forward, and in which topics."""
    grouped = [each for each in TxnDecision.decode_request(request.body).inputs if each.group]
    return _read_by(grouped, _COMMIT)


def _read_by(queues: Iterable[Any], actions: tuple[Action, ...]) -> Iterator[Need]:
    """Of queues that say which group has read them, if any."""
    for queue in queues:
        yield topic(queue.topic, *actions)
        if queue.group:
            yield group(queue.group, *actions)
