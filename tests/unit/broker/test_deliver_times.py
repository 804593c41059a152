"""What messages ask for that want a time, what they say while they wait, and which of them are due."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.delays.deliver_times import Waiting, asked_time_ms, park_until, times_told, topic_of, waiting_of
from rmqspark.broker.delays.parking import Place
from rmqspark.broker.delays.timer_table import TimerCheck, TimerProgress, write_timer_check
from rmqspark.broker.delays.timetable import Timetable
from rmqspark.errors import InvalidMessage
from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, decode_properties, encode_properties
from rmqspark.protocol.records.record import Record, decode_record, encode_record
from rmqspark.testing.memory_files import MemoryFileSystem

NOW_MS = 1_700_000_000_500
THREE_DAYS_MS = 259_200_000


@pytest.mark.parametrize(
    ("properties", "time_ms"),
    [
        ({}, None),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 1)}, NOW_MS + 1),
        ({"TIMER_DELIVER_MS": str(NOW_MS)}, None),
        ({"TIMER_DELIVER_MS": "-5"}, None),
        ({"TIMER_DELAY_MS": "1500"}, NOW_MS + 1500),
        ({"TIMER_DELAY_SEC": "+3"}, NOW_MS + 3000),
        ({"TIMER_DELAY_SEC": "0"}, None),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "2", "TIMER_DELAY_SEC": "3"}, NOW_MS + 3000),
        ({"TIMER_DELIVER_MS": str(NOW_MS + THREE_DAYS_MS)}, NOW_MS + THREE_DAYS_MS),
        ({"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "9"}, None),
    ],
)
def test_the_time_that_is_asked_for(properties: dict[str, str], time_ms: int | None) -> None:
    """Seconds go before milliseconds, and both before a time; what is past is no time, nor what was delivered once."""
    assert asked_time_ms(properties, NOW_MS, THREE_DAYS_MS) == time_ms


@pytest.mark.parametrize(
    ("properties", "story"),
    [
        ({"TIMER_DELIVER_MS": "soon"}, "TIMER_DELIVER_MS is a number, not 'soon'"),
        ({"TIMER_DELAY_SEC": "٣"}, "TIMER_DELAY_SEC is a number"),
        ({"TIMER_DELAY_MS": "9" * 19}, "is a number"),
        ({"TIMER_DELIVER_MS": str(NOW_MS + THREE_DAYS_MS + 1)}, "259200 seconds at most"),
        ({"TIMER_DELIVER_MS": "5", "TIMER_DEL_UNIQKEY": "orders+U"}, "was due already"),
    ],
)
def test_times_that_no_message_can_have(properties: dict[str, str], story: str) -> None:
    """The error says what is wrong with them."""
    with pytest.raises(InvalidMessage, match=story):
        asked_time_ms(properties, NOW_MS, THREE_DAYS_MS)


@pytest.mark.parametrize(
    ("time_ms", "due_ms"),
    [
        (1_700_000_061_000, 1_700_000_060_000),
        (1_700_000_061_001, 1_700_000_061_000),
        (1_700_000_061_999, 1_700_000_061_000),
    ],
)
def test_what_waits_says_where_it_belongs_and_when(time_ms: int, due_ms: int) -> None:
    """In RocketMQ's precision (spec: semantics, TV-6); what else its sender said stays as it was."""
    sent = encode_properties({"KEYS": "k", "TIMER_DELIVER_MS": str(time_ms), "REAL_TOPIC": "a lie", "UNIQ_KEY": "U"})
    parked = park_until(Place("orders", 2), sent, time_ms)
    assert (parked.topic, parked.queue_id) == (TIMER_TOPIC, 0)
    own = {"TIMER_OUT_MS": str(due_ms), "REAL_TOPIC": "orders", "REAL_QID": "2"}
    said = {"KEYS": "k", "TIMER_DELIVER_MS": str(time_ms), "UNIQ_KEY": "U"} | own
    assert decode_properties(parked.properties) == said
    assert waiting_of(record(parked.properties)) == Waiting(
        due_ms, "orders+U", is_recall=False, comes_again=False, topic="orders"
    )


@pytest.mark.parametrize(
    ("said", "key", "is_recall", "comes_again"),
    [
        ({"TIMER_DEL_UNIQKEY": "U"}, "orders+U", True, False),
        ({"TIMER_DEL_UNIQKEY": "orders+U"}, "orders+U", True, False),  # of RocketMQ's brokers before 5.5.0
        ({"TIMER_ROLL_TIMES": "1"}, "orders+own", False, True),
    ],
)
def test_what_counts_instead_of_another_says_so(
    said: dict[str, str], key: str, is_recall: bool, comes_again: bool
) -> None:
    """A recall, and a message that RocketMQ has put back into the topic."""
    found = record(encode_properties({"TIMER_OUT_MS": "1000", "REAL_TOPIC": "orders", "UNIQ_KEY": "own", **said}))
    assert waiting_of(found) == Waiting(1000, key, is_recall, comes_again, "orders")
    assert (topic_of(found), topic_of(record(encode_properties(said)))) == ("orders", "")


