"""Tasks that read the broker's files themselves, beside a store that lives on while they do."""

from __future__ import annotations

import gc
import logging
import shutil
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from rmqspark import spark_worker
from rmqspark.client.cluster.bulk import BulkChunk
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import ConnectionLost, DataLoss, RmqError
from rmqspark.model import MessageQueue
from rmqspark.protocol.filters import TagFilter
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.sql.filter import SqlFilter
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.partitions import DirectPartition, Holder, QueueLease
from rmqspark.source.planning import direct_plan, log_plan
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks import direct, task
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.client.cluster.cluster_client import ClusterClient

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=40,
    delete_when=";".join(map(str, range(24))), min_free_bytes=1,
)  # fmt: skip
SCHEMA = StructType([
    StructField("topic", StringType()), StructField("queueId", IntegerType()), StructField("queueOffset", LongType()),
    StructField("body", BinaryType()), StructField("brokerName", StringType()), StructField("tags", StringType()),
])  # fmt: skip
Row = tuple[str, int, int, bytes]


class Broker:
    """Client and broker in one, over a real store on disk. `asked` are the ranges that it was asked to read."""

    name = "broker-a"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock(now_ms=1_700_000_000_000)
        self.asked: list[tuple[str, int, int, int]] = []
        self.is_dead = False
        self.store_path: str | None = None
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(
            self.directory,
            CONFIG,
            files=PosixFileSystem(),
            clock=self.clock,
            entropy=SystemEntropy(),
            store_host=bytes(8),
        )

    def broker(self, name: str) -> Broker:
        return self

    def capabilities(self) -> Capabilities:
        if self.is_dead:
            raise ConnectionLost("dead", address="here")
        path = str(self.directory) if self.store_path is None else self.store_path
        return Capabilities(
            bulk_read=2,
            store_id=self.store.store_id,
            incarnation=self.store.incarnation,
            store_path=path,
            opening=self.store.opening,
        )

    def bulk_read(
        self,
        topic: str,
        queue_id: int,
        at: int,
        end: int,
        *,
        max_count: int,
        max_bytes: int,
        tags: str | None,
        sql: str | None,
        topic_deleted_ms: int,
        group: str | None,
    ) -> Future[BulkChunk]:
        self.asked.append((topic, queue_id, at, end))
        answer: Future[BulkChunk] = Future()
        wanted = TagFilter.parse(tags)
        try:
            if self.is_dead:
                raise ConnectionLost("dead", address="here")
            self.store.deletions.require_not_remade(topic, topic_deleted_ms)
            found = self.store.read_bulk(
                topic, queue_id, at, end, max_count=max_count, max_bytes=max_bytes,
                tag_codes=wanted.codes if wanted else None, record_filter=SqlFilter.parse(sql) if sql else None,
            )  # fmt: skip
            answer.set_result(BulkChunk(found.next_offset, found.min_offset, found.max_offset, found.sizes, found.body))
        except RmqError as error:
            answer.set_exception(error)
        return answer

    def send(self, topic: str, queue_id: int, *bodies: str, tags: str = "paid", **properties: str) -> None:
        encoded = encode_properties({"TAGS": tags, **properties})
        for body in bodies:
            record = encode_record(topic=topic, queue_id=queue_id, body=body.encode(), properties=encoded)
            self.store.append([Draft(topic, queue_id, record, tags_code(tags), ())])


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A store with 60 messages in two queues of "t" and 20 in one of "u", which take turns in the log."""
    made = Broker(tmp_path / "store")
    for number in range(20):
        made.send("t", 0, f"a{number}")
        made.send("t", 1, f"b{number}", f"c{number}", tags="shipped")
        made.send("u", 5, f"d{number}")
    monkeypatch.setattr(direct, "shared_client", lambda namesrv, access: made)
    monkeypatch.setattr(direct, "_said", set())
    monkeypatch.setattr(direct_plan, "_said", set())
    yield made
    made.store.close()


def options(**given: Any) -> SourceOptions:
    return SourceOptions(Subscription(("t", "u")), read_mode="direct", retry=RetryPolicy(1, 0), **given)


def ranges(broker: Broker) -> list[QueueRange]:
    queues = [("t", 0), ("t", 1), ("u", 5)]
    return [
        QueueRange(MessageQueue(topic, "broker-a", queue_id), 0, broker.store.queues.max_offset(topic, queue_id))
        for topic, queue_id in queues
    ]


def plan(broker: Broker, **given: Any) -> list[DirectPartition]:
    client: ClusterClient = broker  # type: ignore[assignment]
    partitions, others = direct_plan.plan_direct(
        client, ranges(broker), options(**given), Holder("billing"), options(**given).for_tasks
    )
    assert not others
    return partitions  # type: ignore[return-value]


def read(partition: DirectPartition, **given: Any) -> list[Row]:
    asked = replace(partition, options=options(**given).for_tasks)
    return [row for batch in direct.read_direct(asked, SCHEMA) for row in rows(batch)]


def rows(batch: Any) -> list[Row]:
    return [
        (row["topic"], row["queueId"], row["queueOffset"], bytes(row["body"]))
        for row in batch.to_pylist()
        if row["brokerName"] == "broker-a"
    ]


def everything() -> list[Row]:
    return sorted(
        [("t", 0, n, b"a%d" % n) for n in range(20)]
        + [("t", 1, n, b"bc"[n % 2 : n % 2 + 1] + b"%d" % (n // 2)) for n in range(40)]
        + [("u", 5, n, b"d%d" % n) for n in range(20)]
    )


def test_files_are_read_and_the_broker_is_not_asked(broker: Broker) -> None:
    """What is in the files comes from them, of several topics and queues at once, with each row's own place."""
    broker.store.checkpoint()
    (partition,) = plan(broker)
    assert partition.held[0].group == "billing"
    assert sorted(read(partition)) == everything()
    assert broker.asked == []


