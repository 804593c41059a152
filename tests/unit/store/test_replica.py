"""A slave's store takes the bytes of its master's log and becomes what the master's is."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from structlog.testing import capture_logs

from rmqspark.errors import NotWritable, RecordError, StoreError
from rmqspark.protocol.records.record import QUEUE_OFFSET_AT, blank_record, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.cut_tails import DIRECTORY, drop_old_tails
from rmqspark.store.doubt import Doubtful
from rmqspark.store.files import write_whole
from rmqspark.store.inspection.store import inspect_store
from rmqspark.store.recovery.scan import whole_records
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import SMALL, StoreBench

SYNC = replace(SMALL, flush_disk_type="SYNC_FLUSH")


def master(rounds: int = 12) -> StoreBench:
    """Messages in several queues, over several files of the log, with blank records between."""
    bench = StoreBench()
    for number in range(rounds):
        bench.clock.advance(ms=10)
        bench.send("t", number % 2, b"m%03d" % number, tags="A")
        bench.send_bulk("u", 0, b"u%03d" % number, b"v%03d" % number)
    assert rounds < 12 or len(bench.content("commitlog")) > 2
    return bench


def slave(config: object = SMALL) -> StoreBench:
    bench = StoreBench(config)  # type: ignore[arg-type]
    bench.store.replica.open_for_master()
    return bench


def log_of(bench: StoreBench) -> bytes:
    return bench.store.replica.read(0, bench.store.end_offset)


def with_bit_flipped(raw: bytes, at: int, mask: int) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= mask
    return bytes(changed)


def feed(bench: StoreBench, raw: bytes, chunk_bytes: int) -> None:
    """What is not whole yet comes again with the next chunk."""
    waiting = b""
    for at in range(0, len(raw), chunk_bytes):
        waiting += raw[at : at + chunk_bytes]
        waiting = waiting[bench.store.replica.append(waiting) :]


def follow(bench: StoreBench, original: StoreBench) -> None:
    """Brings the rest of the master's log."""
    begin, end = bench.store.end_offset, original.store.end_offset
    assert bench.store.replica.append(original.store.replica.read(begin, end - begin)) == end - begin


def assert_same(bench: StoreBench, original: StoreBench) -> None:
    assert bench.content("commitlog") == original.content("commitlog")
    assert bench.store.queues.topics() == original.store.queues.topics()
    for topic in original.store.queues.topics():
        for queue_id in original.store.queues.queue_ids(topic):
            assert bench.records(topic, queue_id) == original.records(topic, queue_id)


@pytest.mark.parametrize("config", [SMALL, SYNC])
@pytest.mark.parametrize("chunk_bytes", [1, 7, 100, 1024, 1 << 20])
def test_a_log_is_the_same_however_it_was_cut(chunk_bytes: int, config: object) -> None:
    """The slave's files are the master's to the byte, and its queues and index say the same."""
    original, bench = master(), slave(config)
    feed(bench, log_of(original), chunk_bytes)
    bench.store.flush()
    assert_same(bench, original)
    found = bench.store.query("t", "m003", 0, 1 << 60, 10)
    assert found == original.store.query("t", "m003", 0, 1 << 60, 10) != []
    bench.store.close()
    original.store.close()
    assert bench.derived() == original.derived()


def test_a_slave_ends_where_a_record_does_wherever_the_bytes_end() -> None:
    """Of a record that has not come whole nothing is in the log."""
    raw = log_of(master(3))
    ends = set()
    for size in range(0, len(raw), 19):
        bench = slave()
        taken = bench.store.replica.append(raw[:size])
        ends.add(taken)
        assert bench.store.end_offset == taken <= size
        bench.check_tail()
    assert len(ends) > 6


def test_a_file_may_end_long_before_its_end() -> None:
    """Where a batch found no room in it: a blank record is longer than any message."""
    room = 40 << 20
    bench = slave(replace(SMALL, mapped_file_size_commit_log=room))
    head = blank_record(room)
    assert bench.store.replica.append(head) == 0
    assert bench.store.replica.append(head + bytes(room - len(head))) == room
    assert bench.store.end_offset == room


