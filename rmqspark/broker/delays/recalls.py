"""What recalls a message that waits for its time: which handle may, and the record that is stored for it. Pure.

It is a message of the timer topic like any other, with the time of the one that it recalls, and names it in
TIMER_DEL_UNIQKEY: both are found together when they are due, and neither is delivered. RocketMQ's
RecallMessageProcessor; its words are kept. The properties stand as a Java HashMap has them there, the empty one, too.
As 5.5.0 has it, the name is the id alone (`appendTopicForTimerDeleteKey`); brokers before it wrote topic, plus and id.
"""

from __future__ import annotations

from typing import Final

from rmqspark.broker.delays.deliver_times import NUMBER, due_before
from rmqspark.errors import NotRecallable
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.recall_handle import RecallHandle
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import encode_unplaced
from rmqspark.store.draft import Draft

_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"
_NO_TRACE: Final = b"TRACE_CONTEXT\x01\x02"


def handle_of(topic: str, broker_name: str, due_ms: int, unique_key: str) -> str:
    """For the sender of a message that waits in the second of `due_ms`, as its TIMER_OUT_MS says."""
    return RecallHandle(topic, broker_name, str(due_ms + 1), unique_key).encode()


def checked_handle(text: str, topic: str, broker_name: str, now_ms: int, max_delay_ms: int) -> RecallHandle:
    """Raises NotRecallable for what recalls no message of this topic that can wait here now."""
    handle = RecallHandle.decode(text)
    if handle.topic != topic:
        raise NotRecallable("recall failed, topic not match")
    if handle.broker_name != broker_name:
        raise NotRecallable("recall failed, broker service not available")
    time_ms = int(handle.time_ms) if NUMBER.fullmatch(handle.time_ms) else -1
    if not 0 < time_ms - now_ms < max_delay_ms:
        raise NotRecallable("recall failed, timestamp invalid")
    return handle


def recall_draft(handle: RecallHandle, group: str | None, born_host: bytes, now_ms: int) -> Draft:
    """The record that recalls the message. Raises InvalidMessage where what it is to say cannot be said."""
    properties = b"".join(
        (
            encode_properties(
                {
                    Property.TIMER_DEL_UNIQKEY: handle.msg_id,
                    Property.REAL_TOPIC: handle.topic,
                    Property.BORN_TIMESTAMP: str(now_ms),
                }
            ),
            _NO_TRACE,
            encode_properties(
                {
                    Property.TIMER_DELIVER_MS: handle.time_ms,
                    Property.UNIQ_KEY: handle.msg_id,
                    Property.PRODUCER_GROUP: group or "",
                    Property.TAGS: _TAG,
                    Property.TIMER_OUT_MS: str(due_before(int(handle.time_ms))),
                    Property.REAL_QUEUE_ID: "0",
                }
            ),
        )
    )
    record = encode_unplaced(TIMER_TOPIC, _BODY, properties, 0, 0, 0, now_ms, born_host, 0)
    return Draft(TIMER_TOPIC, 0, record, tags_code(_TAG), (handle.msg_id,))
