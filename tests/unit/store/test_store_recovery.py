"""Whatever happened to the last run, and to its files, the store opens with what was promised."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from structlog.testing import capture_logs

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import StoreError, StoreLocked
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.store.appending.single_tables import SingleTable
from rmqspark.store.appending.singles import Single
from rmqspark.store.appending.targets import Targets
from rmqspark.store.checkpoint import Checkpoint
from rmqspark.store.config import StoreConfig
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.store.draft import Draft, Run
from rmqspark.store.files import make_directories, write_whole
from rmqspark.store.message_store import MessageStore
from rmqspark.store.queues.consume_queue import ENTRY
from rmqspark.store.reading.reader import ReadStatus
from rmqspark.store.recovery.scan import Damage
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import EVERYTHING, SMALL, StoreBench

LOG = "commitlog/00000000000000000000"
CLEAN = StoreConfig(**{**SMALL.__dict__, "message_index_enable": False})


def filled(config: StoreConfig = SMALL, count: int = 24) -> StoreBench:
    """Messages in three queues, over several files of everything."""
    bench = StoreBench(config)
    for number in range(count):
        bench.clock.advance(ms=10)
        bench.send("t", number % 2, b"m%03d" % number)
        bench.send_bulk("u", 0, b"u%03d" % number, b"v%03d" % number)
    return bench


def all_bodies(bench: StoreBench) -> dict[tuple[str, int], list[bytes]]:
    return {
        (topic, queue_id): bench.bodies(topic, queue_id)
        for topic in bench.store.queues.topics()
        for queue_id in bench.store.queues.queue_ids(topic)
    }


def all_bounds(bench: StoreBench) -> dict[tuple[str, int], tuple[int, int]]:
    return {queue: bench.store.queues.bounds(*queue) for queue in all_bodies(bench)}


def take(bench: StoreBench, path: str, left: int | None = None) -> None:
    """A file is deleted, or cut to so many bytes."""
    if left is None:
        bench.files.unlink(path)
    else:
        with closing(bench.files.open(path)) as file:
            file.truncate(left)
            file.fsync()


def derived(bench: StoreBench) -> dict[str, bytes]:
    return {**bench.content("consumequeue"), **bench.content("index")}


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("what", ["consumequeue", "consumequeue/t/1", "index", "checkpoint", "everything"])
def test_derived_files_are_made_again(how: str, what: str) -> None:
    """Queues and index are rebuilt from the log to the very bytes they had, whichever of them is gone."""
    bench = filled()
    bench.reopen()
    before, messages = derived(bench), all_bodies(bench)
    if how == "closed":
        bench.store.close()
    else:
        bench.disk.kill()
    paths = ["consumequeue", "index", "checkpoint"] if what == "everything" else [what]
    for path in paths:
        for file in bench.content(path) if bench.files.is_directory(path) else [path]:
            bench.files.unlink(file)
    bench.open()
    assert all_bodies(bench) == messages
    assert bench.store.incarnation == 1
    assert bench.store.query("t", "m007", 0, 1 << 60, 9)
    bench.reopen()
    after = derived(bench)
    assert {path: data for path, data in after.items() if path.startswith("consumequeue")} == {
        path: data for path, data in before.items() if path.startswith("consumequeue")
    }
    assert sorted(data for path, data in after.items() if path.startswith("index")) == sorted(
        data for path, data in before.items() if path.startswith("index")
    )


@pytest.mark.parametrize("left", [None, 0, 40], ids=["missing", "empty", "cut"])
@pytest.mark.parametrize("file", range(12))
@pytest.mark.parametrize("hours", [12, 70, 80, 100, 124])
def test_a_file_of_a_queue_is_not_what_it_was(file: int, hours: int, left: int | None) -> None:
    """What the log still has is found again, and all goes on expiring."""
    bench = StoreBench()
    for number in range(60):
        bench.clock.advance(hours=1)
        for topic in "tu":
            bench.send(topic, 0, b"%b%03d" % (topic.encode(), number))
    messages = all_bodies(bench)
    bench.store.close()
    take(bench, f"consumequeue/t/0/{file * 100:020d}", left)
    bench.open()
    assert all_bodies(bench) == messages
    bench.clock.advance(hours=hours)
    bench.store.expire(bench.clock.now_ms())
    bench.reopen()
    lows = {topic: bench.store.queues.min_offset(topic, 0) for topic in "tu"}
    assert lows["t"] - lows["u"] in (0, 1)
    assert all_bodies(bench) == {queue: messages[queue][lows[queue[0]] :] for queue in messages}


@pytest.mark.faults
@pytest.mark.parametrize("left", [None, 40], ids=["missing", "cut"])
@pytest.mark.parametrize("file", [0, 2])
def test_a_queue_is_made_again_though_the_power_goes(file: int, left: int | None) -> None:
    """Wherever it does, and whatever it leaves of the files that were there."""
    for count in range(1, 200):
        bench = StoreBench(CLEAN)
        for number in range(20):
            bench.send("t", 0, b"m%03d" % number)
        bench.store.close()
        take(bench, f"consumequeue/t/0/{file * 100:020d}", left)
        bench.files.sync_directory("consumequeue/t/0")
        bench.disk.stop_at(count)
        try:
            bench.open()
        except ProcessDied:
            bench.lose_power(count)
            assert bench.bodies("t", 0) == [b"m%03d" % number for number in range(20)], count
        else:
            break
    assert count > 5


@pytest.mark.parametrize("left", [None, 0, 40], ids=["missing", "empty", "cut"])
@pytest.mark.parametrize("file", [0, 1, 4, 7, 10])
def test_a_file_is_missing_whose_messages_have_expired(file: int, left: int | None) -> None:
    """The queue begins behind it: none of its offsets is given a second time, also where it has no message left."""
    bench = StoreBench()
    for number in range(60):
        bench.send("t", 0, b"t%03d" % number)
    for number in range(9):
        bench.send("u", 0, b"u%03d" % number)
    bench.store.checkpoint()
    before = bench.content("consumequeue/t")
    bench.expire(hours=80)
    bench.store.close()
    for path, content in before.items():  # a crash came before they followed the log
        write_whole(bench.files, path, content)
    take(bench, f"consumequeue/t/0/{file * 100:020d}", left)
    bench.open()
    assert bench.store.queues.bounds("t", 0) == (60, 60)
    bench.send("t", 0, b"next")
    bench.reopen()
    assert bench.numbered_bodies("t", 0, 60) == [(60, b"next")]


@pytest.mark.parametrize("left", [None, 0, 40], ids=["missing", "empty", "cut"])
@pytest.mark.parametrize("file", [5, 6, 7])
@pytest.mark.parametrize("hours", [40, 45, 48, 52])
def test_a_file_is_missing_of_whose_messages_some_have_expired(file: int, hours: int, left: int | None) -> None:
    """Those that have not are found again, wherever in the file the log begins."""
    bench = StoreBench()
    for number in range(60):
        bench.clock.advance(hours=1)
        bench.send("t", 0, b"t%03d" % number)
        bench.send("u", 0, b"u%03d" % number)
    bench.store.checkpoint()
    before, messages = bench.content("consumequeue/t"), bench.bodies("t", 0)
    bench.clock.advance(hours=hours)
    bench.store.expire(bench.clock.now_ms())
    low = bench.store.queues.min_offset("t", 0)
    bench.store.close()
    for path, content in before.items():  # a crash came before they followed the log
        write_whole(bench.files, path, content)
    take(bench, f"consumequeue/t/0/{file * 100:020d}", left)
    bench.open()
    assert bench.store.queues.bounds("t", 0) == (low, 60)
    assert bench.bodies("t", 0) == messages[low:]


@pytest.mark.parametrize("how", ["reopen", "kill"])
@pytest.mark.parametrize("first", [SMALL, CLEAN], ids=["with an index", "without"])
def test_what_was_stored_without_an_index_is_in_the_next(first: StoreConfig, how: str) -> None:
    """A start that keeps one feeds it what came while none was kept, wherever the last one ended."""
    bench = StoreBench(first)
    for config in (first, CLEAN, SMALL, SMALL):
        bench.config = config
        getattr(bench, how)()
        number = bench.store.queues.max_offset("t", 0)
        bench.send("t", 0, b"m%03d" % number, b"m%03d" % (number + 1))
        bench.store.checkpoint()
    for number in range(bench.store.queues.max_offset("t", 0)):
        assert len(bench.store.query("t", f"m{number:03}", 0, 1 << 60, 9)) == 1, number


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("hours", [0, 80])
@pytest.mark.parametrize("file", range(5))
def test_a_file_of_the_index_is_missing(file: int, hours: int, how: str) -> None:
    """Whichever it is, it is made again from the log, to the same bytes; unless it leads to nothing that is there."""
    bench = StoreBench()
    for number in range(160):
        bench.clock.advance(ms=10)
        bench.send("t", 0, b"m%03d" % number)
        if number == 80:
            bench.clock.advance(hours=hours)
    bench.store.checkpoint()
    bench.store.checkpoint()
    bench.store.expire(bench.clock.now_ms())
    bench.reopen()
    before, first = bench.derived(), bench.store.queues.min_offset("t", 0)
    assert (first > 40) == (hours > 0)
    if how == "closed":
        bench.store.close()
    else:
        bench.disk.kill()
    names = sorted(bench.content("index"))
    bench.files.unlink(names[min(file, len(names) - 1)])
    bench.open()
    for number in range(first, 160):
        assert len(bench.store.query("t", f"m{number:03}", 0, 1 << 60, 9)) == 1, number
    bench.reopen()
    if not hours:
        assert bench.derived() == before


@pytest.mark.parametrize("garbage", [b"\xff" * 20, ENTRY.pack(1 << 50, 100, 0), ENTRY.pack(50, 100, 0), bytes(20)])
@pytest.mark.parametrize("entry", [0, 3, 11])
def test_a_queue_that_is_not_what_it_was(garbage: bytes, entry: int) -> None:
    """A queue entry overwritten behind our back never leads to bytes that are no message; the log puts it right."""
    bench = filled()
    messages = all_bodies(bench)
    bench.store.close()
    position = entry * 20
    bench.write_file(f"consumequeue/t/0/{position // 100 * 100:020d}", garbage, position % 100)
    bench.open()
    seen = all_bodies(bench)
    assert seen["t", 1] == messages["t", 1]
    assert set(seen["t", 0]) <= set(messages["t", 0])


@pytest.mark.faults
@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("entry", [3, 20, 29])
@pytest.mark.parametrize("byte", range(12))
def test_a_flipped_bit_of_a_queue_costs_one_message(byte: int, entry: int, how: str) -> None:
    """Of its place or its size: no offset is given twice, and all that comes behind is found again in the log."""
    for bit in (0, 3, 6):
        bench = StoreBench(CLEAN)
        for number in range(30):
            bench.send("t", 0, b"m%03d" % number)
        bench.store.checkpoint()
        bench.store.checkpoint()
        for number in range(30, 40):
            bench.send("t", 0, b"m%03d" % number)
        bench.store.flush()
        if how == "closed":
            bench.store.close()
        else:
            bench.disk.kill()
        bench.flip_bit(f"consumequeue/t/0/{entry // 5 * 100:020d}", entry % 5 * 20 + byte, bit)
        bench.open()
        bench.send("t", 0, b"m040")
        missing = {b"m%03d" % number for number in range(41)} - set(bench.bodies("t", 0))
        assert missing <= {b"m%03d" % entry}
        assert bench.store.queues.max_offset("t", 0) == 41


@pytest.mark.faults
@pytest.mark.parametrize("torn", range(1, 110, 7))
def test_a_torn_tail_is_cut(torn: int) -> None:
    """A record of which a kill left only the beginning is not there, and everything before it is."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"whole")
    bench.disk.stop_at(1, after_bytes=torn, counted=["pwrite"])
    with pytest.raises(ProcessDied):
        bench.send("t", 0, b"torn!")
    bench.kill()
    assert bench.bodies("t", 0) == [b"whole"]
    bench.send("t", 0, b"next!")
    bench.kill()
    assert bench.bodies("t", 0) == [b"whole", b"next!"]


