"""Headers of what producers ask: send, batch, reply, end of transaction, recall (spec: requests, section 4)."""

from __future__ import annotations

import msgspec

from rmqspark.protocol.headers.types import Header, Int32, Int64


class SendMessageRequestHeaderV2(Header):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE. One letter a field, in RocketMQ's order; `as_v1` has the long names."""

    a: str  # producerGroup
    b: str  # topic
    c: str  # defaultTopic
    d: Int32  # defaultTopicQueueNums
    e: Int32  # queueId; below 0 the broker picks one
    f: Int32  # sysFlag
    g: Int64  # bornTimestamp, ms
    h: Int32  # flag
    i: str | None = None  # properties
    j: Int32 | None = None  # reconsumeTimes
    k: bool | None = None  # unitMode
    l: Int32 | None = None  # maxReconsumeTimes  # noqa: E741 - the wire calls it so
    m: bool | None = None  # batch
    n: str | None = None  # broker name

    def as_v1(self) -> SendMessageRequestHeader:
        """The same header under the long names."""
        return SendMessageRequestHeader(*msgspec.structs.astuple(self))

    @classmethod
    def from_v1(cls, header: SendMessageRequestHeader) -> SendMessageRequestHeaderV2:
        return cls(*msgspec.structs.astuple(header))


class SendMessageRequestHeader(Header):
    """SEND_MESSAGE, field for field in the order of the one-letter header."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: Int32
    queueId: Int32
    sysFlag: Int32
    bornTimestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsumeTimes: Int32 | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: Int32 | None = None
    batch: bool | None = None
    bname: str | None = None


class SendMessageResponseHeader(Header):
    """What answers every send. MSG_REGION and TRACE_ON travel beside it, as extra fields."""

    msgId: str  # offset message id; a batch's are joined by commas
    queueId: Int32
    queueOffset: Int64
    transactionId: str | None = None  # the sender's UNIQ_KEY
    batchUniqId: str | None = None
    recallHandle: str | None = None


class PushReplyMessageRequestHeader(Header):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (RocketMQ's ReplyMessageRequestHeader)."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: Int32
    queueId: Int32
    sysFlag: Int32
    bornTimestamp: Int64
    flag: Int32
    bornHost: str
    storeHost: str
    storeTimestamp: Int64
    properties: str | None = None
    reconsumeTimes: Int32 | None = None
    unitMode: bool | None = None


class EndTransactionRequestHeader(Header):
    producerGroup: str
    tranStateTableOffset: Int64  # queue offset of the half message
    commitLogOffset: Int64  # physical offset of the half message
    commitOrRollback: Int32  # 8 commit, 12 rollback, 0 unknown
    msgId: str
    fromTransactionCheck: bool | None = None
    transactionId: str | None = None
    topic: str | None = None
    bname: str | None = None


class CheckTransactionStateRequestHeader(Header):
    tranStateTableOffset: Int64
    commitLogOffset: Int64
    topic: str | None = None
    msgId: str | None = None
    transactionId: str | None = None
    offsetMsgId: str | None = None
    bname: str | None = None


class RecallMessageRequestHeader(Header):
    topic: str
    recallHandle: str
    producerGroup: str | None = None
    bname: str | None = None


class RecallMessageResponseHeader(Header):
    msgId: str
