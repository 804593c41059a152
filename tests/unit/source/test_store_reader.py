"""Batch reads of store directories: which queues, which ranges, and what tasks read of them, without Spark."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from rmqspark import spark_worker
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import DataLoss, InvalidArgument, StoreError, TopicNotFound
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.source import store_reader
from rmqspark.source.options import SourceOptions
from rmqspark.source.planning import dealing
from rmqspark.source.store_reader import RmqStoreReader, StorePartition
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql.datasource import InputPartition

CONFIG = StoreConfig(
    mapped_file_size_commit_log=2048, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=40,
    min_free_bytes=1,
)  # fmt: skip
SCHEMA = StructType([
    StructField("brokerName", StringType()), StructField("topic", StringType()), StructField("queueId", IntegerType()),
    StructField("queueOffset", LongType()), StructField("body", BinaryType()),
])  # fmt: skip
START_MS = 1_700_000_000_000
ORDERS, BILLS = 40, 10


def make_store(directory: Path, *topics: str) -> MessageStore:
    """A store with orders in two queues, a message a second, and one message of each of `topics`; it is open."""
    clock = ManualClock(now_ms=START_MS)
    store = open_store(directory, clock)
    for number in range(ORDERS):
        store.append([draft("orders", number % 2, f"{directory.name}-{number}", "even" if number % 2 == 0 else "odd")])
        clock.advance(ms=1000)
    for topic in topics:
        store.append([draft(topic, 0, topic)])
    return store


def open_store(directory: Path, clock: ManualClock) -> MessageStore:
    return MessageStore.open(
        directory, CONFIG, files=PosixFileSystem(), clock=clock, entropy=SystemEntropy(), store_host=bytes(8)
    )


def draft(topic: str, queue_id: int, body: str, tags: str = "") -> Draft:
    properties = encode_properties({"TAGS": tags} if tags else {})
    record = encode_record(topic=topic, queue_id=queue_id, body=body.encode(), properties=properties)
    return Draft(topic, queue_id, record, tags_code(tags or None), ())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two closed stores, as `rmq up --brokers 2` leaves them."""
    for name in ("broker-a", "broker-b"):
        make_store(tmp_path / name, "bills", "%RETRY%g", "TBW102").close()
    return tmp_path


def reader(store: Path, **given: str) -> RmqStoreReader:
    given = {name.replace("__", "."): value for name, value in given.items()}
    return RmqStoreReader(SourceOptions.parse({"store": str(store), **given}, streaming=False), SCHEMA)


def read(store: Path, **given: str) -> list[tuple[Any, ...]]:
    chosen = reader(store, **given)
    rows = [
        tuple(row.values())
        for partition in chosen.partitions()
        for batch in chosen.read(partition)
        for row in batch.to_pylist()
    ]
    assert len(set(rows)) == len(rows)
    return sorted(rows)