@pytest.mark.faults
@pytest.mark.parametrize("properties", [b"", b"UNIQ_KEY\x01torn!\x02"])
@pytest.mark.parametrize("topic", ["t", "orders"])
def test_a_record_that_lost_its_end_is_not_believed(topic: str, properties: bytes) -> None:
    """Whatever a power loss leaves of the last record, its topic is not taken for another: the checksum covers the
    body, not what stands behind it."""
    bench = StoreBench(CLEAN)
    bench.send(topic, 0, b"kept.")
    bench.store.flush()
    begin = bench.store.end_offset
    record = encode_record(topic=topic, body=b"torn!", properties=properties)
    bench.store.append([Draft(topic, 0, record, 0, ())])
    whole = bench.content("commitlog")[LOG][begin : bench.store.end_offset]
    for left in range(len(whole.rstrip(b"\x00"))):
        bench.write_file(LOG, whole[:left].ljust(len(whole), b"\x00"), begin)
        bench.disk.crash(None)
        bench.open()
        assert (bench.store.queues.topics(), bench.bodies(topic, 0)) == ([topic], [b"kept."]), left
        assert bench.store.end_offset == begin


@pytest.mark.faults
def test_discarded_records_do_not_come_back() -> None:
    """RocketMQ #10666: what a power loss cut off stays gone, though new records end where old ones began (G3)."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"kept.")
    bench.store.flush()
    size = bench.store.end_offset
    bench.send("t", 0, b"lost1", b"lost2", b"lost3")
    # The power loss takes lost1's first bytes and leaves the others: its magic is gone, theirs are not.
    for file in bench.content("commitlog"):
        bench.write_file(file, bytes(8), size)
    bench.disk.crash(None)
    bench.open()
    assert bench.bodies("t", 0) == [b"kept."]
    assert not any(bench.content("commitlog")[LOG][size:])
    bench.send("t", 0, b"new1.")
    bench.kill()
    assert bench.bodies("t", 0) == [b"kept.", b"new1."]


@pytest.mark.faults
@pytest.mark.parametrize("at", [0, 3, 4, 8, 28, 35, 84, 88, 92])
@pytest.mark.parametrize("number", [0, 5, 11])
@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_flipped_bit_costs_one_message(at: int, number: int, rebuilt: bool) -> None:
    """Damage below the watermark is stepped over and reported: what follows is still served, in its place (G4)."""
    bench = StoreBench(CLEAN)
    bodies = [b"m%03d" % n for n in range(20)]
    for body in bodies:
        bench.send("t", 0, body)
    bench.store.flush()
    size = 88 + 4 + 2 + 2 + 14
    place = number // 9 * 1024 + number % 9 * size  # nine fit into a file of 1024
    assert bench.bodies("t", 0)[number] == bodies[number]
    bench.disk.kill()
    bench.flip_bit(f"commitlog/{place // 1024 * 1024:020d}", place % 1024 + at)
    if rebuilt:
        for path in bench.content("consumequeue"):
            bench.files.unlink(path)
    bench.open()
    expected = [(n, body) for n, body in enumerate(bodies) if n != number]
    if rebuilt and number == 0:  # nobody knows any more that the queue began before
        assert bench.store.queues.min_offset("t", 0) == 1
    assert bench.numbered_bodies("t", 0, bench.store.queues.min_offset("t", 0)) == expected
    assert [tuple(damage) for damage in bench.store.damage] == [(place, place + size)]
    bench.reopen()
    assert bench.numbered_bodies("t", 0, bench.store.queues.min_offset("t", 0)) == expected
    result = bench.store.read("t", 0, number, max_count=1, max_bytes=EVERYTHING)
    assert result.status in (ReadStatus.FOUND, ReadStatus.OFFSET_TOO_SMALL)


@pytest.mark.faults
def test_a_damaged_blank_record_costs_nothing() -> None:
    """A file whose closing mark is damaged ends there; the next file is read as before."""
    bench = StoreBench(CLEAN)
    for n in range(20):
        bench.send("t", 0, b"m%03d" % n)
    bench.store.flush()
    bench.disk.kill()
    bench.flip_bit(LOG, 9 * 110 + 5)
    bench.open()
    assert len(bench.bodies("t", 0)) == 20
    assert [tuple(damage) for damage in bench.store.damage] == [(990, 1024)]


@pytest.mark.parametrize(
    ("mode", "how", "raised"),
    [
        ("ASYNC_FLUSH", "kill", False),  # the page cache stays
        ("ASYNC_FLUSH", "power", True),  # something that was read may be gone
        ("ASYNC_FLUSH", "close", False),
        ("SYNC_FLUSH", "power", False),  # nothing was readable that was not on disk
        ("SYNC_FLUSH", "kill", False),
    ],
)
def test_incarnation(mode: str, how: str, raised: bool) -> None:
    """The incarnation is raised exactly where messages that were read may be gone (G5)."""
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "flush_disk_type": mode}))
    bench.send("t", 0, b"m")
    before = bench.store.incarnation
    {"kill": bench.kill, "power": bench.lose_power, "close": bench.reopen}[how]()
    assert (bench.store.incarnation > before) == raised
    if how != "power":
        assert bench.bodies("t", 0) == [b"m"]


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("file", [1, 2, 3, 4])
def test_a_file_of_the_log_is_missing(file: int, how: str) -> None:
    """Its messages are lost, and said to be. All others are served, wherever a reader comes to the gap; one stood
    before it for ever."""
    bench = StoreBench()
    for number in range(40):
        bench.send("t", 0, b"m%03d" % number)
    bench.store.checkpoint()
    bench.store.checkpoint()
    first, end = file * 1024, min((file + 1) * 1024, bench.store.end_offset)
    physical_offsets = bench.store.queues.entries("t", 0, 0, 40)["physical_offset"]
    lost = set(np.flatnonzero((physical_offsets >= first) & (physical_offsets < end)).tolist())
    if how == "closed":
        bench.store.close()
    else:
        bench.disk.kill()
    bench.files.unlink(f"commitlog/{first:020d}")
    for _ in range(2):  # it is told each time, and readers have lost what they had once
        bench.open()
        assert (bench.store.damage, bench.store.incarnation) == ((Damage(first, end),), 2)
        bench.store.close()
    bench.open()
    bench.send("t", 0, b"new")
    expected = [(number, b"m%03d" % number) for number in range(40) if number not in lost] + [(40, b"new")]
    for offset in (0, min(lost), max(lost)):
        assert bench.numbered_bodies("t", 0, offset) == [each for each in expected if each[0] >= offset]


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("left", [0, 300, 400])
@pytest.mark.parametrize("file", [0, 1, 4])
def test_a_file_of_the_log_lost_its_end(file: int, left: int, how: str) -> None:
    """So did its messages, which is told: no queue leads to them any more, and the others are served."""
    bench = StoreBench()
    for number in range(40):
        bench.send("t", 0, b"m%03d" % number)
    bench.store.checkpoint()
    bench.store.checkpoint()
    start, end = file * 1024, min((file + 1) * 1024, bench.store.end_offset)
    entries = bench.store.queues.entries("t", 0, 0, 40)
    ends = entries["physical_offset"] + entries["size"]
    lost = set(np.flatnonzero((ends > start + left) & (entries["physical_offset"] < end)).tolist())
    damage = Damage(int(entries["physical_offset"][min(lost)]), end)
    if how == "closed":
        bench.store.close()
    else:
        bench.disk.kill()
    take(bench, f"commitlog/{start:020d}", left)
    bench.open()
    assert (bench.store.damage, bench.store.incarnation) == ((damage,), 2)
    expected = [(number, b"m%03d" % number) for number in range(40) if number not in lost]
    for _ in range(2):
        assert bench.numbered_bodies("t", 0, bench.store.queues.min_offset("t", 0)) == expected
        bench.reopen()
    assert (bench.store.damage, bench.store.incarnation) == ((), 2)


@pytest.mark.parametrize("gone", [["checkpoint"], ["checkpoint", "abort"], ["checkpoint", "abort", "consumequeue/t/0"]])
def test_a_kill_of_which_nothing_says_how_far_the_queues_are(gone: list[str]) -> None:
    """All of the log is gone through: entries of messages in its older files may have waited in memory."""
    bench = StoreBench(StoreConfig(**{**CLEAN.__dict__, "mapped_file_size_consume_queue": 2000}))
    bench.send("t", 0, b"t")
    bench.store.checkpoint()
    bench.send("t", 0, *[b"t%03d" % number for number in range(6)])
    bench.send_bulk("u", 0, *[b"u%03d" % number for number in range(100)])
    messages = all_bodies(bench)
    bench.disk.kill()
    for path in gone:
        for file in bench.content(path) if bench.files.is_directory(path) else [path]:
            bench.files.unlink(file)
    bench.open()
    assert all_bodies(bench) == messages
    assert bench.store.incarnation == 1


def test_a_store_is_closed_in_order_though_its_abort_was_deleted() -> None:
    bench = StoreBench()
    bench.send("t", 0, b"kept")
    bench.files.unlink("abort")
    bench.store.close()
    bench.open()
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"kept")]


def test_a_crash_of_which_the_word_was_deleted() -> None:
    """Without `abort` the store passes for a closed one. What is behind the watermark says that it is none: nothing
    that was discarded comes back, and readers are told that some is gone, wherever the recovery dies."""
    for count in range(1, 100):
        bench = StoreBench(CLEAN)
        bench.send("t", 0, b"kept.")
        bench.store.checkpoint()
        end = bench.store.end_offset
        bench.send("t", 0, b"lost1", b"lost2", b"lost3")
        bench.write_file(LOG, bytes(8), end)
        bench.disk.crash(None)
        bench.files.unlink("abort")
        bench.files.sync_directory("")
        bench.disk.stop_at(count)
        try:
            bench.open()
        except ProcessDied:
            bench.kill()
            assert bench.store.incarnation > 1
            bench.send("t", 0, b"new1.")
            bench.kill()
            assert bench.bodies("t", 0) == [b"kept.", b"new1."]
        else:
            break
    assert count > 5
    assert (bench.bodies("t", 0), bench.store.incarnation) == ([b"kept."], 2)


def test_a_full_disk_is_no_crash() -> None:
    """An empty file that it leaves behind the end of the log says nothing of a store that was closed."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"kept.")
    bench.store.close()
    with closing(bench.files.open("commitlog/00000000000000001024", create=True)) as file:
        file.truncate(1024)
    bench.open()
    assert (bench.bodies("t", 0), bench.store.incarnation) == ([b"kept."], 1)


