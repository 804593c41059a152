"""How far a reader is behind, by pulls that are answered as a broker would."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

from rmqspark.client.cluster.pull_request import PullResult, PullStatus
from rmqspark.client.spark.lag import QueueLag, figures, look
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.records.record import encode_record

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
FIRST, END = 360, 400
RECORD = bytes(encode_record(topic="t", body=b"paid", store_timestamp_ms=4_000))


class Retaining:
    """A cluster of one broker, which has the messages from FIRST to END of each queue; the older ones have expired."""

    def broker(self, name: str) -> Retaining:
        assert name == "broker-a"
        return self

    def submit_pull(self, queue: MessageQueue, queue_offset: int, **wanted: Any) -> Future[PullResult]:
        answer: Future[PullResult] = Future()
        if queue_offset < FIRST:
            answer.set_result(PullResult(PullStatus.OFFSET_MOVED, FIRST, FIRST, END, b"", "OFFSET_TOO_SMALL"))
        elif queue_offset < END:
            answer.set_result(PullResult(PullStatus.FOUND, queue_offset + 1, FIRST, END, RECORD, "FOUND"))
        else:
            answer.set_result(PullResult(PullStatus.NO_NEW, END, FIRST, END, b"", "OFFSET_OVERFLOW_ONE"))
        return answer


def test_a_queue_whose_next_message_has_expired_is_behind_by_what_is_left() -> None:
    """It is the one that is furthest behind: without its bytes and its time the totals were those of the others."""
    found = look(cast("Any", Retaining()), {Q0: 10, Q1: END})
    assert found == [QueueLag(Q0, FIRST, END, 4_000, len(RECORD)), QueueLag(Q1, END, END)]
    total = figures(found, now_ms=10_000)
    assert (total.max_offsets, total.max_ms, total.estimated_total_bytes) == (40, 6_000, 40 * len(RECORD))


def test_a_queue_that_cannot_be_looked_at_is_behind_for_nobody_knows_how_long() -> None:
    """That the others have caught up says nothing of it: in all it is unknown, and not 0 either."""
    total = figures([QueueLag(Q0, 10, 15), QueueLag(Q1, END, END)], now_ms=10_000)
    assert (total.max_offsets, total.max_ms, total.estimated_total_bytes) == (5, None, None)
    assert figures([QueueLag(Q1, END, END)], now_ms=10_000).max_ms == 0
