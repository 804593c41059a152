"""PULL_MESSAGE: what it asks, and what comes back."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict

from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.faults import from_response
from rmqspark.protocol.headers.consume import PullFlag, PullMessageRequestHeader, PullMessageResponseHeader

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response


class PullStatus(Enum):
    """What a pull came back with (RocketMQ's PullStatus)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_MOVED = ResponseCode.PULL_OFFSET_MOVED


class PullResult(NamedTuple):
    """`records` lie back to back; `reason` is the broker's word for the status, e.g. OFFSET_TOO_SMALL.
    `topic_deleted_ms` is when a topic of this name was last deleted there, 0 if never; None where it does not know."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes | memoryview
    reason: str
    topic_deleted_ms: int | None = 0


class PullWanted(TypedDict, total=False):
    """What a pull asks for: in whose name, so many messages and bytes, by tags or by SQL92. With `suspend_ms` the
    broker holds it that long until something comes. An offset above 0 is committed with it, unless the topic was
    deleted later than `topic_deleted_ms`."""

    group: Required[str]
    max_count: int
    max_bytes: int | None
    tags: str
    sql: str | None
    suspend_ms: int
    commit_offset: int
    topic_deleted_ms: int | None


def pull_header(
    queue: MessageQueue,
    queue_offset: int,
    *,
    group: str,
    max_count: int = 32,
    max_bytes: int | None = None,
    tags: str = "*",
    sql: str | None = None,
    suspend_ms: int = 0,
    commit_offset: int = 0,
    topic_deleted_ms: int | None = None,
) -> PullMessageRequestHeader:
    """See `PullWanted`."""
    flags = PullFlag.SUBSCRIPTION
    flags |= PullFlag.SUSPEND if suspend_ms else PullFlag(0)
    flags |= PullFlag.COMMIT_OFFSET if commit_offset > 0 else PullFlag(0)
    return PullMessageRequestHeader(
        consumerGroup=group,
        topic=queue.topic,
        queueId=queue.queue_id,
        queueOffset=queue_offset,
        maxMsgNums=max_count,
        sysFlag=int(flags),
        commitOffset=commit_offset,
        suspendTimeoutMillis=suspend_ms,
        subVersion=0,
        subscription=tags if sql is None else sql,
        expressionType="TAG" if sql is None else "SQL92",
        maxMsgBytes=max_bytes,
        bname=queue.broker_name,
        topicDeleted=topic_deleted_ms if commit_offset > 0 else None,
    )


_STATUS = {int(status.value): status for status in PullStatus}


def pull_result(response: Response) -> PullResult:
    status = _STATUS.get(response.code)
    if status is None:
        raise from_response(response.code, response.remark)
    header = response.header(PullMessageResponseHeader)
    deleted_ms = header.topicDeleted or 0
    return PullResult(
        status,
        header.nextBeginOffset,
        header.minOffset,
        header.maxOffset,
        memoryview(response.body),
        response.remark or "",
        None if deleted_ms < 0 else deleted_ms,
    )