def test_queue_entries_beyond_the_log_are_word_of_lost_messages() -> None:
    """Where queues know more than the log, readers knew it too: the entries go, the incarnation is raised."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"kept.")
    bench.store.checkpoint()
    end = bench.store.end_offset
    bench.send("t", 0, *[b"gone%d" % number for number in range(6)])
    before = bench.store.incarnation
    bench.disk.kill()
    bench.write_file(LOG, bytes(1024 - end), end)
    bench.open()
    assert bench.store.incarnation == before + 1
    assert bench.bodies("t", 0) == [b"kept."]
    bench.send("t", 0, b"new..")
    assert bench.bodies("t", 0) == [b"kept.", b"new.."]


@pytest.mark.faults
def test_entries_of_lost_messages_do_not_come_back() -> None:
    """A power loss leaves a queue entry without its message, and the recovery that clears it may die anywhere. After
    the next one, and another power loss, the entry would be word of the message that lies there by then."""
    for count in range(1, 100):
        bench = StoreBench(CLEAN)
        bench.send("t", 0, b"kept.")
        bench.store.checkpoint()
        bench.send("t", 1, b"gone.")
        bench.files.open("consumequeue/t/1/00000000000000000000").fsync()  # as a flush that is under way may have
        bench.files.sync_directory("consumequeue/t/1")
        bench.files.sync_directory("consumequeue/t")
        bench.disk.crash(None)
        bench.disk.stop_at(count)
        try:
            bench.open()
        except ProcessDied:
            bench.kill()
            bench.send("t", 0, b"next.")
            bench.kill()
            bench.lose_power()
            assert bench.bodies("t", 0) == [b"kept.", b"next."]
            assert bench.store.queues.max_offset("t", 1) == 0
        else:
            break
    assert count > 5


@pytest.mark.parametrize("gone", [["commitlog"], ["commitlog", "consumequeue"]])
def test_a_log_that_is_gone_takes_its_queues_with_it(gone: list[str]) -> None:
    """Without log files every queue is removed, as RocketMQ does; the store starts anew in a new incarnation."""
    bench = filled(CLEAN)
    before = bench.store.incarnation
    bench.store.close()
    for path in [path for directory in gone for path in bench.content(directory)]:
        bench.files.unlink(path)
    bench.open()
    assert (bench.store.queues.topics(), bench.store.end_offset) == ([], 0)
    assert bench.store.incarnation == before + 1
    bench.send("t", 0, b"new")
    bench.kill()
    assert bench.bodies("t", 0) == [b"new"]


@pytest.mark.parametrize("have_expired", [True, False])
@pytest.mark.parametrize("normal_exit", [True, False])
def test_a_store_that_rocketmq_wrote_last(normal_exit: bool, have_expired: bool) -> None:
    """Without our seal RocketMQ's rules find where to begin; nothing is missing and nothing twice, and queues have the
    bounds that they had."""
    bench = filled(CLEAN)
    if have_expired:
        bench.store.checkpoint()
        bench.clock.advance(hours=80)
        bench.send("t", 0, b"new")
        bench.store.expire(bench.clock.now_ms())
    messages, bounds = all_bodies(bench), all_bounds(bench)
    bench.store.close()
    times = Checkpoint.decode(bench.read_file("checkpoint"))
    foreign = Checkpoint(times.log_timestamp_ms, times.queues_timestamp_ms).encode()[:40]
    bench.write_file("checkpoint", foreign.ljust(4096, b"\0"))
    if not normal_exit:
        bench.write_abort(b"4711")
    bench.open()
    assert (all_bodies(bench), all_bounds(bench)) == (messages, bounds)
    assert bench.store.damage == ()


@pytest.mark.parametrize("normal_exit", [True, False])
def test_a_store_of_rocketmqs_that_has_no_queues(normal_exit: bool) -> None:
    """They were deleted to be made again: all there is comes from the log."""
    bench = StoreBench(CLEAN)
    for number in range(24):
        bench.clock.advance(hours=1)
        bench.send("t", 0, b"m%03d" % number)
    messages = all_bodies(bench)
    bench.store.close()
    times = Checkpoint.decode(bench.read_file("checkpoint"))
    foreign = Checkpoint(times.log_timestamp_ms, times.queues_timestamp_ms).encode()[:40]
    bench.write_file("checkpoint", foreign.ljust(4096, b"\0"))
    for path in bench.content("consumequeue"):
        bench.files.unlink(path)
    if not normal_exit:
        bench.write_abort(b"4711")
    bench.open()
    assert all_bodies(bench) == messages


@pytest.mark.parametrize("is_head", [True, False])
@pytest.mark.parametrize(("has_queues", "normal_exit"), [(False, True), (False, False), (True, True)])
def test_damage_in_an_old_file_of_rocketmqs_costs_nothing_behind_it(
    has_queues: bool, normal_exit: bool, is_head: bool
) -> None:
    """All files but its newest were finished once: what cannot be believed there is no end of the log. Where queues
    have it all, only the newest is gone through."""
    bench = StoreBench(CLEAN)
    for number in range(24):
        bench.clock.advance(hours=1)
        bench.send("t", 0, b"m%03d" % number)
    end, bodies = bench.store.end_offset, bench.bodies("t", 0)
    bench.store.close()
    times = Checkpoint.decode(bench.read_file("checkpoint"))
    foreign = Checkpoint(times.log_timestamp_ms, times.queues_timestamp_ms).encode()[:40]
    bench.write_file("checkpoint", foreign.ljust(4096, b"\0"))
    for path in () if has_queues else bench.content("consumequeue"):
        bench.files.unlink(path)
    if not normal_exit:
        bench.write_abort(b"4711")
    oldest, second, *_ = sorted(bench.content("commitlog"))
    if is_head:  # says that its first record is longer than it is itself
        bench.flip_bit(second, 0, 6)
    else:
        bench.flip_bit(oldest, bench.read_file(oldest).index(b"m001"))
    bench.open()
    assert bench.store.end_offset == end
    assert len(bench.store.damage) == (0 if has_queues else 1)
    assert bench.bodies("t", 0, 20) == bodies[20:]


def test_a_queue_that_starts_in_the_middle() -> None:
    """A queue whose first messages left the log with their files begins where the log does, blank entries before."""
    bench = StoreBench(CLEAN)
    for n in range(30):
        bench.send("t", 0, b"m%03d" % n)
    bench.expire()
    first = bench.store.queues.min_offset("t", 0)
    assert first % 5
    kept = bench.bodies("t", 0)
    bench.store.close()
    for path in bench.content("consumequeue"):
        bench.files.unlink(path)
    bench.open()
    assert (bench.store.queues.min_offset("t", 0), bench.bodies("t", 0)) == (first, kept)
    file = bench.content("consumequeue")[f"consumequeue/t/0/{first // 5 * 100:020d}"]
    assert file.startswith(bytes.fromhex("00000000000000007fffffff0000000000000000") * (first % 5))


def test_a_queue_whose_messages_all_expired_keeps_its_offset() -> None:
    """The highest offset ever given is not forgotten: an empty old queue begins and ends there."""
    bench = StoreBench(CLEAN)
    bench.send("old", 0, b"a", b"b", b"c")
    for n in range(30):
        bench.send("t", 0, b"m%03d" % n)
    bench.expire()
    for _ in range(2):
        assert bench.store.queues.bounds("old", 0) == (3, 3)
        bench.kill()
    bench.send("old", 0, b"d")
    assert bench.numbered_bodies("old", 0, 3) == [(3, b"d")]


@pytest.mark.parametrize(
    ("topic", "is_believed"),
    [
        ("../../etc", True),
        ("a/b", True),
        (".", True),
        ("x" * 200, True),
        ("nu\0l", True),
        ("", False),
        ("nul\0", False),
    ],
)
def test_names_found_in_a_log_make_no_paths(topic: str, is_believed: bool) -> None:
    """A log with a record of a topic that cannot exist is opened; the record is in no queue, nothing is outside. A name
    that is not there, or lacks its end, says that the record is torn."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"good")
    end = bench.store.end_offset
    bench.disk.kill()
    hostile = encode_record(topic=topic, body=b"evil", physical_offset=end)
    bench.write_file(LOG, bytes(hostile), end)
    before = bench.disk.listdir("")
    bench.open()
    assert bench.store.queues.topics() == ["t"]
    assert bench.store.end_offset == end + (len(hostile) if is_believed else 0)
    assert bench.disk.listdir("") == before


