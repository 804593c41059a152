"""How messages that were looked for are shown."""

from __future__ import annotations

from rmqspark.client.administration.admin_messages import in_order
from rmqspark.model import MessageQueue, ReceivedMessage


def stored(body: bytes, queue_id: int, store_ms: int, place_in_log: int) -> ReceivedMessage:
    offset_id = f"7F00000100002A9F{place_in_log:016X}"
    queue = MessageQueue("t", "a", queue_id)
    return ReceivedMessage("t", body, None, [], {}, "", queue, 0, 0, store_ms, offset_msg_id=offset_id)


def test_messages_of_one_millisecond_come_as_they_lie_in_the_log() -> None:
    """Whichever queues they are in: that is how they were stored."""
    found = [stored(b"3", 0, 8, 900), stored(b"2", 0, 7, 500), stored(b"1", 1, 7, 0xFF)]
    assert [message.body for message in in_order(found)] == [b"1", b"2", b"3"]