def test_a_message_that_belongs_to_no_queue_is_told() -> None:
    """It is in the log, as with its master, and only there."""
    bench = slave()
    with capture_logs() as told:
        for _ in range(2):
            hostile = encode_record(topic="../x", body=b"evil", physical_offset=bench.store.end_offset)
            assert bench.store.replica.append(hostile) == len(hostile)
    assert (len(told), bench.store.queues.topics()) == (1, [])


def test_readers_of_a_slave_are_told() -> None:
    """Pulls that wait on a slave hear of what comes."""
    original, bench, told = master(2), slave(), []
    bench.store.on_readable = lambda readable: told.extend((topic, queue, end) for topic, queue, end, _ in readable)
    feed(bench, log_of(original), 1 << 20)
    assert sorted(told) == [("t", 0, 1), ("t", 1, 1), ("u", 0, 4)]


def test_a_slave_takes_messages_from_nobody_else() -> None:
    """What is sent to a slave is refused, and the error says where to send it."""
    bench = slave()
    with pytest.raises(NotWritable, match="Send to the master"):
        bench.send("t", 0, b"m")
    assert bench.store.end_offset == 0


@pytest.mark.parametrize("at", [0, 4, 8, 30, 90])
def test_bytes_that_are_no_record_are_refused(at: int) -> None:
    """A bit that flipped on the way, in size, magic, checksum, place or body, never reaches the log."""
    raw = bytearray(log_of(master(1)))
    raw[at] ^= 1
    bench = slave()
    with pytest.raises(RecordError):
        bench.store.replica.append(raw)
    assert bench.store.end_offset == 0


@pytest.mark.parametrize("then", ["go on", "reopen", "kill"])
@pytest.mark.parametrize("row", [0, 1, 5])
@pytest.mark.parametrize("at", [0, 3, 4, 8, 30, 84, 90])
def test_what_comes_twice_the_same_is_what_the_master_has(at: int, row: int, then: str) -> None:
    """Size, magic, checksum, place, length of the body, body: a log with a rotten bit is copied as it is."""
    raw, bench = bytearray(log_of(master(3))), slave()
    sizes = RecordBatch.scan(bytes(raw)).sizes
    begin = int(sizes[:row].sum())
    raw[begin + at] ^= 1
    with pytest.raises(Doubtful):
        bench.store.replica.append(raw)
    assert bench.store.end_offset == begin
    with capture_logs() as told:
        assert bench.store.replica.append(raw[begin:]) == len(raw) - begin
    assert [entry["at"] for entry in told] == [begin]
    if then != "go on":
        bench.store.checkpoint()
        getattr(bench, then)()
    assert log_of(bench) == raw
    topics = [bench.store.queues.bounds(*queue) for queue in (("t", 0), ("t", 1), ("u", 0))]
    assert [end for _, end in topics] == [2, 1, 6]


@pytest.mark.parametrize("then", ["go on", "reopen", "kill"])
@pytest.mark.parametrize(("from_behind", "at"), [(2, 0), (2, 2), (2, 4), (2, 84), (1, 4)])
def test_damage_at_the_end_of_a_file_is_what_the_master_has_too(from_behind: int, at: int, then: str) -> None:
    """Of its last record, or the blank one behind that: what follows is the first record of the next file."""
    raw, bench = bytearray(log_of(master())), slave()
    begin = [0, *np.cumsum(whole_records(memoryview(raw[:1024]))).tolist()][-from_behind]
    raw[begin + at] ^= 1
    with pytest.raises(Doubtful):
        bench.store.replica.append(raw)
    assert bench.store.end_offset == begin
    assert bench.store.replica.append(raw[begin:]) == len(raw) - begin
    if then != "go on":
        bench.store.checkpoint()
        getattr(bench, then)()
    assert log_of(bench) == raw
    assert bench.store.queues.bounds("u", 0)[1] == 24


