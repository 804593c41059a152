"""Bulks of messages that are to wait: each must say where it belongs and until when, and nothing it may not say."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.broker.delays.parked_bulks import ParkedBulks
from rmqspark.broker.sending.bulks import check_target
from rmqspark.broker.state.topics import TopicTable
from rmqspark.errors import Busy, InvalidArgument, NoPermission, TopicNotFound
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.testing.manual_clock import ManualClock

NOW_MS = 1_700_000_000_000
PLACE = {"REAL_TOPIC": "orders", "REAL_QID": "2"}
LEVEL_3 = {"DELAY": "3"} | PLACE
IN_A_MINUTE = {"TIMER_OUT_MS": str(NOW_MS + 60_000)} | PLACE


def bulk(topic: str, queue_id: int, *properties: dict[str, str]) -> RecordBatch:
    records = [
        encode_record(topic=topic, body=b"x", properties=encode_properties(each), queue_id=queue_id)
        for each in properties
    ]
    return RecordBatch.scan(b"".join(map(bytes, records)))


@pytest.fixture
def parked() -> ParkedBulks:
    topics = TopicTable(max_topics=9, now_ms=0)
    topics.put(TopicConfig(topicName="orders", readQueueNums=4, writeQueueNums=4), 0)
    clock = ManualClock()
    clock.set_now_ms(NOW_MS)
    return ParkedBulks(
        lambda topic, queue_id: check_target(topics, topic, queue_id),
        lambda messages: None,
        clock,
        levels=18,
        max_delay_ms=90_000,
    )


@pytest.mark.parametrize(
    ("topic", "queue_id", "properties"),
    [
        (SCHEDULE_TOPIC, 2, LEVEL_3),
        (TIMER_TOPIC, 0, IN_A_MINUTE),
        (TIMER_TOPIC, 0, IN_A_MINUTE | {"TIMER_OUT_MS": "5"}),
    ],
)
def test_messages_that_may_wait(parked: ParkedBulks, topic: str, queue_id: int, properties: dict[str, str]) -> None:
    """By level, and by time; one whose time is past by now is delivered at once."""
    parked.check(topic, queue_id, bulk(topic, queue_id, properties, properties | {"REAL_QID": "0", "KEYS": "k"}))


@pytest.mark.parametrize(
    ("topic", "queue_id", "said", "error", "story"),
    [
        (SCHEDULE_TOPIC, 3, {}, InvalidArgument, "not of delay level 4"),
        (SCHEDULE_TOPIC, 18, {}, InvalidArgument, "18 delay levels, not 19"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": ""}, InvalidArgument, "is no delayed message"),
        (SCHEDULE_TOPIC, 2, {"REAL_QID": "-1"}, InvalidArgument, "is no delayed message"),
        (SCHEDULE_TOPIC, 2, {"REAL_QID": "4"}, InvalidArgument, "there is no 4"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": "missing"}, TopicNotFound, "missing"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": "a/b"}, InvalidArgument, "a/b"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": "%RETRY%g"}, TopicNotFound, "RETRY"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": SCHEDULE_TOPIC}, InvalidArgument, "is no delayed message"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": TIMER_TOPIC}, InvalidArgument, "is no delayed message"),
        (SCHEDULE_TOPIC, 2, {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}, InvalidArgument, "is no delayed message"),
        (SCHEDULE_TOPIC, 2, {"TRAN_MSG": "true"}, InvalidArgument, "properties that no message has"),
        (TIMER_TOPIC, 0, {}, InvalidArgument, "does not say when it is due"),
        (TIMER_TOPIC, 0, {"TIMER_OUT_MS": "soon"}, InvalidArgument, "does not say when it is due"),
        (TIMER_TOPIC, 0, {"TIMER_OUT_MS": str(NOW_MS + 90_001)}, InvalidArgument, "90 seconds at most, not 90"),
        (TIMER_TOPIC, 0, IN_A_MINUTE | {"TIMER_DEL_UNIQKEY": "orders+U"}, InvalidArgument, "that no message has"),
        (TIMER_TOPIC, 0, IN_A_MINUTE | {"TIMER_ROLL_TIMES": "1"}, InvalidArgument, "that no message has"),
        (
            TIMER_TOPIC,
            0,
            IN_A_MINUTE | {"a": "x" * (MAX_PROPERTIES_BYTES - 80)},
            InvalidArgument,
            "that no message has",
        ),
    ],
)
def test_messages_that_may_not(
    parked: ParkedBulks, topic: str, queue_id: int, said: dict[str, str], error: type[Exception], story: str
) -> None:
    """One of them is enough for all."""
    good = LEVEL_3 if topic == SCHEDULE_TOPIC else IN_A_MINUTE
    bad = LEVEL_3 | said if topic == SCHEDULE_TOPIC else PLACE | said
    with pytest.raises(error, match=story):
        parked.check(topic, queue_id, bulk(topic, queue_id, good, bad))


def test_no_more_than_a_broker_has_room_for() -> None:
    """That is for messages with a time; those with a level are in nobody's memory."""

    def one_place(messages: int) -> None:
        if messages > 1:
            raise Busy("full")

    anything: Any = lambda topic, queue_id: None  # noqa: E731 - of the type that is asked for
    clock = ManualClock()
    clock.set_now_ms(NOW_MS)
    parked = ParkedBulks(anything, one_place, clock, levels=18, max_delay_ms=90_000)
    parked.check(SCHEDULE_TOPIC, 2, bulk(SCHEDULE_TOPIC, 2, LEVEL_3, LEVEL_3))
    parked.check(TIMER_TOPIC, 0, bulk(TIMER_TOPIC, 0, IN_A_MINUTE))
    with pytest.raises(Busy):
        parked.check(TIMER_TOPIC, 0, bulk(TIMER_TOPIC, 0, IN_A_MINUTE, IN_A_MINUTE))


def test_bulks_for_other_topics_of_the_broker_are_refused() -> None:
    """Whatever they say."""
    topics = TopicTable(max_topics=9, now_ms=0)
    topics.add_system_topics([TopicConfig(topicName="RMQ_SYS_TRANS_HALF_TOPIC"), TopicConfig(topicName=TIMER_TOPIC)], 0)
    check_target(topics, TIMER_TOPIC, 0)
    with pytest.raises(NoPermission):
        check_target(topics, "RMQ_SYS_TRANS_HALF_TOPIC", 0)