@pytest.mark.parametrize(("queue_id", "queue_offset"), [(-1, 0), (0, -5), (0, 1 << 40), (0, 1 << 62), (0, 7)])
def test_impossible_queues_and_offsets_in_a_log(queue_id: int, queue_offset: int) -> None:
    """A record that claims an impossible place in a queue costs neither room nor the messages after it, and is told."""
    bench = StoreBench(CLEAN)
    bench.send("t", 0, b"good")
    end = bench.store.end_offset
    bench.disk.kill()
    hostile = encode_record(topic="t", body=b"evil", queue_id=queue_id, queue_offset=queue_offset, physical_offset=end)
    bench.write_file(LOG, bytes(hostile), end)
    with capture_logs() as told:
        bench.open()
    assert [entry["count"] for entry in told if "in no queue" in entry["event"]] == [1]
    assert bench.bodies("t", 0) == [b"good"]
    bench.send("t", 0, b"next")
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"good"), (1, b"next")]


def test_only_one_process_has_a_store() -> None:
    """A store that is open cannot be opened again; when it is closed it can."""
    bench = StoreBench()
    with pytest.raises(StoreLocked):
        MessageStore.open("store", SMALL, files=bench.disk, clock=bench.clock, entropy=SystemEntropy(1))
    bench.reopen()