def test_a_size_that_is_damaged_has_nobody_wait_for_what_never_comes() -> None:
    """One bit of it makes 300 bytes 16 MiB: a slave that waits for them confirms nothing more."""
    original = StoreBench(replace(SMALL, mapped_file_size_commit_log=32 << 20))
    original.send("t", 0, b"damaged")
    original.send("t", 0, b"behind")
    raw, bench = with_bit_flipped(log_of(original), 0, 1), slave(original.config)
    with pytest.raises(Doubtful) as refused:
        bench.store.replica.append(raw)
    assert not refused.value.hint, "the files are as long as the master's"
    assert bench.store.replica.append(raw) == len(raw)


def test_the_rest_of_what_came_is_known_too() -> None:
    """However many checksums of a bulk are false, and whatever is between: it is asked for once more, not for each."""
    original = StoreBench(replace(SMALL, mapped_file_size_commit_log=1 << 20))
    original.send_falsely("t", 0, [b"%d" % row for row in range(3_000)], range(0, 3_000, 3))
    bench, raw = slave(original.config), log_of(original)
    with pytest.raises(Doubtful):
        bench.store.replica.append(raw)
    with capture_logs() as told:
        assert bench.store.replica.append(raw) == len(raw)
    assert len(told) == 1
    assert bench.store.queues.bounds("t", 0)[1] == 3_000


def test_a_place_in_a_queue_is_not_believed_with_a_false_checksum() -> None:
    """A sector that is rotten has both: the queue would begin anew there, without what was in it."""
    original, bench = StoreBench(), slave()
    for number in range(3):
        original.send("t", 0, b"m%d" % number)
    raw = bytearray(log_of(original))
    last = int(RecordBatch.scan(bytes(raw)).sizes[:-1].sum())
    second = last // 2
    raw[second + 8] ^= 1
    raw[second + QUEUE_OFFSET_AT : second + QUEUE_OFFSET_AT + 8] = bytes(8)
    with pytest.raises(Doubtful):
        bench.store.replica.append(raw)
    assert bench.store.replica.append(raw[second:]) == len(raw) - second
    assert bench.store.queues.bounds("t", 0) == (0, 3)
    assert bench.bodies("t", 0, 2) == [b"m2"]


@pytest.mark.parametrize("piece_bytes", [700, 32 << 10, 1 << 20])
def test_damage_may_be_longer_than_what_comes_at_once(piece_bytes: int) -> None:
    """A large message, say: what is behind it is waited for, twice."""
    original = StoreBench(replace(SMALL, mapped_file_size_commit_log=8 << 20))
    original.send_falsely("t", 0, [bytes(1_500_000)], [])
    original.send("t", 0, b"behind")
    raw, bench, looks = with_bit_flipped(log_of(original), 4, 1), slave(original.config), 0
    while bench.store.end_offset < len(raw):
        looks += 1
        with suppress(Doubtful):
            feed(bench, raw[bench.store.end_offset :], piece_bytes)
    assert looks <= 3
    assert log_of(bench) == raw


def test_what_comes_otherwise_the_second_time_is_refused() -> None:
    """It was the way that changed it; the master's own bytes are taken whenever they come."""
    raw, bench = log_of(master(3)), slave()
    with pytest.raises(Doubtful):
        bench.store.replica.append(with_bit_flipped(raw, 90, 1))
    for mask in (2, 4, 2):
        with pytest.raises(RecordError) as refused:
            bench.store.replica.append(with_bit_flipped(raw, 90, mask))
        assert not isinstance(refused.value, Doubtful), "nothing asks at once for ever"
    assert bench.store.replica.append(raw) == len(raw)
    assert log_of(bench) == raw