@pytest.mark.parametrize(
    "others",
    [
        b"REAL_TOPIC\x01a lie\x02",
        b"REAL_TOPIC\x01\x02REAL_TOPIC\x01a lie\x02",
        b"KEYS\x01REAL_TOPIC\x01a lie\x02",
        b"x\x02",
    ],
)
@pytest.mark.parametrize("behind", [b"", b"REAL_TOPIC\x01\x02", b"REAL_TOPIC"])
def test_of_several_topics_named_the_same_one_counts_everywhere(others: bytes, behind: bytes) -> None:
    """Whoever sends bulks writes the properties himself: of the topics that he names the last is meant."""
    found = record(others + encode_properties({"TIMER_OUT_MS": "1000", "REAL_TOPIC": "orders"}) + behind)
    assert topic_of(found) == waiting_of(found).topic == "orders"


def record(properties: bytes) -> Record:
    return decode_record(encode_record(topic=TIMER_TOPIC, body=b"x", properties=properties))


def test_what_could_not_be_delivered_is_refused_when_it_is_sent() -> None:
    """Its readers are told when it came, in properties that have to fit, too."""
    own = park_until(Place("orders", 2), b"", NOW_MS).properties + times_told(NOW_MS)
    longest = MAX_PROPERTIES_BYTES - len(own)
    filler = b"a\x01" + b"x" * (longest - 3) + b"\x02"
    assert len(park_until(Place("orders", 2), filler, NOW_MS).properties + times_told(NOW_MS)) == MAX_PROPERTIES_BYTES
    with pytest.raises(InvalidMessage, match="would not fit"):
        park_until(Place("orders", 2), b"b" + filler, NOW_MS)


@pytest.mark.parametrize("due", ["", "soon", "1" * 19])
def test_a_record_that_does_not_say_when_is_none(due: str) -> None:
    """A store may have been written by others."""
    with pytest.raises(InvalidMessage, match="does not say when it is due"):
        waiting_of(record(encode_properties({"TIMER_OUT_MS": due, "REAL_TOPIC": "orders"})))


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60), st.integers(1, 4))
def test_messages_come_by_their_time(sent: list[tuple[int, bool]], most: int) -> None:
    """Those of one time in the order they were sent in; some are delivered while others are still sent."""
    timetable, waiting, read = Timetable(), [], 0
    for queue_offset, (due, moves) in enumerate(sent):
        timetable.add(due, queue_offset)
        waiting.append((due, queue_offset))
        read += moves
        batch = timetable.next_due(read, most)
        expected = sorted(each for each in waiting if each[0] < read)
        if batch is None:
            assert not expected
            continue
        found = [(batch.due_ms, offset) for offset in batch.queue_offsets]
        assert found == [each for each in expected if each[0] == expected[0][0]][:most]
        timetable.done(batch)
        waiting = [each for each in waiting if each not in found]
        assert timetable.size == len(waiting)
        assert timetable.first_offset() == min((offset for _, offset in waiting), default=None)


def test_seconds_that_are_over_take_no_memory() -> None:
    """Though the first message of all waits for days."""
    timetable = Timetable()
    timetable.add(100_000, 0)
    for second in range(1, 5_000):
        timetable.add(second, second)
        due = timetable.next_due(second + 1, 1)
        assert due is not None
        timetable.done(due)
        assert timetable.first_offset() == 0
        assert len(timetable._firsts) <= 2_000
    timetable.add(100_000, 5_000)
    while due := timetable.next_due(100_001, 1):
        assert timetable.first_offset() == due.queue_offsets[0]
        timetable.done(due)
    assert timetable.first_offset() is None


@given(
    st.lists(st.tuples(st.sampled_from([0, 999, 60_000, 61_500, 119_999, 200_000]), st.integers(0, 5_000))),
    st.integers(0, 250_000),
    st.lists(st.integers(0, 400_000), max_size=5),
    st.integers(0, 4),
)
def test_those_between_two_times_are_counted(
    sent: list[tuple[int, int]], from_ms: int, after_ms: list[int], delivered: int
) -> None:
    """Within a minute and over many; what was delivered does not count."""
    timetable = Timetable()
    waiting = [minute_ms + ms for minute_ms, ms in sent]
    for queue_offset, due_ms in enumerate(waiting):
        timetable.add(due_ms, queue_offset)
    for _ in range(delivered):
        if due := timetable.next_due(1 << 40, 1):
            timetable.done(due)
            waiting.remove(due.due_ms)
    bounds_ms = sorted(from_ms + ms for ms in after_ms)
    found = timetable.count_between(from_ms, bounds_ms)
    edges = pairwise([from_ms, *bounds_ms])
    assert found == [sum(before <= due_ms < bound for due_ms in waiting) for before, bound in edges]