def test_a_store_made_with_other_file_sizes_says_so() -> None:
    """A configured file size that does not fit the files is an error that names the setting."""
    bench = filled(CLEAN)
    bench.store.close()
    bench.config = StoreConfig(**{**CLEAN.__dict__, "mapped_file_size_commit_log": 512})
    with pytest.raises(StoreError, match="mapped_file_size"):
        bench.open()


@pytest.mark.parametrize("setting", ["mapped_file_size_commit_log", "mapped_file_size_consume_queue"])
def test_a_store_made_with_smaller_files_stays_as_it_is(setting: str) -> None:
    """Once the setting is put right it opens. The first file was lengthened before the next one said what is wrong: it
    did not fit either setting then, nor RocketMQ's."""
    bench = filled(CLEAN)
    messages = all_bodies(bench)
    bench.store.close()
    before = {**bench.content("commitlog"), **bench.content("consumequeue")}
    bench.config = StoreConfig(**{**CLEAN.__dict__, setting: 2 * getattr(CLEAN, setting)})
    with pytest.raises(StoreError, match="mapped_file_size"):
        bench.open()
    assert {**bench.content("commitlog"), **bench.content("consumequeue")} == before
    bench.config = CLEAN
    bench.open()
    assert all_bodies(bench) == messages


def test_a_store_whose_log_is_dledgers_is_left_alone() -> None:
    """Without that log its queues would go, with which RocketMQ reads on."""
    bench = filled(CLEAN)
    bench.store.close()
    for path in bench.content("commitlog"):
        bench.files.unlink(path)
    make_directories(bench.files, "dledger-n0/data")
    before = bench.content("consumequeue")
    with pytest.raises(StoreError, match="dledger-n0"):
        bench.open()
    assert bench.content("consumequeue") == before


