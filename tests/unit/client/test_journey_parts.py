"""What records and committed offsets say of a message's way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.administration.stored_records import Stored
from rmqspark.client.spark.queries import SeenQuery
from rmqspark.client.tracing.journey import (
    BatchReader,
    GroupReader,
    Journey,
    Place,
    Return,
    Stage,
    StageKind,
    Track,
    Unknown,
    Writer,
)
from rmqspark.client.tracing.journey_parts import is_source, real_topic, returned, returns_among, stage, track
from rmqspark.client.tracing.journey_readers import covers, told_readers
from rmqspark.client.tracing.journey_story import events, group_story
from rmqspark.message_queue import MessageQueue
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.bodies.admin import ConsumerConnection
from rmqspark.protocol.bodies.client import SubscriptionData
from rmqspark.protocol.bodies.queries import KnownQuery, QueryQueue, QueryReport
from rmqspark.protocol.bodies.txn import InputRange, OutputRange
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

HALF, SCHEDULE, TIMER = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HALF_BATCH = "RMQ_SYS_TRANS_HALF_BATCH_TOPIC"


def connected(
    tags: str = "*", *, consume_type: str = "CONSUME_PASSIVELY", model: str = "CLUSTERING", **more: Any
) -> Any:
    wanted = SubscriptionData("orders", tags, [] if tags == "*" else tags.split(" || "), **more)
    return ConsumerConnection([], {"orders": wanted}, consume_type, model)


@pytest.mark.parametrize(
    ("committed", "connection", "expected"),
    [
        (8, None, Track.NOT_ONLINE),
        (8, connected(model="BROADCASTING"), Track.CONSUME_BROADCASTING),
        (8, connected(consume_type="CONSUME_ACTIVELY"), Track.PULL),
        (None, connected(), Track.UNKNOWN),
        (7, connected(), Track.NOT_CONSUME_YET),
        (8, connected(), Track.CONSUMED),
        (8, connected("paid || new"), Track.CONSUMED),
        (8, connected("new"), Track.CONSUMED_BUT_FILTERED),
        (8, connected("price > 3", expressionType="SQL92"), Track.CONSUMED),
        (8, ConsumerConnection([], {}, "CONSUME_PASSIVELY", "CLUSTERING"), Track.CONSUMED),
    ],
)
def test_tracks(committed: int | None, connection: ConsumerConnection | None, expected: Track) -> None:
    """As RocketMQ's messageTrackDetail has them, of a message with tag `paid` at offset 7."""
    assert track("orders", "paid", 7, committed, connection) is expected


def record(topic: str, properties: Mapping[str, str] | None = None, *, at: int = 100, **fields: Any) -> Stored:
    encoded = encode_properties(properties or {})
    return Stored("broker-a", Record(topic=topic, body=b"x", properties=encoded, physical_offset=at, **fields))


@pytest.mark.parametrize(
    ("source", "named", "expected"),
    [
        (record(SCHEDULE), 101, True),  # a delivery names one past the record that waited
        (record(TIMER), 101, True),
        (record(SCHEDULE), 100, False),
        (record(HALF), 100, True),  # a committed message its half
        (record(HALF_BATCH), 100, True),
        (record(HALF), 101, False),
        (record("orders"), 100, False),
        (record("orders"), 101, False),
    ],
)
def test_sources(source: Stored, named: int, expected: bool) -> None:
    """What another record can have been made of, which names this offset."""
    assert is_source(source, named) is expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (record("orders"), None),
        (record(SCHEDULE, {"REAL_TOPIC": "orders"}, queue_id=2), (StageKind.DELAY, "orders", None, 3, "", "", None)),
        (
            record(TIMER, {"REAL_TOPIC": "orders", "TIMER_OUT_MS": "5000"}),
            (StageKind.DELIVER_TIME, "orders", 5000, None, "", "", None),
        ),
        (
            record(TIMER, {"REAL_TOPIC": "orders", "TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "5900"}),
            (StageKind.DELIVER_TIME, "orders", 5900, None, "", "", None),
        ),
        (
            record(HALF, {"REAL_TOPIC": "orders", "PGROUP": "p", "UNIQ_KEY": "ID"}),
            (StageKind.HALF_MESSAGE, "orders", None, None, "p", "ID", None),
        ),
        (
            record(HALF_BATCH, {"REAL_TOPIC": "orders", "RMQ_TXN_ID": "T", "RMQ_TXN_VERSION": "7"}),
            (StageKind.HALF_BATCH, "orders", None, None, "", "T", 7),
        ),
    ],
)
def test_stages(stored: Stored, expected: tuple[Any, ...] | None) -> None:
    """Where a message lay before its readers saw it; what its properties do not say is not there."""
    told = stage(stored)
    shown = told and (
        *(told.kind, told.real_topic, told.due_ms, told.level, told.group, told.transaction_id, told.version),
    )
    assert shown == expected


