"""What clients send of themselves: a message again, to be consumed by its group once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.sending.delivery import DEFAULT_TOPIC_QUEUES
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.names import AUTO_CREATE_TOPIC, INNER_PRODUCER_GROUP

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue


def own_send_header(
    queue: MessageQueue,
    properties: str,
    *,
    sys_flag: int,
    flag: int,
    born_timestamp_ms: int,
    reconsume_times: int = 0,
    max_reconsume_times: int | None = None,
) -> SendMessageRequestHeaderV2:
    """Of a message that says when it was born; a queue id below 0 leaves the choice to the broker."""
    return SendMessageRequestHeaderV2(
        a=INNER_PRODUCER_GROUP,
        b=queue.topic,
        c=AUTO_CREATE_TOPIC,
        d=DEFAULT_TOPIC_QUEUES,
        e=queue.queue_id,
        f=sys_flag,
        g=born_timestamp_ms,
        h=flag,
        i=properties,
        j=reconsume_times,
        k=False,
        l=max_reconsume_times,
        m=False,
        n=queue.broker_name,
    )