@pytest.mark.parametrize("table", ["topics", "subscriptionGroups", "consumerOffsets", "metadata", "rdb"])
def test_a_store_whose_tables_are_in_rocksdb_is_left_alone(table: str) -> None:
    """Groups would begin anew, or where files that RocketMQ writes no more say. Moved away, it opens."""
    bench = filled(CLEAN)
    messages = all_bodies(bench)
    bench.store.close()
    make_directories(bench.files, f"config/{table}")
    write_whole(bench.files, f"config/{table}/CURRENT", b"MANIFEST-000005\n")
    with pytest.raises(StoreError, match=f"config/{table}/.*rocksDBConfigToJson"):
        bench.open()
    bench.files.rename(f"config/{table}", f"{table}-before")
    bench.open()
    assert all_bodies(bench) == messages


def test_deleted_topics_are_gone() -> None:
    """A deleted topic has no queues, not after a restart either; when it is made again it starts at offset 0."""
    bench = filled(CLEAN)
    bench.store.deletions.delete("t")
    bench.store.checkpoint()
    for reopen in (bench.kill, bench.reopen):
        assert bench.store.queues.topics() == ["u"]
        assert bench.store.queues.max_offset("t", 0) == 0
        reopen()
    bench.send("t", 0, b"again")
    bench.kill()
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"again")]