def test_damage_that_no_record_follows_is_waited_behind() -> None:
    """Where it ends nobody knows before that."""
    original, bench = master(1), slave()
    last = int(RecordBatch.scan(log_of(original)).sizes[:-1].sum())
    with pytest.raises(Doubtful):
        bench.store.replica.append(with_bit_flipped(log_of(original), last + 4, 1))
    tail = with_bit_flipped(log_of(original), last + 4, 1)[last:]
    assert bench.store.replica.append(tail) == 0
    assert bench.store.end_offset == last
    original.send("t", 0, b"behind")
    more = with_bit_flipped(log_of(original), last + 4, 1)[last:]
    assert bench.store.replica.append(more) == len(more)
    assert bench.bodies("t", 0)[-1] == b"behind"


@pytest.mark.parametrize("at", [4, 8, 30, 90])
def test_what_comes_before_damage_is_taken(at: int) -> None:
    """To the record, however much came at once; and it is told where the damage begins."""
    raw = bytearray(log_of(master(3)))
    begins = [0, *np.cumsum(RecordBatch.scan(bytes(raw)).sizes).tolist()[:-1]]
    for begin in begins:
        damaged = raw.copy()
        damaged[begin + at] ^= 1
        bench = slave()
        with pytest.raises(RecordError, match=f"(At|From) {begin} "):
            bench.store.replica.append(damaged)
        assert bench.store.end_offset == begin
        assert not begin or log_of(bench) == raw[:begin]


@pytest.mark.parametrize("segment_bytes", [512, 2048])
def test_files_that_end_elsewhere_are_refused(segment_bytes: int) -> None:
    """A master with files of another length: the error names the setting, at the latest where its first file ends."""
    original = StoreBench()
    original.send("t", 0, b"x" * 250)
    original.send("t", 0, b"y" * 250)
    bench = slave(replace(SMALL, mapped_file_size_commit_log=segment_bytes))
    for _ in range(3):
        with pytest.raises(RecordError, match="mapped_file_size_commit_log"):
            bench.store.replica.append(log_of(original)[bench.store.end_offset :])


def test_a_late_slave_begins_with_a_file_in_the_middle() -> None:
    """An empty slave may be sent the newest file alone; its queues begin where that does."""
    original, bench = master(), slave()
    start = original.store.end_offset // 1024 * 1024
    bench.store.replica.begin_at(start)
    assert bench.store.replica.append(log_of(original)[start:]) == original.store.end_offset - start
    assert bench.store.min_physical_offset == start
    newest = original.records("u", 0)[-1]
    assert bench.records("u", 0)[-1] == newest
    assert bench.reopen().queues.bounds("u", 0)[1] == newest.queue_offset + 1


@pytest.mark.parametrize("crashes", [0, 1, 2, 1_000])
def test_a_slave_made_the_master_is_in_no_incarnation_that_its_master_was_in(crashes: int) -> None:
    """Crashes of the master raise its own, and a slave hears of that when it looks next, or never."""
    bench = StoreBench()
    bench.store.replica.open_for_master()
    bench.store.lineage.adopt("5f" * 16, 7)
    bench.reopen()
    assert (bench.store.store_id, bench.store.incarnation) == ("5f" * 16, 7)
    assert bench.store.lineage.end_following()
    assert bench.store.incarnation > 7 + crashes
    assert not bench.store.lineage.end_following()


def test_files_of_another_length_are_refused() -> None:
    """Two stores with different lengths of files cannot be the same."""
    with pytest.raises(StoreError, match="mapped_file_size_commit_log"):
        slave().store.replica.begin_at(1000)


def test_where_a_record_begins() -> None:
    """Of any byte of the log it is known which record it is part of, or which blank record at the end of a file."""
    bench = master()
    replica, segment_bytes = bench.store.replica, bench.config.mapped_file_size_commit_log
    records = [record for topic in "tu" for queue in (0, 1) for record in bench.records(topic, queue)]
    begins = sorted(record.physical_offset for record in records)
    for begin, following in pairwise([*begins, bench.store.end_offset]):
        end = begin + len(bench.store.records.at(begin))
        assert {replica.record_begin(at) for at in range(begin, end)} == {begin}
        assert {replica.record_begin(at) for at in range(end, following)} <= {end}
        assert following == end or following % segment_bytes == 0