def orders(store: str, numbers: range = range(ORDERS)) -> list[tuple[Any, ...]]:
    return sorted((store, "orders", n % 2, n // 2, f"{store}-{n}".encode()) for n in numbers)


def test_a_folder_of_stores(folder: Path) -> None:
    """All ordinary topics of all of them; brokerName is the name of the directory."""
    bills = [(name, "bills", 0, 0, b"bills") for name in ("broker-a", "broker-b")]
    assert read(folder) == sorted(orders("broker-a") + orders("broker-b") + bills)
    assert read(folder / "broker-b", subscribe="bills") == bills[1:]
    assert read(folder, subscribe="%RETRY%g")[0][1] == "%RETRY%g"


def test_a_directory_that_may_not_be_looked_into() -> None:
    """It may be a store: that it is not read is said, not passed over. A file system's own is none."""
    with as_nobody(), TemporaryDirectory() as parent:
        folder = Path(parent)
        for name in ("broker-a", "broker-b"):
            make_store(folder / name).close()
        (folder / "lost+found").mkdir(mode=0)
        assert {row[0] for row in read(folder)} == {"broker-a", "broker-b"}
        (folder / "broker-b").chmod(0)
        for path in (folder, folder / "broker-b"):
            with pytest.raises(StoreError, match="cannot be read: .*Permission denied: '.*broker-b/commitlog'"):
                read(path)
        assert {row[0] for row in read(folder / "broker-a")} == {"broker-a"}
        (folder / "broker-b").chmod(0o700)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, who may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_topic_with_a_percent_sign_is_as_any_other(tmp_path: Path) -> None:
    """RocketMQ allows it in names, at their beginning, too; only a group's own prefixes mean something."""
    store = tmp_path / "broker-a"
    make_store(store, "%off", "%DLQ%g").close()
    off = [("broker-a", "%off", 0, 0, b"%off")]
    assert read(store) == off + orders("broker-a")
    assert read(store, subscribePattern=".*off") == off


def test_ranges_by_queue_offset_time_and_tag(folder: Path) -> None:
    """What assign, startingOffsets, endingOffsets and times say holds as with a broker."""
    store = folder / "broker-a"
    assigned = json.dumps({"orders": {"broker-a": [1]}})
    assert read(store, assign=assigned) == [row for row in orders("broker-a") if row[2] == 1]
    ends = json.dumps({"orders": {"broker-a": {"0": 3, "1": -1}}})
    starts = json.dumps({"orders": {"broker-a": {"0": 1, "1": 18}}})
    found = read(store, subscribe="orders", startingOffsets=starts, endingOffsets=ends)
    assert [row[2:4] for row in found] == [(0, 1), (0, 2), (1, 18), (1, 19)]
    between = {"startingTimestamp": str(START_MS + 10_000), "endingTimestamp": str(START_MS + 15_000)}
    assert read(store, subscribe="orders", **between) == orders("broker-a", range(10, 15))
    assert read(store, subscribe="orders", tags="odd") == orders("broker-a", range(1, ORDERS, 2))
    assert read(store, subscribe="orders", sql="TAGS = 'odd'", **between) == orders("broker-a", range(11, 15, 2))
    assert read(store, sql="TAGS IS NULL") == [("broker-a", "bills", 0, 0, b"bills")]


def test_only_the_files_of_the_range_are_needed(folder: Path) -> None:
    """A range of time is read although the files before and behind it are gone."""
    store = folder / "broker-a"
    between = {"startingTimestamp": str(START_MS + 18_000), "endingTimestamp": str(START_MS + 20_000)}
    chosen = reader(store, subscribe="orders", **between)
    planned = chosen.partitions()
    logs = sorted((store / "commitlog").iterdir())
    assert len(logs) > 2
    for log in (logs[0], logs[-1]):
        log.unlink()
    assert bodies_of(chosen, planned) == [b"broker-a-18", b"broker-a-19"]


def test_many_tasks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is cut along its log, by size, or as asked; each message is in one task."""
    assert len(reader(folder).partitions()) == 2
    monkeypatch.setattr(store_reader, "ROWS_OF_A_TASK", 10)
    assert len(reader(folder, subscribe="orders").partitions()) == 8
    assert len(read(folder, subscribe="orders")) == 2 * ORDERS
    assert len(reader(folder / "broker-a", subscribe="orders", minPartitions="7").partitions()) >= 7
    parts = reader(folder, subscribe="orders", maxRecordsPerPartition="3").partitions()
    assert all(isinstance(part, StorePartition) and sum(r.size for r in part.ranges) <= 3 for part in parts)
    monkeypatch.setattr(dealing, "MOST_PARTITIONS", ORDERS - 1)
    with pytest.raises(InvalidArgument, match="'maxRecordsPerPartition' cannot be 1 for 40 messages"):
        reader(folder, subscribe="orders", maxRecordsPerPartition="1").partitions()


@pytest.mark.usefixtures("nothing_frozen")
def test_a_worker_settles_whatever_it_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is a broker: the next task of its process does not begin late."""
    monkeypatch.setattr(spark_worker, "_tasks", {})
    assert read(folder / "broker-a")
    assert gc.get_freeze_count() > 0


def test_a_store_whose_broker_was_killed(folder: Path) -> None:
    """Messages that no queue has yet, for the broker died before it wrote them there, are read from the log."""
    store = make_store(folder / "broker-c", "bills")
    assert len(read(folder / "broker-c")) < ORDERS + 1  # in use: what is in the files
    for locked in (store._lock, store._storeys.checkpoint_file):
        locked.close()  # as if the process had died
    assert read(folder / "broker-c", subscribe="orders") == orders("broker-c")
    assert read(folder / "broker-c", subscribe="bills")[0][4] == b"bills"


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_topic_made_anew_under_a_planned_read(folder: Path, tolerant: bool, caplog: pytest.LogCaptureFixture) -> None:
    """As where a frame is looked at again: the next topic's messages are not taken for those that were planned."""
    store = make_store(folder / "broker-c", "bills")
    store.checkpoint()
    chosen = reader(folder / "broker-c", failOnDataLoss=str(not tolerant))
    planned = chosen.partitions()
    store.deletions.delete("orders")
    store.append([draft("orders", 0, "another topic's")])
    store.checkpoint()
    if not tolerant:
        with pytest.raises(DataLoss, match="queue orders/broker-c/0, offset.* which was deleted before"):
            bodies_of(chosen, planned)
    else:
        assert bodies_of(chosen, planned) == [b"bills"]
        assert "went with their topic, which was deleted before they were read" in caplog.text
    assert [row[4] for row in read(folder / "broker-c")] == [b"bills", b"another topic's"]
    store.close()


def test_another_store_in_the_place_of_the_planned_one(folder: Path) -> None:
    """What is the same in it, topic, queue and offset, is another message: nothing is read."""
    chosen = reader(folder / "broker-a", failOnDataLoss="false")
    planned = chosen.partitions()
    (folder / "broker-a").rename(folder / "kept")
    (folder / "broker-b").rename(folder / "broker-a")
    with pytest.raises(StoreError, match="broker-a is another store than when this read was planned"):
        bodies_of(chosen, planned)
    (folder / "broker-a" / "rmqspark.json").unlink()  # as of a store of RocketMQ's
    (folder / "broker-a" / "rmqspark.json.bak").unlink(missing_ok=True)
    with pytest.raises(StoreError, match="another store"):
        bodies_of(chosen, planned)
    assert len(read(folder / "broker-a")) == ORDERS + 1


def bodies_of(chosen: RmqStoreReader, planned: Sequence[InputPartition]) -> list[bytes]:
    return sorted(row["body"] for part in planned for batch in chosen.read(part) for row in batch.to_pylist())


@pytest.mark.parametrize("tolerant", [False, True])
def test_damage(folder: Path, tolerant: bool, caplog: pytest.LogCaptureFixture) -> None:
    """failOnDataLoss says whether a message that cannot be believed ends the query, or is skipped and counted."""
    log = folder / "broker-a" / "commitlog" / ("0" * 20)
    raw = bytearray(log.read_bytes())
    at = raw.index(b"broker-a-4")
    raw[at - 88 + 20 : at - 88 + 28] = bytes(8)  # its queue offset
    log.write_bytes(raw)
    if not tolerant:
        with pytest.raises(DataLoss, match="1 message of queue orders/broker-a/0, offset 2, is damaged"):
            read(folder / "broker-a", subscribe="orders")
        return
    with caplog.at_level(logging.WARNING):
        found = read(folder / "broker-a", subscribe="orders", failOnDataLoss="false")
    assert found == [row for row in orders("broker-a") if row[4] != b"broker-a-4"]
    assert "what is missing is skipped" in caplog.text


def zeros(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100] + bytes(20) + file.read_bytes()[120:])


def garbage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100] + b"\x7e" * 20 + file.read_bytes()[120:])