def test_a_topic_made_again_is_rebuilt_as_it_is_now() -> None:
    """From a log that has messages of a topic from before and after its deletion, only the later ones are rebuilt."""
    bench = filled(CLEAN)
    bench.store.deletions.delete("t")
    for n in range(7):
        bench.send("t", 0, b"new%d" % n)
    bench.store.checkpoint()
    before = bench.content("consumequeue")
    bench.store.close()
    for path in before:
        bench.files.unlink(path)
    bench.open()
    assert bench.numbered_bodies("t", 0, 0) == [(n, b"new%d" % n) for n in range(7)]
    after = bench.content("consumequeue")
    assert {path: after[path] for path in before} == before


@pytest.mark.faults
def test_a_crash_inside_recovery_is_harmless() -> None:
    """Recovery may die at any of its operations, by kill or power loss: the next one ends the same."""
    for count in range(1, 400):
        bench = filled(CLEAN, count=8)
        messages = all_bodies(bench)
        bench.store.flush()
        bench.disk.kill()
        bench.disk.stop_at(count)
        try:
            bench.open()
        except ProcessDied:
            _ = bench.lose_power(count) if count % 2 else bench.kill()
            assert all_bodies(bench) == messages
        else:
            break
    assert count > 5


ZEROS = {
    "at the end": b"k\x01v\x00",
    "from the beginning": bytes(1100) + b"\x01v\x02",
    "in a value": b"k\x01" + bytes(1100) + b"v\x02",
}
ROOMY = StoreConfig(**{**SMALL.__dict__, "mapped_file_size_commit_log": 1 << 16})