@pytest.mark.parametrize("then", ["go on", "reopen", "kill", "lose_power"])
@pytest.mark.parametrize("back", [1, 5, 17])
def test_a_tail_that_is_cut_off_leaves_nothing_behind(back: int, then: str) -> None:
    """After a cut the store is what it was before the tail came, also after a crash, and takes another tail."""
    original, bench = master(), slave()
    raw = log_of(original)
    feed(bench, raw, 1 << 20)
    begins = sorted({bench.store.replica.record_begin(at) for at in range(len(raw))})
    incarnation, position = bench.store.incarnation, begins[-back]
    kept = bench.store.replica.cut(position)
    assert bench.read_file(kept) == raw[position:]
    assert kept.startswith(DIRECTORY)
    if then != "go on":
        getattr(bench, then)()
        bench.store.replica.open_for_master()
    assert bench.store.end_offset == position
    assert bench.store.incarnation > incarnation
    bench.check_tail()
    fresh = slave()
    feed(fresh, raw[:position], 1 << 20)
    assert_same(bench, fresh)
    feed(bench, raw[position:], 100)
    assert_same(bench, original)
    assert len(bench.store.query("t", "m011", 0, 1 << 60, 10)) == 1


def test_what_was_cut_off_is_kept_as_long_as_the_log_keeps_messages() -> None:
    """Then it goes, and the log says so; an inspection says what is there."""
    bench = slave()
    feed(bench, log_of(master(3)), 1 << 20)
    first = bench.store.replica.cut(bench.store.replica.record_begin(bench.store.end_offset - 1))
    bench.clock.advance(hours=bench.config.file_reserved_time - 1)
    second = bench.store.replica.cut(0)
    bench.store.expire(bench.clock.now_ms())
    report = inspect_store(bench.files, "store", is_open=True, on_progress=lambda *_: None)
    assert (report.cut_files, report.cut_bytes) == (2, len(bench.read_file(first) + bench.read_file(second)))
    bench.clock.advance(hours=1)
    with capture_logs() as logs:
        assert first in bench.store.expire(bench.clock.now_ms()).deleted
    assert [entry["path"] for entry in logs] == [first]
    assert bench.files.listdir(DIRECTORY) == [second.removeprefix("cut/")]


def test_of_what_was_cut_off_the_newest_is_kept() -> None:
    """However often a slave has to cut, it takes no more than so many bytes of the disk."""
    bench = slave()
    for rounds in (3, 4, 5):
        feed(bench, log_of(master(rounds)), 1 << 20)
        size = bench.store.end_offset
        bench.clock.advance(ms=1)
        newest = bench.store.replica.cut(0)
    assert drop_old_tails(bench.files, 0) == []
    assert len(drop_old_tails(bench.files, 0, most_bytes=size)) == 2
    assert bench.files.listdir(DIRECTORY) == [newest.removeprefix("cut/")]


def test_a_tail_does_not_take_the_place_of_another_one() -> None:
    """Twice a master lost as many bytes: each may be the only copy."""
    common = master(8)
    shared, tails = common.store.end_offset, []
    bench = slave()
    for word in (b"one", b"two"):
        other = master(8)
        for number in range(4):
            other.send("t", number % 2, b"%b%d" % (word, number))
        tails.append(log_of(other)[shared:])
        feed(bench, log_of(other)[bench.store.end_offset :], 1 << 20)
        bench.store.replica.cut(shared)
    assert len(tails[0]) == len(tails[1])
    assert list(bench.content(DIRECTORY).values()) == tails
    assert inspect_store(bench.files, "store", is_open=True, on_progress=lambda *_: None).cut_files == 2
    assert len(drop_old_tails(bench.files, bench.clock.now_ms())) == 2


