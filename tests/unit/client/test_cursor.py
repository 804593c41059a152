"""Where the reading of a queue stands."""

from __future__ import annotations

from rmqspark.client.pulling.cursor import CHUNK_BYTES, MAX_CHUNKS_AHEAD, TAIL_MESSAGES, Ask, Cursor, Fetched
from rmqspark.errors import Busy
from rmqspark.model import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("t", "a", 0)


def message(queue_offset: int) -> ReceivedMessage:
    return ReceivedMessage("t", b"x", None, [], {}, "", QUEUE, queue_offset, 0, 0)


def fetched(*offsets: int, next_offset: int, max_offset: int = 1000) -> Fetched:
    """A chunk whose bytes stand for the offsets of its messages."""
    return Fetched(next_offset, max_offset, bytes(offsets))


def decode(chunk: Fetched) -> list[ReceivedMessage]:
    return [message(offset) for offset in bytes(chunk.records)]


def offsets(messages: list[ReceivedMessage]) -> list[int]:
    return [message.queue_offset for message in messages]


def cursor_at(queue_offset: int) -> Cursor:
    cursor = Cursor(QUEUE)
    cursor.seek(queue_offset)
    return cursor


def test_messages_come_in_order_and_the_position_follows() -> None:
    """The position is always the next message the user gets, whatever has been fetched beyond it."""
    cursor = cursor_at(4)
    cursor.arrived(fetched(4, 5, 7, next_offset=9))
    assert (cursor.position, cursor.fetch_offset) == (4, 9)
    assert offsets(cursor.take(2, decode)) == [4, 5]
    assert cursor.position == 6
    assert offsets(cursor.take(2, decode)) == [7]
    assert cursor.position == 9
    assert cursor.take(2, decode) == []


def test_what_a_filter_leaves_out_is_passed_over() -> None:
    """Messages that do not match move the position on; a chunk without any is no end."""
    cursor = cursor_at(0)
    cursor.arrived(fetched(next_offset=5))
    cursor.arrived(fetched(6, next_offset=8))
    assert offsets(cursor.take(10, decode)) == [6]
    assert cursor.position == 8
    cursor.arrived(fetched(next_offset=20))
    assert cursor.take(10, decode) == []
    assert cursor.position == 20


def test_backlog_is_read_in_bulk_and_the_tail_by_waiting() -> None:
    """A broker with bulk reads is asked for large pieces until the tail is near; a stock broker is always pulled."""
    cursor = cursor_at(0)
    assert cursor.ask(bulk=True) is Ask.BULK
    assert cursor.bytes_ahead == CHUNK_BYTES
    cursor.arrived(fetched(1, next_offset=10, max_offset=10 + TAIL_MESSAGES + 1))
    assert cursor.ask(bulk=True) is Ask.BULK
    assert cursor.ask(bulk=False) is Ask.TAIL
    cursor.arrived(fetched(next_offset=11, max_offset=11 + TAIL_MESSAGES))
    assert cursor.ask(bulk=True) is Ask.TAIL


def test_one_request_at_a_time_and_two_chunks_ahead() -> None:
    """A queue that nobody polls holds two chunks at most."""
    cursor = cursor_at(0)
    for number in range(MAX_CHUNKS_AHEAD):
        assert cursor.wants_fetch(0)
        cursor.ask(bulk=True)
        assert not cursor.wants_fetch(0)
        cursor.arrived(fetched(number, next_offset=number + 1))
    assert not cursor.wants_fetch(0)
    assert cursor.bytes_ahead == MAX_CHUNKS_AHEAD
    cursor.take(1, decode)
    assert cursor.wants_fetch(0)


def test_a_seek_drops_what_was_fetched() -> None:
    """After a seek nothing of the old place is handed out, and answers under way are recognised as old."""
    cursor = cursor_at(0)
    cursor.arrived(fetched(0, 1, next_offset=2))
    cursor.take(1, decode)
    generation = cursor.generation
    cursor.ask(bulk=True)
    cursor.seek(7)
    assert cursor.generation != generation
    assert cursor.take(10, decode) == []
    assert (cursor.position, cursor.fetch_offset, cursor.bytes_ahead) == (7, 7, 0)
    assert cursor.wants_fetch(0)


def test_a_failure_rests_until_its_time() -> None:
    """A queue whose broker is away is asked again when its time has come, and an answer clears the failure."""
    cursor = cursor_at(0)
    cursor.ask(bulk=True)
    cursor.failed(Busy("busy"), retry_at_ms=1000)
    assert not cursor.wants_fetch(999)
    assert cursor.wants_fetch(1000)
    cursor.arrived(fetched(0, next_offset=1))
    assert cursor.failure is None


def test_a_chunk_that_cannot_be_decoded_is_not_lost_quietly() -> None:
    """An error while decoding leaves the cursor where it was: the next attempt meets the same chunk."""
    cursor = cursor_at(0)
    cursor.arrived(fetched(0, next_offset=1))

    def refuse(_: Fetched) -> list[ReceivedMessage]:
        raise Busy("damaged")

    for _ in range(2):
        try:
            cursor.take(1, refuse)
        except Busy:
            assert cursor.position == 0
    assert offsets(cursor.take(1, decode)) == [0]