def test_returns_are_told_once_each() -> None:
    """One that waited and came is told as it came: by the link, or, where a broker sets none, by how often it was. What
    is of another first message is of another journey."""
    waited = {"REAL_TOPIC": "%RETRY%g", "ORIGIN_MESSAGE_ID": "FIRST"}
    came = {"ORIGIN_MESSAGE_ID": "FIRST"}
    copies = [
        record(SCHEDULE, waited, at=10, reconsume_times=1, store_timestamp_ms=1),
        record("%RETRY%g", came, at=20, reconsume_times=1, store_timestamp_ms=2, prepared_transaction_offset=11),
        record(SCHEDULE, waited, at=30, reconsume_times=2, store_timestamp_ms=3),
        record("%RETRY%g", came, at=40, reconsume_times=2, store_timestamp_ms=4),
        record(SCHEDULE, waited, at=50, reconsume_times=3, store_timestamp_ms=5),
        record("%DLQ%g", came, at=60, reconsume_times=4, store_timestamp_ms=6),
        record("%DLQ%g", {"ORIGIN_MESSAGE_ID": "ANOTHER"}, at=70, reconsume_times=1, store_timestamp_ms=7),
        record("orders", at=5),
    ]
    told = returns_among(copies, {"FIRST"})
    assert [(each.place.physical_offset, each.is_waiting, each.is_dead) for each in told] == [
        (20, False, False),
        (40, False, False),
        (50, True, False),
        (60, False, True),
    ]


def test_what_a_return_says_of_itself() -> None:
    """Its group by the name of its topic; a proxy has other names for where it came from."""
    by_proxy = returned(record("%DLQ%g", {"DLQ_ORIGIN_MESSAGE_ID": "FIRST"}, reconsume_times=16))
    assert by_proxy is not None
    assert (by_proxy.group, by_proxy.is_dead, by_proxy.times, by_proxy.first_msg_id) == ("g", True, 16, "FIRST")
    silent = returned(record("%RETRY%g"))
    assert silent is not None
    assert silent.first_msg_id is None
    assert returned(record("orders")) is None
    assert real_topic(record(SCHEDULE, {"REAL_TOPIC": "%RETRY%g"})) == "%RETRY%g"


def place(queue_offset: int = 7, topic: str = "orders", stored_ms: int = 2_000) -> Place:
    return Place(MessageQueue(topic, "broker-a", 3), queue_offset, 100, "ID", stored_ms)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (InputRange("g", "orders", "broker-a", 3, 7, 8), True),
        (InputRange("g", "orders", "broker-a", 3, 6, 7), False),
        (InputRange("g", "orders", "broker-a", 3, 8, 9), False),
        (InputRange("g", "orders", "broker-a", 2, 0, 9), False),
        (InputRange("g", "orders", "broker-b", 3, 0, 9), False),
        (InputRange("g", "others", "broker-a", 3, 0, 9), False),
        (OutputRange("orders", "broker-a", 3, 0, 8), True),
    ],
)
def test_ranges(read: InputRange | OutputRange, expected: bool) -> None:
    """The last offset of a range is one before its end."""
    assert covers(read, place()) is expected