def test_a_tail_that_a_full_disk_did_not_take_is_kept_at_the_next_try() -> None:
    """Under the same name, in full."""
    bench = slave()
    feed(bench, log_of(master(8)), 1 << 20)
    tail = log_of(bench)
    bench.files.make_directory(DIRECTORY)
    write_whole(bench.files, f"{DIRECTORY}/{0:020d}-{len(tail):020d}", tail[:100])
    bench.store.replica.cut(0)
    assert list(bench.content(DIRECTORY).values()) == [tail]


def test_another_tail_in_the_place_of_the_one_that_was_cut_off() -> None:
    """Queues and index are those of a store that never had the first tail."""
    one, other = master(8), master(8)
    shared = one.store.end_offset
    for bench, word in ((one, b"one"), (other, b"other")):
        for number in range(4):
            bench.send("t", number % 2, b"%b%d" % (word, number))
    bench = slave()
    feed(bench, log_of(one), 1 << 20)
    bench.store.replica.cut(shared)
    feed(bench, log_of(other)[shared:], 1 << 20)
    assert bench.store.query("t", "one2", 0, 1 << 60, 10) == []
    assert len(bench.store.query("t", "other2", 0, 1 << 60, 10)) == 1
    assert_same(bench, other)
    for each in (bench, other):
        each.store.close()
    assert bench.derived() == other.derived()


@pytest.mark.parametrize("then", ["go on", "reopen", "kill", "lose_power"])
def test_a_deletion_that_was_cut_off_takes_nothing_of_what_comes_there(then: str) -> None:
    """A master deletes a topic and dies; its slave, which has less, takes its place, and more messages of the topic."""
    one, other = master(8), master(8)
    shared = one.store.end_offset
    one.send("u", 0, b"more than the other ever has")
    one.store.deletions.delete("t")
    one.store.replica.open_for_master()
    one.store.replica.cut(shared)
    if then != "go on":
        getattr(one, then)()
        one.store.replica.open_for_master()
    other.send("t", 0, b"taken")
    feed(one, log_of(other)[shared:], 1 << 20)
    assert one.bodies("t", 0) == [b"taken"]


@pytest.mark.parametrize("then", ["go on", "reopen", "kill", "lose_power"])
def test_queues_of_a_topic_that_is_gone_go_with_its_last_message(then: str) -> None:
    """A slave has no more queues than its master and its log, however many topics there were."""
    original, bench, kept = StoreBench(), slave(), {"busy", "idle"}
    original.send("idle", 0, b"idle")
    for number in range(20):
        original.send(f"run{number}", 0, *(b"%02d%03d" % (number, each) for each in range(5)))
        original.send("busy", 0, b"busy%d" % number)
        follow(bench, original)
        bench.expire()
        bench.store.replica.remove_expired(kept.__contains__)
        gone = set(bench.store.queues.topics()) - kept
        assert len(gone) < 5
        assert all(original.bodies(topic, 0)[-1] in bench.bodies(topic, 0) for topic in gone)
    assert set(bench.files.listdir("consumequeue")) == gone | kept
    if then != "go on":
        getattr(bench, then)()
        bench.store.replica.open_for_master()
        assert set(bench.store.queues.topics()) == gone | kept
    assert bench.store.queues.bounds("idle", 0) == (1, 1), "the highest offset that it gave is not forgotten"
    original.send("run1", 0, b"it was there still")
    original.store.deletions.delete("run2")
    original.send("run2", 0, b"made anew")
    follow(bench, original)
    assert bench.numbered_bodies("run1", 0, 5) == [(5, b"it was there still")]
    assert bench.numbered_bodies("run2", 0, 0) == [(0, b"made anew")]