def cut_short(file: Path) -> None:
    os.truncate(file, 100)


@pytest.mark.parametrize(
    ("damage", "lost"),
    [(zeros, range(25, 26)), (garbage, range(25, 26)), (cut_short, range(25, 40)), (Path.unlink, range(20, 40))],
)
@pytest.mark.parametrize("once_planned", [False, True])
def test_what_a_queue_lacks_hides_nothing_behind_it(
    damage: Callable[[Path], None], lost: range, once_planned: bool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no broker to ask for it: an entry, or a file of them, is missing, and is told and counted."""
    make_store(folder / "broker-c", *["long"] * 60).close()
    chosen, strict = (reader(folder / "broker-c", subscribe="long", failOnDataLoss=word) for word in ("false", "true"))
    planned = chosen.partitions()
    damage(folder / "broker-c" / "consumequeue" / "long" / "0" / f"{400:020d}")
    if not once_planned:
        planned = chosen.partitions()
    assert offsets_of(chosen, planned) == sorted(set(range(60)) - set(lost))
    with pytest.raises(DataLoss, match=f"{len(lost)} messages? of queue long/broker-c/0, offsets? {lost[0]}"):
        offsets_of(strict, planned)
    assert f"{len(lost)} message" in caplog.text


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(bytes(400)), Path.unlink], ids=["zeros", "gone"])
@pytest.mark.parametrize("file", range(2, 6))
@pytest.mark.parametrize("expired", [0, 6])
def test_a_hole_ends_no_queue(damage: Callable[[Path], None], file: int, expired: int, folder: Path) -> None:
    """Wherever it is, and whatever has expired: where the queue begins and ends is not where a search comes upon it."""
    make_store(folder / "broker-c", *["long"] * 140).close()
    for log in sorted((folder / "broker-c" / "commitlog").iterdir())[:expired]:
        log.unlink()
    whole = {row[3] for row in read(folder / "broker-c", subscribe="long")}
    damage(folder / "broker-c" / "consumequeue" / "long" / "0" / f"{400 * file:020d}")
    chosen = reader(folder / "broker-c", subscribe="long", failOnDataLoss="false")
    assert offsets_of(chosen, chosen.partitions()) == sorted(whole - set(range(20 * file, 20 * file + 20)))


@pytest.mark.parametrize("was_killed", [False, True])
@pytest.mark.parametrize("missing", [f"long/0/{800:020d}", "long"])
def test_a_queue_that_lacks_its_end_is_completed(missing: str, was_killed: bool, folder: Path) -> None:
    """As by the next start of the broker: the checkpoint says that there was more, and the log has it."""
    make_store(folder / "broker-c", *["long"] * 60, "bills").close()
    if was_killed:
        (folder / "broker-c" / "abort").write_text("1")
    path = folder / "broker-c" / "consumequeue" / missing
    path.unlink() if path.is_file() else shutil.rmtree(path)
    assert [row[3] for row in read(folder / "broker-c", subscribe="long")] == list(range(60))
    assert len(read(folder / "broker-c")) == ORDERS + 60 + 1
    parts = reader(folder / "broker-c", subscribe="long", maxRecordsPerPartition="7").partitions()
    assert all(len(tail.entries) <= 7 * 20 for part in parts for tail in part.tails.values())  # type: ignore[attr-defined]
    assert len(read(folder / "broker-c", subscribe="long", maxRecordsPerPartition="7")) == 60


def test_a_store_that_lacks_the_end_of_its_log_says_so(folder: Path) -> None:
    """A copy that was cut short, say: the queues know of what is missing."""
    store = folder / "broker-a"
    sorted((store / "commitlog").iterdir())[-1].unlink()
    with pytest.raises(DataLoss, match="queue orders/broker-a/[01], offsets .* are damaged or gone"):
        read(store, subscribe="orders")
    assert 0 < len(read(store, subscribe="orders", failOnDataLoss="false")) < ORDERS


def test_retention_takes_no_more_than_its_files(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that has the store open deletes the first file of a queue under the read: the others are read."""
    make_store(folder / "broker-c", *["long"] * 60).close()
    chosen = reader(folder / "broker-c", subscribe="long", failOnDataLoss="false")
    planned = chosen.partitions()
    (folder / "broker-c" / "consumequeue" / "long" / "0" / ("0" * 20)).unlink()
    assert offsets_of(chosen, planned) == list(range(20, 60))
    assert "20 messages of queue long/broker-c/0, offsets 0 to 19, are damaged or gone" in caplog.text


def offsets_of(chosen: RmqStoreReader, planned: Sequence[InputPartition]) -> list[int]:
    return sorted(row["queueOffset"] for part in planned for batch in chosen.read(part) for row in batch.to_pylist())


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    """Each is an error that says what there is instead."""
    with pytest.raises(InvalidArgument, match="is no directory"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="is no store, and none of the directories in it is one"):
        read(tmp_path / "empty")
    with pytest.raises(TopicNotFound, match="The store has: bills, orders"):
        read(folder, subscribe="order")
    there = r'There are: {"orders": {"broker-a": \[0, 1\], "broker-b": \[0, 1\]}}'
    with pytest.raises(InvalidArgument, match=f"orders/broker-a/7, named in assign, does not exist.*{there}"):
        read(folder, assign=json.dumps({"orders": {"broker-a": [7]}}))
    chosen = reader(folder / "broker-a", subscribe="orders")
    (part,) = chosen.partitions()
    assert isinstance(part, StorePartition)
    elsewhere = StorePartition(str(tmp_path / "nowhere"), part.ranges, part.tails)
    with pytest.raises(StoreError, match="no store at .*nowhere where this task runs"):
        list(chosen.read(elsewhere))


def test_what_a_start_found_lost_is_lost(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that was started on a damaged store notes in its queues what has no message any more."""
    sorted((folder / "broker-a" / "commitlog").iterdir())[1].unlink()
    with caplog.at_level(logging.WARNING):
        before = read(folder / "broker-a", subscribe="orders", failOnDataLoss="false")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    open_store(folder / "broker-a", ManualClock(now_ms=START_MS)).close()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert read(folder / "broker-a", subscribe="orders", failOnDataLoss="false") == before
    assert [record.getMessage() for record in caplog.records if record.name.startswith("rmqspark.source")] == told
    with pytest.raises(DataLoss):
        read(folder / "broker-a", subscribe="orders")


def test_what_is_gone_is_told_once_for_each_queue(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However many files of the log it was in: a gigabyte of small messages is found missing in thousands of pieces."""
    for file in sorted((folder / "broker-a" / "commitlog").iterdir())[1:3]:
        file.unlink()
    with caplog.at_level(logging.WARNING):
        left = read(folder / "broker-a", subscribe="orders", failOnDataLoss="false")
    lost = [number for number in range(ORDERS) if orders("broker-a", range(number, number + 1))[0] not in left]
    assert len(lost) > 10
    told = [
        (len(offsets), offsets[0], offsets[-1]) for offsets in ([n // 2 for n in lost if n % 2 == q] for q in (0, 1))
    ]
    assert [record.getMessage().partition(", are ")[0] for record in caplog.records] == [
        f"{count} messages of queue orders/broker-a/{queue}, offsets {first} to {last}"
        for queue, (count, first, last) in enumerate(told)
    ]


def test_a_store_whose_log_is_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """RocketMQ can be told to keep it on another disk: the plan says what is missing, and it may be linked there. A
    store that has nothing of what is asked for needs none."""
    log = folder / "broker-a" / "commitlog"
    elsewhere = log.rename(tmp_path_factory.mktemp("disk") / "log")
    with pytest.raises(StoreError, match="broker-a has queues of messages, and no commit log"):
        reader(folder).partitions()
    log.mkdir()
    with pytest.raises(StoreError, match="broker-a has queues of messages, and no commit log"):
        reader(folder).partitions()
    assert read(folder, assign=json.dumps({"orders": {"broker-b": [0, 1]}})) == orders("broker-b")
    log.rmdir()
    log.symlink_to(elsewhere)
    assert read(folder, subscribe="orders") == sorted(orders("broker-a") + orders("broker-b"))
