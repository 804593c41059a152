"""A request of each code about the same things: topic orders, group billing, transactional id spark-1."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec
import numpy as np

from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupList, TopicConfigList
from rmqspark.protocol.bodies.bulk import QueueBudget, QueueBudgets, QueueOfTopic, QueuesOfTopics
from rmqspark.protocol.bodies.client import (
    CheckClientConfigBody,
    ConsumerData,
    GroupLeasesBody,
    HeartbeatData,
    LeasedQueue,
    LockBatchBody,
    Queue,
    SubscriptionData,
)
from rmqspark.protocol.bodies.queries import QueryQueue, QueryReport
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.bodies.txn import InputRange, InputRanges, TxnComplete, TxnDecision, TxnVote
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_ranges import TopicRange, encode_ranges
from rmqspark.protocol.bulk.topic_rows import TopicRun, encode_runs
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.registry import REQUEST_HEADERS
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.unique_keys import IdRange

if TYPE_CHECKING:
    from rmqspark.protocol.headers.types import Header

TOPIC, GROUP, TRANSACTION, QUERY, BROKER = "orders", "billing", "spark-1", "q-1", "broker-a"
_NAMES: Final[dict[str, Any]] = {
    **dict.fromkeys(("topic", "b", "originTopic"), TOPIC),
    **dict.fromkeys(("group", "consumerGroup", "groupName", "srcGroup", "destGroup"), GROUP),
    **dict.fromkeys(("transactionalId",), TRANSACTION),
    **dict.fromkeys(("clusterName", "cluster"), "DefaultCluster"),
    "queryId": QUERY,
    "decision": "ROLLBACK",
    "outcome": "DROP",
    "username": "sample",
    "subject": "User:sample",
    "brokerAddr": "127.0.0.1:1",
    "c": "TBW102",
    "defaultTopic": "TBW102",
}


def sample(code: RequestCode, physical_offset: int, msg_id: str) -> tuple[Header | None, bytes]:
    """Header and body; `physical_offset` and `msg_id` are those of a message in orders."""
    body = _BODIES.get(code, b"")
    kind = REQUEST_HEADERS.get(code)
    if kind is None:
        return None, body
    fields = {
        **_NAMES,
        "offset": physical_offset,
        "commitLogOffset": physical_offset,
        "msgId": msg_id,
        **_COUNTED.get(code, {}),
    }
    return kind(
        **{each.name: _value(each, fields) for each in msgspec.structs.fields(kind) if _is_told(each, fields)}
    ), body


def _is_told(field: msgspec.structs.FieldInfo, known: dict[str, Any]) -> bool:
    return field.required or field.name in known


def _value(field: msgspec.structs.FieldInfo, known: dict[str, Any]) -> Any:
    if field.name in known and (field.name != "offset" or field.required):
        return known[field.name]
    kind = field.type
    if kind is str:
        return "x"
    return False if kind is bool else None if type(None) in typing.get_args(kind) else 0


_SUBSCRIPTION = SubscriptionData(TOPIC)
_RECORD = bytes(encode_record(topic=TOPIC, body=b"hello"))
_BULK = {"count": 1, "recordSize": len(_RECORD), "bodyCrc32": crc32(_RECORD), "epoch": 1}
_COLUMN = Column(np.frombuffer(b"hello", np.uint8), np.array([0, 5]))
_ROWS = BulkRows(5, bytes(8), 0, IdRange("A" * 20, 9), body_crcs(_COLUMN.values, _COLUMN.spans()), _COLUMN)
_TOPIC_ROWS = encode_runs([TopicRun(TOPIC, 0, 1)]) + b"".join(part.tobytes() for part in _ROWS.encode())
_COUNTED: dict[int, dict[str, Any]] = {
    RequestCode.RMQ_BULK_SEND: _BULK,
    RequestCode.RMQ_TXN_HALF: _BULK,
    RequestCode.RMQ_TOPICS_SEND: {"queues": 1, "count": 1, "bodyCrc32": crc32(_TOPIC_ROWS)},
    RequestCode.RMQ_TOPICS_READ: {"ranges": 1},
    RequestCode.RMQ_TXN_VOTE: {"completed": -1},
    RequestCode.RMQ_GROUP_LEASES: {"coordinator": BROKER},
    RequestCode.UPDATE_AND_CREATE_TOPIC: {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6},
}
_INPUT = InputRange(GROUP, TOPIC, BROKER, 0, 0, 1)
_LOCK = LockBatchBody(GROUP, "client", [Queue(TOPIC, BROKER, 0)]).encode()
_BODIES: dict[int, bytes] = {
    RequestCode.SEND_MESSAGE: b"hello",
    RequestCode.SEND_MESSAGE_V2: b"hello",
    RequestCode.HEART_BEAT: HeartbeatData(
        "client", [], [ConsumerData(GROUP, subscriptionDataSet=[_SUBSCRIPTION])]
    ).encode(),
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientConfigBody("client", GROUP, _SUBSCRIPTION).encode(),
    RequestCode.LOCK_BATCH_MQ: _LOCK,
    RequestCode.UNLOCK_BATCH_MQ: _LOCK,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList([TopicConfig(TOPIC)]).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig(GROUP).encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList(
        [SubscriptionGroupConfig(GROUP)]
    ).encode(),
    RequestCode.AUTH_CREATE_USER: UserInfo("secret").encode(),
    RequestCode.AUTH_UPDATE_USER: UserInfo("secret").encode(),
    **dict.fromkeys(
        (RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL),
        AclInfo([PolicyInfo([PolicyEntryInfo(["Pub"], "Allow", "Topic:*")])], "User:sample").encode(),
    ),
    RequestCode.RMQ_BULK_SEND: _RECORD,
    RequestCode.RMQ_TXN_HALF: _RECORD,
    RequestCode.RMQ_TOPICS_SEND: _TOPIC_ROWS,
    RequestCode.RMQ_TOPICS_READ: encode_ranges([TopicRange(TOPIC, 0, 0, 1)]),
    RequestCode.RMQ_MEASURE: QueueBudgets([QueueBudget(TOPIC)]).encode(),
    RequestCode.RMQ_QUEUE_BOUNDS: QueuesOfTopics([QueueOfTopic(TOPIC)]).encode(),
    RequestCode.RMQ_GROUP_LEASES: GroupLeasesBody(take=[LeasedQueue(TOPIC, BROKER, 0)]).encode(),
    RequestCode.RMQ_TXN_DECIDE: TxnDecision(QUERY, {}, inputs=[_INPUT]).encode(standard=True),
    RequestCode.RMQ_TXN_VOTE: TxnVote().encode(),
    RequestCode.RMQ_TXN_COMPLETE: TxnComplete().encode(),
    RequestCode.RMQ_TXN_REPORT_INPUT: InputRanges([_INPUT]).encode(standard=True),
    RequestCode.RMQ_QUERY_REPORT: QueryReport(QUERY, queues=[QueryQueue("", TOPIC, BROKER)], groups=[GROUP]).encode(
        standard=True
    ),
}