def send_with(bench: StoreBench, way: str, *all_properties: bytes) -> None:
    """A message for each of these, by one of the ways in which they come."""
    count, writer = len(all_properties), bench.store.writer
    records = [encode_record(topic="t", body=b"zeros", properties=properties) for properties in all_properties]
    sizes = np.array([len(record) for record in records])
    batch = RecordBatch.from_sizes(bytearray().join(records), sizes)
    if way == "drafts":
        bench.store.append([Draft("t", 0, record) for record in records])
    elif way == "singles":
        alike = (0, (), 0, 0, bytes(8), 0)
        writer.append_singles([Single("t", 0, b"zeros", properties, *alike) for properties in all_properties])
    elif way == "table":
        targets = Targets()
        target_of = np.full(count, targets.number_of("t", 0))
        writer.append_table(SingleTable(targets, target_of, batch.buffer, sizes, 0, []))
    elif way == "bulk":
        bench.store.append_bulk("t", 0, batch)
    elif way == "runs":
        writer.append_runs([Run("t", 0, count)], batch)
    else:
        bench.commit("t", 0, batch, 0)


@pytest.mark.faults
@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("way", ["drafts", "singles", "table", "bulk", "runs", "committed"])
def test_messages_with_zeros_in_their_properties_are_not_taken_for_torn(way: str, zeros: str) -> None:
    """Nor do those behind them go: after a kill all that was answered is there, after a power loss all that was
    flushed, and who looks without a broker sees the same."""
    for end in (StoreBench.kill, StoreBench.lose_power):
        bench = StoreBench(ROOMY)
        for _ in range(2):
            send_with(bench, way, *[ZEROS[zeros]] * 3)
            bench.store.append([Draft("t", 0, encode_record(topic="t", body=b"next.", properties=b"k\x01v\x02"))])
        send_with(bench, way, ZEROS[zeros])
        bench.store.flush()
        (bench.disk.kill if end is StoreBench.kill else bench.disk.crash)()
        with OfflineStore(bench.files, is_open=False) as store:
            assert store.end(("t", 0)) == 9
        end(bench)
        assert bench.store.queues.max_offset("t", 0) == 9
        assert bench.store.incarnation == 1 + (end is StoreBench.lose_power)
        assert bench.store.queues.topics() == ["t"]


@pytest.mark.faults
def test_rows_with_zeros_in_their_keys_are_not_taken_for_torn() -> None:
    """Their records are made here."""
    bench = StoreBench(ROOMY)
    bodies, keys = Column.constant(b"zeros", 3), Column.constant(b"k" + bytes(1100) + b"k", 3)
    rows = BulkRows(
        5,
        bytes(8),
        0,
        IdRange("7F0000011F9018B4AAC2", 1),
        body_crcs(bodies.values, bodies.spans()),
        bodies,
        RowProperties.of(3, keys=keys),
    )
    bench.store.writer.append_rows("t", 0, rows)
    bench.kill()
    assert bench.store.queues.max_offset("t", 0) == 3


@pytest.mark.faults
@pytest.mark.parametrize("zeros", ZEROS)
def test_a_message_with_zeros_that_lost_its_end_is_not_believed(zeros: str) -> None:
    """What vouches for it knows its properties, not that there are some."""
    bench = StoreBench(ROOMY)
    bench.send("t", 0, b"kept.")
    bench.store.flush()
    begin = bench.store.end_offset
    send_with(bench, "drafts", ZEROS[zeros])
    whole = bench.content("commitlog")[LOG][begin : bench.store.end_offset].rstrip(b"\x00")
    for left in range(0, len(whole), 7):
        bench.write_file(LOG, whole[:left].ljust(len(whole), b"\x00"), begin)
        bench.disk.crash(None)
        bench.open()
        assert (bench.store.queues.topics(), bench.bodies("t", 0)) == (["t"], [b"kept."]), left


@pytest.mark.faults
def test_a_message_outlives_the_file_that_its_voucher_is_in() -> None:
    """Where it begins the next file, the one before it may expire as soon as it is flushed itself."""
    bench, begins_a_file = StoreBench(), False
    for number in range(24):
        bench.send("t", 0, b"%02d".ljust(3 + 7 * number, b".") % number + b"!")
        bench.store.checkpoint()
        bench.clock.advance(hours=73)
        expired = bench.store.expire(bench.clock.now_ms()).deleted
        physical_offset, _ = bench.store.queues.locate("t", 0, number) or pytest.fail("it was not stored")
        begins_a_file |= bool(expired) and physical_offset == bench.store.min_physical_offset
        bench.lose_power()
        assert bench.store.queues.max_offset("t", 0) == number + 1
    assert begins_a_file


@pytest.mark.faults
@pytest.mark.parametrize("zeros", ZEROS)
def test_in_a_store_of_rocketmq_what_follows_is_proof(zeros: str) -> None:
    """It vouches for nothing, and believes such records itself."""
    bench = StoreBench(ROOMY)
    bench.send("t", 0, b"first")
    end = bench.store.end_offset
    bench.disk.kill()
    for number, properties in enumerate((ZEROS[zeros], b"k\x01v\x02", ZEROS[zeros]), 1):
        fields = {"queue_offset": number, "physical_offset": end, "store_timestamp_ms": 1}
        record = encode_record(topic="t", body=b"stock", properties=properties, **fields)
        bench.write_file(LOG, bytes(record), end)
        end += len(record)
    bench.write_file("checkpoint", bytes(4096))
    bench.write_abort(b"4711")
    with OfflineStore(bench.files, is_open=False) as store:
        assert store.end(("t", 0)) == 3
    bench.open()
    assert bench.store.queues.max_offset("t", 0) == 3