def test_what_fits_into_no_queue_is_told_once() -> None:
    """A master of another make may have it; it is kept in the log, as the master has it."""
    bench = slave()
    with capture_logs() as logs:
        for number in range(3):
            place = {"queue_offset": number, "physical_offset": bench.store.end_offset}
            record = bytes(encode_record(topic="../up", body=b"x", store_host=bytes(8), **place))
            assert bench.store.replica.append(record) == len(record)
    assert [entry["event"] for entry in logs if "no queue" in entry["event"]] == [
        "a message of the log is in no queue, there is none as it says"
    ]
    assert (bench.store.queues.topics(), bench.store.end_offset) == ([], 3 * len(record))


@pytest.mark.faults
def test_what_has_come_is_given_back_though_the_disk_refuses_queue_entries() -> None:
    """A slave drops from what waits what was taken, and takes the rest with what comes next."""
    original, bench = master(), slave()
    raw = original.store.replica.read(0, original.store.end_offset)
    waiting = bytearray()
    for at in range(0, len(raw), 100):
        waiting += raw[at : at + 100]
        begin = bench.store.end_offset
        bench.disk.fail_next("create" if at % 200 else "pwrite", OSError(errno.ENOSPC, "No space left on device"))
        with suppress(NotWritable), memoryview(waiting) as view:
            bench.store.replica.append(view)
        del waiting[: bench.store.end_offset - begin]
    bench.disk.heal()
    follow(bench, original)
    assert_same(bench, original)


@pytest.mark.faults
def test_nothing_is_cut_off_after_a_failed_fsync() -> None:
    """Nobody knows what of the log is on disk: the checkpoint does not say that all of it is (reliability, G6)."""
    bench = slave()
    feed(bench, log_of(master(3)), 1 << 20)
    before = bench.read_file("checkpoint")
    bench.disk.fail_next("fsync")
    with pytest.raises(OSError, match="planned"):
        bench.store.flush()
    with pytest.raises(NotWritable, match="fsync failed"):
        bench.store.replica.cut(0)
    assert bench.read_file("checkpoint") == before


@pytest.mark.faults
def test_a_cut_that_the_disk_refuses_ends_writing() -> None:
    """At whichever step: nothing follows a log that was cut by half, and what was to go is kept whole. The next start
    makes it good."""
    raw = log_of(master(5))
    for step in range(1, 200):
        bench = slave()
        feed(bench, raw, 1 << 20)
        bench.store.checkpoint()
        position = bench.store.replica.record_begin(len(raw) // 2)
        bench.disk.fail_at(step, OSError(errno.EIO, "refused"))
        try:
            bench.store.replica.cut(position)
        except OSError:
            if bench.store.is_writable:
                assert log_of(bench) == raw
            else:
                with pytest.raises(NotWritable):
                    bench.store.replica.append(raw)
                with pytest.raises(NotWritable):
                    bench.store.replica.cut(position)
                kept = bench.content(DIRECTORY).values()
                assert raw[position:] in kept or not kept
        else:
            break
        store = bench.kill()
        assert not store.damage
        if store.end_offset > position:
            store.replica.cut(position)
        assert log_of(bench) == raw[:position]
    else:
        raise AssertionError("the cut never came to its end")
    assert step > 5


def test_a_cut_that_dies_can_be_repeated() -> None:
    """Killed at any step of a cut, the store opens, with the tail or without it, and can be cut again."""
    original = master(5)
    raw = log_of(original)
    for step in range(1, 200):
        bench = slave()
        feed(bench, raw, 1 << 20)
        bench.store.checkpoint()
        position = bench.store.replica.record_begin(len(raw) // 2)
        bench.disk.stop_at(step)
        try:
            bench.store.replica.cut(position)
        except ProcessDied:
            bench.disk.heal()
            store = bench.kill()
            assert store.end_offset in (position, len(raw)) or store.end_offset % 1024 == 0
            assert not store.damage
            if store.end_offset > position:
                store.replica.cut(position)
            assert log_of(bench) == raw[:position]
        else:
            break
    else:
        raise AssertionError("the cut never came to its end")
    assert step > 5