def test_to_count_a_day_is_no_look_at_every_second_of_it() -> None:
    """A scrape of the metrics asks for it, when three days are full."""
    timetable, hour_ms = Timetable(), 3_600_000
    for second in range(24 * 3_600):
        timetable.add(second * 1_000, second)
    looks = 0

    def count(_frame: object, event: str, _: object) -> None:
        nonlocal looks
        looks += event == "c_call"

    sys.setprofile(count)
    try:
        found = timetable.count_between(500, [hour_ms, 24 * hour_ms])
    finally:
        sys.setprofile(None)
    assert found == [3_599, 23 * 3_600]
    assert looks < 5_000, "a few for each minute"


def test_a_message_can_be_overruled() -> None:
    """None of its key is delivered once it was recalled, and but the last one where it was put back."""
    timetable = Timetable()
    for queue_offset in range(4):
        timetable.add(5, queue_offset)
    timetable.overrule(5, "recalled", None)
    timetable.overrule(5, "again", 2)
    assert timetable.size == 6
    assert [timetable.counts(5, key, 1) for key in ("recalled", "again", "other")] == [False, False, True]
    assert timetable.counts(5, "again", 2)
    while due := timetable.next_due(6, 3):
        timetable.done(due)
    assert (timetable.size, timetable.first_offset()) == (0, None)


def test_a_long_key_takes_no_more_memory_than_a_short_one() -> None:
    """Whoever recalls says which message, in up to 32 KiB; it need not be there."""
    timetable = Timetable()
    tracemalloc.start()
    try:
        for number in range(1_000):
            timetable.overrule(5, f"{number}+" + "x" * 30_000, None)
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()
    assert timetable.size == 1_000
    assert not timetable.counts(5, "7+" + "x" * 30_000, 1)
    assert timetable.counts(5, "7+" + "x" * 30_001, 1)


# --- the notes


NOTED = TimerTable(readTimeMs=7_000, queueOffset=9, firstOffset=4, logOffset=800)


def opened(files: MemoryFileSystem, table: TimerTable) -> TimerProgress:
    progress = TimerProgress(files)
    progress.load(table)
    return progress


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_slave_knows_nothing_from_when_it_was_the_master(handed_over: bool) -> None:
    """Its log may have been cut since, and have what another delivered."""
    files = MemoryFileSystem()
    progress = opened(files, NOTED)
    if handed_over:
        progress.hand_over(NOTED, now_ms=5)
    progress = opened(files, progress.table())
    before = progress.revision
    progress.forget()
    assert progress.revision > before
    known = opened(files, progress.table()).known
    assert (known.readTimeMs, known.queueOffset, known.firstOffset, known.logOffset) == (0, 0, 0, 0)


def test_our_note_counts_where_rocketmq_had_no_say() -> None:
    """No note of its own is there, or it is the one that was handed over, whether ours was saved after it or not."""
    files = MemoryFileSystem()
    progress = opened(files, TimerTable())
    progress.note(NOTED)
    before = progress.table()
    assert opened(files, before).known == before
    progress.hand_over(NOTED, now_ms=5)
    assert opened(files, before).known == before, "killed in between"
    assert opened(files, progress.table()).known == progress.table()
    revisions = [check_of(files).counter]
    progress.hand_over(NOTED, now_ms=6)
    revisions.append(check_of(files).counter)
    assert all(later > earlier for earlier, later in pairwise(revisions))


def check_of(files: MemoryFileSystem) -> TimerCheck:
    file = files.open("config/timercheck", read_only=True)
    assert file.size() == 4096
    return TimerCheck.decode(file.pread(4096, 0))


def test_rocketmq_s_note_counts_where_it_had_the_store_since() -> None:
    """Until ours accounts for it."""
    files = MemoryFileSystem()
    opened(files, TimerTable()).hand_over(NOTED, now_ms=5)
    assert check_of(files)[:4] == (7_000, 0, 4, 4)
    raw = TimerCheck(60_000, 52, 30, 30, 0, 9, 9).encode()
    file = files.open("config/timercheck")
    file.pwrite(raw, 0)  # in place, as RocketMQ writes it
    progress = opened(files, NOTED)
    assert progress.known == TimerTable(readTimeMs=60_000, queueOffset=30)
    progress.note(NOTED)
    assert opened(files, progress.table()).known == progress.table()


def test_a_note_of_rocketmq_that_is_cut_off_says_nothing() -> None:
    """All that waits is read then."""
    files = MemoryFileSystem()
    write_timer_check(files, TimerCheck(5, 6, 7, 8))
    file = files.open("config/timercheck")
    file.truncate(20)
    assert opened(files, NOTED).known == TimerTable()