@pytest.mark.parametrize(
    ("begin", "end", "batches", "unknown"), [(7, 8, [4], 0), (0, 8, [4], 0), (0, 7, [], 0), (8, 9, [], 1)]
)
def test_what_a_query_has_told_lately(begin: int, end: int, batches: list[int], unknown: int) -> None:
    """Its newest batch alone is known; one that is beyond the message may have read it, or not."""
    gaps: list[Unknown] = []
    by_tasks = SeenQuery(KnownQuery("q", batchId=4, inputs=[InputRange("", "orders", "broker-a", 3, begin, end)]), 0)
    report = QueryReport("q", name="n", batchId=4, queues=[QueryQueue("", "orders", "broker-a", 3, begin, end)])
    by_listener = SeenQuery(KnownQuery("q", report), 0)
    for seen in (by_tasks, by_listener):
        assert [each.batch_id for each in told_readers([seen], place(), set(), gaps)] == batches
    assert len(gaps) == 2 * unknown
    assert list(told_readers([by_tasks], place(), {"q"}, [])) == []  # its batch was decided, and is told as that


GROUPS = [
    (GroupReader("g", Track.CONSUMED, 8, True, True), "is beyond it, at offset 8"),
    (GroupReader("g", Track.NOT_CONSUME_YET, 7, False, True), "has not: it is at offset 7"),
    (GroupReader("g", Track.NOT_ONLINE, 8, True, False), "is beyond it, at offset 8; nobody is connected for it now"),
    (GroupReader("g", Track.UNKNOWN, None, None, True), "has committed no offset of this queue: unknown"),
    (GroupReader("g", Track.CONSUME_BROADCASTING, None, None, True), "each member keeps its own offsets: unknown"),
]


@pytest.mark.parametrize(("reader", "story"), GROUPS)
def test_how_a_group_stands(reader: GroupReader, story: str) -> None:
    """What is not known is unknown, whatever the reason."""
    assert group_story(reader) == story


def test_the_story_is_told_in_the_order_of_time() -> None:
    """Whatever order it was found out in; what has no time comes last."""
    message = ReceivedMessage("orders", b"x", None, [], {}, "ID", place().queue, 7, 1_000, 2_000)
    half = Stage(StageKind.HALF_BATCH, place(0, HALF_BATCH, 1_500), "orders", transaction_id="T", version=7)
    ranges = tuple(InputRange("g", "in", "broker-a", queue, 0, 5) for queue in range(6))
    told = Journey(
        message,
        place(),
        "orders",
        True,
        stages=(half,),
        written_by=Writer("T", 7, "q", "n", 1_800, "driver", 3, ranges),
        returns=(
            Return("g", False, 1, place(0, "%RETRY%g", 3_000), "ID"),
            Return("g", True, 2, place(0, "%DLQ%g", 4_000), "ID"),
        ),
        batches=(
            BatchReader("q2", "", InputRange("", "orders", "broker-a", 3, 5, 9), batch_id=3),
            BatchReader(
                *("q3", "", InputRange("", "orders", "broker-a", 3, 5, 9), "T3", 1, None, 3_500),
                outputs=(
                    OutputRange("out", "broker-a", 0, 4, 9, rows=2),
                    OutputRange("gone", "broker-a", 0, deleted=3),
                ),
            ),
        ),
    )
    assert [(event.at_ms, event.what) for event in events(told)] == [
        (1_000, "sent"),
        (1_500, "half batch"),
        (1_800, "committed"),
        (2_000, "stored"),
        (3_000, "retry 1"),
        (3_500, "read"),
        (4_000, "dead letter"),
        (None, "read"),
    ]
    stories = [event.story for event in events(told)]
    assert stories[2] == (
        "version 7 of T of query n (q): 3 rows, made of in/broker-a/0 0 to 4, in/broker-a/1 0 to 4, in/broker-a/2 0 to "
        "4, in/broker-a/3 0 to 4 and 2 more, decided by driver"
    )
    assert stories[5] == (
        "query q3: offsets 5 to 8, in version 1 of T3, which wrote out/broker-a/0 4 to 8 (2 of them), "
        "gone: 3 rows, deleted with the topic"
    )
    assert stories[7] == "query q2, batch 3: offsets 5 to 8; what it wrote is not recorded here"