@pytest.mark.parametrize(("count", "tasks"), [(2, 3), (3, 3), (7, 7)])
@pytest.mark.parametrize("is_long", [False, True])
def test_tasks_are_stretches_of_the_log(
    broker: Broker, count: int, tasks: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """minPartitions cuts all queues at the same places of the log, each message is in one task; it makes no difference
    whether a queue is so long that only some of its entries are looked at."""
    if is_long:
        monkeypatch.setattr(log_plan, "_LOOKED_AT_IN_ONE_GO", 4)
        monkeypatch.setattr(log_plan, "_SEARCHED_IN_ONE_GO", 3)
    broker.store.checkpoint()
    partitions = plan(broker, min_partitions=count)
    assert len(partitions) == tasks  # as many as when each queue is cut by itself
    assert sorted(row for partition in partitions for row in read(partition)) == everything()
    sizes = [sum(part.size for part in partition.ranges) for partition in partitions]
    assert max(sizes) - min(sizes) <= 8
    assert all(len(partition.ranges) > 1 for partition in partitions)


def test_what_is_in_the_brokers_memory_comes_from_it(broker: Broker) -> None:
    """The newest entries of a queue are not in its file yet; they are asked for, once, and come behind the others."""
    (partition,) = plan(broker)
    assert sorted(read(partition)) == everything()
    assert {(topic, queue_id) for topic, queue_id, _, _ in broker.asked} == {("t", 0), ("t", 1), ("u", 5)}
    assert all(start > 0 for _, _, start, _ in broker.asked)


def test_tags_are_tested_exactly(broker: Broker) -> None:
    """By hash in the entries and by the tags themselves, as through the broker."""
    broker.store.checkpoint()
    broker.send("t", 0, "AaAa", tags="AaBB")  # the hash of BBAa
    broker.store.checkpoint()
    (partition,) = plan(broker, tags="shipped")
    assert {queue_id for _, queue_id, _, _ in read(partition, tags="shipped")} == {1}
    assert read(partition, tags="BBAa") == []
    assert [body for *_, body in read(partition, tags="AaBB")] == [b"AaAa"]


@pytest.mark.parametrize(
    ("sql", "bodies"),
    [
        ("size > 5", [b"big"]),
        ("size BETWEEN 4 AND 9 AND TAGS = 'paid'", [b"big", b"small"]),
        ("size IS NOT NULL AND TAGS <> 'paid'", []),
        ("TAGS = 'shipped' AND size IS NULL", [row[3] for row in everything() if row[1] == 1]),
    ],
)
@pytest.mark.parametrize("in_files", [True, False])
def test_expressions_are_evaluated_over_the_records(
    broker: Broker, sql: str, bodies: list[bytes], in_files: bool
) -> None:
    """With the broker's own code, and the broker evaluates what it is asked for: all rows are chosen by one rule."""
    broker.send("t", 0, "big", size="9")
    broker.send("t", 0, "small", size="4")
    if in_files:
        broker.store.checkpoint()
    (partition,) = plan(broker, sql=sql)
    assert sorted(row[3] for row in read(partition, sql=sql)) == sorted(bodies)
    assert bool(broker.asked) is not in_files


@pytest.mark.parametrize("most", [1, 3, 30])
def test_no_task_is_larger_than_asked(broker: Broker, most: int) -> None:
    """maxRecordsPerPartition holds to the message, also for what the broker has not written yet."""
    partitions = plan(broker, max_records_per_partition=most)
    assert max(sum(part.size for part in partition.ranges) for partition in partitions) <= most
    assert sorted(row for partition in partitions for row in read(partition)) == everything()


@pytest.mark.parametrize("kind", ["another id", "another incarnation", "nowhere", "no log"])
def test_another_store_is_not_read_and_that_is_said_once(
    kind: str, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The path alone proves nothing: id and incarnation must be those that the broker named."""
    (partition,) = plan(broker)
    place = partition.place
    match kind:
        case "another id":
            place = place._replace(store_id="0" * 32)
        case "another incarnation":
            place = place._replace(incarnation=place.incarnation + 1)
        case "nowhere":
            place = place._replace(path=str(tmp_path / "nowhere"))
        case "no log":
            copy = tmp_path / "copy"
            shutil.copytree(broker.directory, copy)
            (copy / "commitlog" / ("0" * 20)).write_bytes(bytes(5000))
            place = place._replace(path=str(copy))
    elsewhere = replace(partition, place=place)
    with caplog.at_level(logging.WARNING, "rmqspark.source"):
        assert sorted(read(elsewhere)) == everything()
        assert sorted(read(elsewhere)) == everything()
    (warning,) = caplog.records
    assert "messages come from the broker" in warning.getMessage()
    assert place.path in warning.getMessage()


@pytest.mark.parametrize("at_least", [None, 4])
def test_what_was_planned_over_another_store_is_the_broker_s_to_tell_of(broker: Broker, at_least: int | None) -> None:
    """Where the store is replaced between the look at the cluster and the plan, the files there are of the new one."""
    broker.store.checkpoint()
    client: Any = broker
    chosen = options(min_partitions=at_least)
    before, *now = ranges(broker)
    wanted = [before._replace(store_id="another"), *(each._replace(store_id=broker.store.store_id) for each in now)]
    partitions, others = direct_plan.plan_direct(client, wanted, chosen, Holder(), chosen.for_tasks)
    read_here = [row for each in partitions if isinstance(each, DirectPartition) for row in read(each)]
    assert (others, sorted(read_here)) == (wanted[:1], [row for row in everything() if row[1]])
    assert direct_plan.plan_direct(client, wanted[:1], chosen, Holder(), chosen.for_tasks) == ([], wanted[:1])


def test_where_the_driver_finds_no_store_tasks_look_for_it(broker: Broker, tmp_path: Path) -> None:
    """A driver on another machine plans by queue; tasks on the broker's machine read its files all the same."""
    broker.store.checkpoint()
    broker.store_path = str(tmp_path / "not here")
    partitions = plan(broker)
    assert [partition.ranges for partition in partitions] == [(each,) for each in ranges(broker)]
    here = [replace(partition, place=partition.place._replace(path=str(broker.directory))) for partition in partitions]
    broker.asked.clear()
    assert sorted(row for partition in here for row in read(partition)) == everything()
    assert broker.asked == []


def test_a_copy_that_went_its_own_way_is_not_the_store(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Made while the store was closed, and written to since, as the store was: it has the store's id, and other
    messages at the same offsets. Tasks that find it at the store's path ask the broker."""
    broker.store.close()
    shutil.copytree(broker.directory, tmp_path / "copy")
    broker.open()
    broker.send("t", 0, "mine")
    other = Broker(tmp_path / "copy")
    other.send("t", 0, "another's")
    for each in (broker, other):
        each.store.checkpoint()
    other.store.close()
    there = [partition.place._replace(path=str(other.directory)) for partition in plan(broker)]
    found = [row for place, each in zip(there, plan(broker), strict=True) for row in read(replace(each, place=place))]
    assert sorted(found) == sorted([*everything(), ("t", 0, 20, b"mine")])
    assert "there is a copy of it, or it has been opened since" in caplog.text


def test_a_store_that_is_opened_again_is_read_by_whoever_plans_then(broker: Broker) -> None:
    """What was planned before comes from the broker, what is planned now from the files; a broker of a version that
    does not say in which opening its store is, is believed."""
    (before,) = plan(broker)
    broker.store.close()
    broker.open()
    assert (sorted(read(before)), bool(broker.asked)) == (everything(), True)
    broker.asked.clear()
    (now,) = plan(broker)
    silent = replace(now, place=now.place._replace(opening=""))
    assert sorted(read(now)) == sorted(read(silent)) == everything()
    assert broker.asked == []


@pytest.mark.parametrize("kind", ["stock", "dead"])
def test_brokers_that_cannot_say_where_their_store_is(
    kind: str, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """A stock broker, or one that is down just now: its queues are planned as without direct reads."""
    broker.store_path, broker.is_dead = "", kind == "dead"
    client: Any = broker
    with caplog.at_level(logging.WARNING, "rmqspark.source"):
        partitions, others = direct_plan.plan_direct(client, ranges(broker), options(), Holder(), options().for_tasks)
    assert (partitions, others) == ([], ranges(broker))
    assert len(caplog.records) == 1


def test_a_broker_that_is_dead_is_not_missed(broker: Broker) -> None:
    """Files that hold everything are read to the end; where something is left to ask, its absence is an error."""
    broker.store.checkpoint()
    (partition,) = plan(broker)
    broker.send("t", 0, "late", "later")
    (with_late,) = plan(broker)
    broker.is_dead = True
    assert sorted(read(partition)) == everything()
    with pytest.raises(ConnectionLost):
        read(with_late)


def test_messages_that_expire_while_they_are_read(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Retention takes files under the task: failOnDataLoss decides, by what the broker says."""
    broker.store.checkpoint()
    partitions = plan(broker, min_partitions=8)
    broker.clock.advance(hours=80)
    while broker.store.expire(broker.clock.now_ms() + SystemClock().now_ms()).deleted:
        pass
    assert broker.store.queues.min_offset("t", 0) > 0
    with pytest.raises(DataLoss, match=r"of queue t/broker-a/0, .* were removed before they were read"):
        read(partitions[0])
    left = sorted(row for partition in partitions for row in read(partition, fail_on_data_loss=False))
    assert left == [row for row in everything() if row[2] >= broker.store.queues.min_offset(row[0], row[1])]
    assert "failOnDataLoss is false: what is missing is skipped" in caplog.text


def test_what_is_damaged_is_asked_for(broker: Broker) -> None:
    """A record that does not fit its entry is the broker's to answer for, and it alone."""
    broker.store.checkpoint()
    (partition,) = plan(broker)
    place = broker.store.queues.locate("t", 0, 3)
    assert place is not None
    base = place[0] - place[0] % 4096
    with (broker.directory / "commitlog" / f"{base:020d}").open("r+b") as log:
        log.seek(place[0] - base + 20)
        log.write(b"\7" * 8)  # its queue offset
    found = read(partition)
    assert broker.asked[0][:3] == ("t", 0, 3)
    assert len(found) == 80


def test_a_topic_that_was_made_anew_since_is_not_read(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Its messages are in queues of the same names, at the same offsets, in files of the same store: what the broker
    says of them counts, and what the offsets meant is lost."""
    (partition,) = plan(broker)
    broker.store.deletions.delete("t")
    broker.send("t", 0, *(f"new{number}" for number in range(20)))
    broker.store.checkpoint()
    assert sorted(read(partition, fail_on_data_loss=False)) == [row for row in everything() if row[0] == "u"]
    assert "20 messages of queue t/broker-a/0, offsets 0 to 19, went with their topic" in caplog.text
    with pytest.raises(DataLoss):
        read(partition)
    deleted_ms = broker.store.deletions.deleted_ms("t")
    later = tuple(each._replace(topic_deleted_ms=deleted_ms) for each in partition.ranges if each.queue.queue_id != 1)
    assert len(read(replace(partition, ranges=later))) == 40


def test_a_member_of_a_shared_group_reads_under_its_leases(broker: Broker) -> None:
    """However the log is cut into tasks, each range goes with the lease of its queue."""
    leases = {wanted.queue: 10 + number for number, wanted in enumerate(ranges(broker))}
    client: ClusterClient = broker  # type: ignore[assignment]
    holder = Holder("billing", "me", leases)
    partitions, _ = direct_plan.plan_direct(
        client, ranges(broker), options(min_partitions=4), holder, options().for_tasks
    )
    assert len(partitions) >= 3
    for partition in partitions:
        assert isinstance(partition, DirectPartition)
        wanted = [QueueLease("billing", "me", leases[each.queue]) for each in partition.ranges]
        assert list(partition.held) == wanted
    assert {lease for partition in plan(broker) for lease in partition.held} == {QueueLease("billing", "", 0)}


@pytest.mark.usefixtures("nothing_frozen")
def test_a_worker_settles_whatever_it_reads(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task of its process does not begin late, nor has modules looked through for garbage, because this one
    reads files."""
    monkeypatch.setattr(spark_worker, "_tasks", {})
    (partition,) = plan(broker)
    assert sorted(row for batch in task.read(partition, SCHEMA) for row in rows(batch)) == everything()
    assert gc.get_freeze_count() > 0


def test_reading_through_the_broker_brings_no_store() -> None:
    """Tasks that do not read files do not load what reads them."""
    parts = "rmqspark.source.driver, rmqspark.source.tasks.task"
    ask = f"import sys, {parts}; print([name for name in sys.modules if 'rmqspark.store' in name])"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, text=True).stdout == "[]\n"
