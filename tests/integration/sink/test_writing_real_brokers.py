"""The sink's side of a real cluster, without Spark."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument, InvalidMessage, InvalidQueue, NotSupported, TopicNotFound, Unreachable
from rmqspark.protocol.java_hash import java_hash
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.patience import BEGINNING
from rmqspark.sink.sends.delivery import AtLeastOnce
from rmqspark.sink.sends.task import WriteTask
from rmqspark.testing import cluster
from rmqspark.testing.in_process import TEST_STORE
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.rmq import Rmq

from ..coming_back import comes_back
from ..silent_broker import silent_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.model import MessageQueue, ReceivedMessage
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.sink.sends.bulk_send import BulkSend
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

FAR = 9_999_999_999_999  # ms since 1970


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster() as running, AdminClient(running.namesrv) as admin:
        for topic in ("ours", "stock", "other", "late", "alone"):
            admin.create_topic(topic, queues=3)
        yield running


class Ahead(SystemClock):
    """That of a machine which is half a minute ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 30_000


class Stock(ClusterClient):
    """A client whose brokers know nothing but RocketMQ's own requests."""

    def broker(self, broker_name: str) -> BrokerClient:
        found = super().broker(broker_name)
        found.capabilities = Capabilities  # type: ignore[method-assign]
        return found


def stored(mq: LocalCluster, topic: str) -> list[ReceivedMessage]:
    with Rmq(mq) as rmq:
        return sorted(rmq.messages(topic), key=lambda message: message.body)


@pytest.mark.parametrize(("topic", "kind"), [("ours", ClusterClient), ("stock", Stock)])
def test_rows_arrive_by_bulk_and_by_batch_alike(mq: LocalCluster, topic: str, kind: type[ClusterClient]) -> None:
    """What is written is the same on our brokers and on stock ones: bodies, tags, keys, properties, an id each."""
    columns: dict[str, Any] = {
        "body": pa.array([f"{row:04}".encode() * (row % 7 + 1) for row in range(500)]),
        "tags": pa.array(["even" if row % 2 == 0 else None for row in range(500)]),
        "keys": pa.array([[f"k{row}", "all"] for row in range(500)]),
        "properties": pa.array([[("row", str(row))] for row in range(500)], pa.map_(pa.string(), pa.string())),
    }
    with kind(mq.namesrv) as client:
        written = WriteTask(client, SinkOptions(topic=topic), AtLeastOnce(client)).write([pa.record_batch(columns)] * 2)
    assert (written.rows, sum(written.queues.values()), len(written.queues)) == (1_000, 1_000, 3)
    messages = stored(mq, topic)
    assert [message.body for message in messages[::2]] == sorted(columns["body"].to_pylist())
    assert len({message.msg_id for message in messages}) == 1_000
    for message in messages:
        row = int(message.properties["row"])
        assert message.body == columns["body"][row].as_py()
        assert message.tags == columns["tags"][row].as_py()
        assert message.keys == [f"k{row}", "all"]


def test_rows_go_to_brokers_that_answer(mq: LocalCluster) -> None:
    """One that is registered and not there is left out, unless a column says where a row belongs."""
    rows = {"body": pa.array([b"%d" % row for row in range(50)])}
    keyed = rows | {"shardingKey": pa.array([f"k{row}" for row in range(50)])}
    options = SinkOptions(topic="alone")
    with (
        silent_broker(mq.namesrv, "broker-x", "alone", "others"),
        ClusterClient(mq.namesrv, clock=ManualClock()) as client,
    ):
        for _ in range(3):
            written = WriteTask(client, options, AtLeastOnce(client)).write([pa.record_batch(rows)])
            assert {queue.split("/")[1] for queue in written.queues} == {"broker-a"}
        with pytest.raises(Unreachable, match="broker-x"):
            WriteTask(client, options, AtLeastOnce(client)).write([pa.record_batch(keyed)])


def test_stock_batches_take_no_compressed_bodies(mq: LocalCluster) -> None:
    """What a stock broker cannot take is refused in words."""
    batch = pa.record_batch({"body": pa.array([b"x" * 10_000])})
    with Stock(mq.namesrv) as client, pytest.raises(NotSupported, match="stock broker.*compression=none"):
        WriteTask(client, SinkOptions(topic="other", compression="zlib"), AtLeastOnce(client)).write([batch])


class Measured(AtLeastOnce):
    """Notes how large each send is."""

    def __init__(self, client: ClusterClient) -> None:
        super().__init__(client)
        self.sizes: list[int] = []

    def pack(self, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> BulkSend:
        packed = super().pack(queue, bulk)
        self.sizes.append(sum(len(part) for part in packed.parts))
        return packed


@pytest.mark.parametrize("batch_bytes", [64 << 10, 512 << 10])
def test_no_send_is_larger_than_batch_bytes(mq: LocalCluster, batch_bytes: int) -> None:
    """batchBytes bounds each send of rows that fit into it, and sends are filled."""
    batch = pa.record_batch({"body": pa.array([b"x" * 1_000] * 9_000), "tags": pa.array(["t"] * 9_000)})
    with ClusterClient(mq.namesrv) as client:
        options = SinkOptions(topic="filled", auto_create_topic=True, queues=2, batch_bytes=batch_bytes)
        measured = Measured(client)
        WriteTask(client, options, measured).write([batch] * 2)
    assert batch_bytes // 2 < max(measured.sizes) <= batch_bytes


@pytest.mark.parametrize("rows", [9_000, 900])  # which is more than one send, and less
def test_sends_grow_once_each_queue_has_had_one(mq: LocalCluster, rows: int) -> None:
    """What little there is is spread over the queues; each send of much costs as much as one of little."""
    batch = pa.record_batch({"body": pa.array([b"x" * 1_000] * rows)})
    with ClusterClient(mq.namesrv) as client:
        options = SinkOptions(topic=f"grown-{rows}", auto_create_topic=True, queues=2)
        measured = Measured(client)
        WriteTask(client, options, measured).write([batch] * (27_000 // rows))
    assert max(measured.sizes[:2]) <= 1 << 20
    assert 2 << 20 < max(measured.sizes) <= 4 << 20
    assert measured.sizes == sorted(measured.sizes[:-1]) + measured.sizes[-1:]


def test_only_the_first_rows_of_a_task_are_spread(mq: LocalCluster) -> None:
    """Spark may hand out a megabyte at a time (`maxBytesPerBatch`): what follows is one send each, to a queue."""
    batch = pa.record_batch({"body": pa.array([b"x" * 1_000] * 1_000)})
    with ClusterClient(mq.namesrv) as client:
        measured = Measured(client)
        options = SinkOptions(topic="spread", auto_create_topic=True, queues=4)
        written = WriteTask(client, options, measured).write([batch] * 5)
    assert len(measured.sizes) == 4 + 4
    assert list(written.queues.values()) == [1_250] * 4


@pytest.mark.parametrize("name", ["delayLevel", "deliverTime"])
def test_stock_batches_take_no_delays(mq: LocalCluster, name: str) -> None:
    """A row that is to wait is an error before anything is sent; one that is not goes out."""
    wait = 5 if name == "delayLevel" else FAR
    at_once = pa.record_batch({"body": pa.array([b"now", b"at once"]), name: pa.array([0, None])})
    later = pa.record_batch({"body": pa.array([b"never", b"later"]), name: pa.array([0, wait])})
    topic = f"delayed-{name}"
    with Stock(mq.namesrv) as client:
        options = SinkOptions(topic=topic, auto_create_topic=True, queues=1)
        WriteTask(client, options, AtLeastOnce(client)).write([at_once])
        with pytest.raises(NotSupported, match="stock broker, whose batches take no delays"):
            WriteTask(client, options, AtLeastOnce(client)).write([later])
    assert [message.body for message in stored(mq, topic)] == [b"at once", b"now"]


def test_rows_come_when_their_time_has_come(mq: LocalCluster) -> None:
    """Beside those that go at once; each in the queue that its key names, with all it had."""
    now_ms = SystemClock().now_ms()
    columns: dict[str, Any] = {
        "body": pa.array([b"at once", b"by level", b"by time", b"past"]),
        "delayLevel": pa.array([None, 1, 0, 0]),
        "deliverTime": pa.array([0, 0, now_ms + 1_000, now_ms - 1]),
        "shardingKey": pa.array(["a", "b", "c", "b"]),
        "tags": pa.array(["t"] * 4),
        "properties": pa.array([[("row", str(row))] for row in range(4)], pa.map_(pa.string(), pa.string())),
    }
    with ClusterClient(mq.namesrv) as client:
        options = SinkOptions(topic="timely", auto_create_topic=True, queues=4)
        WriteTask(client, options, AtLeastOnce(client)).write([pa.record_batch(columns)])
    while len(stored(mq, "timely")) < 4:
        SystemClock().sleep_ms(50)
    found = {message.body: message for message in stored(mq, "timely")}
    assert found.keys() == set(columns["body"].to_pylist())
    for row, message in enumerate(found[body] for body in columns["body"].to_pylist()):
        assert (message.tags, message.properties["row"]) == ("t", str(row))
        assert message.queue.queue_id == abs(java_hash(columns["shardingKey"][row].as_py())) % 4
    for body in (b"by level", b"by time"):
        assert found[body].store_timestamp_ms >= now_ms + 1_000


def test_rows_come_no_sooner_by_a_task_whose_clock_is_ahead(mq: LocalCluster) -> None:
    """Their time has come when it has come for the broker."""
    time_ms = SystemClock().now_ms() + 2_000
    rows = pa.record_batch({"body": pa.array([b"soon"]), "deliverTime": pa.array([time_ms])})
    with ClusterClient(mq.namesrv, clock=Ahead()) as client:
        WriteTask(client, SinkOptions(topic="early", auto_create_topic=True), AtLeastOnce(client)).write([rows])
    while not (found := stored(mq, "early")):
        SystemClock().sleep_ms(50)
    assert [message.store_timestamp_ms >= time_ms for message in found] == [True]


@pytest.mark.parametrize(
    ("columns", "story"),
    [
        ({"delayLevel": 18}, "This broker has 2 delay levels, not 18"),
        ({"deliverTime": FAR}, "A message waits 259200 seconds at most"),
    ],
)
def test_a_row_that_would_wait_too_long(columns: dict[str, int], story: str) -> None:
    """What a broker is set to keep is for it to say."""
    rows = pa.record_batch({"body": pa.array([b"x"])} | {name: pa.array([value]) for name, value in columns.items()})
    store_config = replace(TEST_STORE, message_delay_level="1s 5s")
    with cluster(store_config=store_config) as few, ClusterClient(few.namesrv) as client:
        options = SinkOptions(topic="few", auto_create_topic=True)
        with pytest.raises(InvalidArgument, match=story):
            WriteTask(client, options, AtLeastOnce(client)).write([rows])


@pytest.mark.parametrize("topic", ["few", None])
@pytest.mark.parametrize("column", [{"delayLevel": [0, 1, 2, 3]}, {"deliverTime": [0, None, FAR - 1, FAR]}], ids=str)
def test_a_row_that_would_wait_too_long_is_named(column: dict[str, list[int]], topic: str | None) -> None:
    """By its number among those of its task, before anything of its batch is sent: whatever queue rows are for."""
    (name,), (values,) = column.keys(), column.values()
    topics, keys = pa.array(["few", "other"] * 10), pa.array(["b", "a"] * 10)
    columns = {name: pa.array(values * 5), "topic": topics, "shardingKey": keys}
    rows = pa.record_batch({"body": pa.array([b"x"] * 20), **columns})
    fine = rows.set_column(1, name, pa.array([0] * 20))
    store_config = replace(TEST_STORE, message_delay_level="1s 5s")
    with cluster(store_config=store_config) as few, ClusterClient(few.namesrv) as client, Rmq(few) as rmq:
        options = SinkOptions(topic=topic, auto_create_topic=True)
        row = 20 + values.index(max(filter(None, values))) - (name == "deliverTime")
        with pytest.raises(InvalidMessage, match=f"^Row {row} of this task's input cannot be sent: column '{name}' "):
            WriteTask(client, options, AtLeastOnce(client)).write([fine, rows])
        assert sum(len(rmq.messages(each)) for each in ("few", "other")[: 2 - bool(topic)]) in (0, 20)


def test_topics_by_column_and_topics_that_are_missing(mq: LocalCluster) -> None:
    """Each row goes to the topic it names; one that does not exist is created only if asked for. Who misspelled it is
    told which there is."""
    batch = pa.record_batch({"body": pa.array([b"a", b"b", b"c"]), "topic": pa.array(["other", "new", "other"])})
    with ClusterClient(mq.namesrv) as client:
        with pytest.raises(TopicNotFound, match="'new' does not exist.*autoCreateTopic=true"):
            WriteTask(client, SinkOptions(), AtLeastOnce(client)).write([batch])
        with pytest.raises(TopicNotFound, match=r"Did you mean 'other'\? Create it with"):
            WriteTask(client, SinkOptions(topic="othr"), AtLeastOnce(client)).write([batch.select(["body"])])
        WriteTask(client, SinkOptions(auto_create_topic=True, queues=2), AtLeastOnce(client)).write([batch])
    assert [message.body for message in stored(mq, "new")] == [b"b"]
    assert {message.body for message in stored(mq, "other")} == {b"a", b"c"}


def test_a_row_that_no_record_holds_has_the_number_it_came_with(mq: LocalCluster) -> None:
    """Whichever queue it is for, and however many rows came before."""
    keys, tags = [f"s{row % 7}" for row in range(100)], ["a"] * 100
    tags[58] = "b\x02"
    batch = pa.record_batch({"body": [b"x"] * 100, "shardingKey": pa.array(keys), "tags": pa.array(tags)})
    fine = batch.set_column(2, "tags", pa.array(["a"] * 100))
    options = SinkOptions(topic="numbered", batch_bytes=1, auto_create_topic=True, queues=3)
    with ClusterClient(mq.namesrv) as client:
        task = WriteTask(client, options, AtLeastOnce(client))
        with pytest.raises(InvalidMessage, match="Row 158 .* column 'tags' contains byte 0x01 or 0x02"):
            task.write([fine, batch])


def test_a_row_for_a_queue_that_is_not_there_has_the_number_it_came_with(mq: LocalCluster) -> None:
    """Whichever topic it is for, of which each has queues of its own, and however many rows came before."""
    topics, queues = ["wide", "narrow"] * 50, [1, 0] * 50
    batch = pa.record_batch({"body": [b"x"] * 100, "topic": pa.array(topics), "queueId": pa.array(queues, pa.int32())})
    queues[51], queues[56] = 1, 2
    wrong = batch.set_column(2, "queueId", pa.array(queues, pa.int32()))
    options = SinkOptions(partitioner="column", batch_bytes=1)
    with ClusterClient(mq.namesrv) as client, AdminClient(mq.namesrv) as admin:
        admin.create_topic("wide", queues=2)
        admin.create_topic("narrow", queues=1)
        task = WriteTask(client, options, AtLeastOnce(client))
        with pytest.raises(InvalidQueue, match="Row 151 .* column 'queueId' is 1; topic 'narrow' has queues 0 to 0"):
            task.write([batch, wrong])


def test_sends_that_do_not_fit_one_request_are_cut(mq: LocalCluster) -> None:
    """Bodies of megabytes are sent one after the other, whatever batchBytes says."""
    bodies = [bytes([65 + row]) * (3 << 20) for row in range(4)]
    with ClusterClient(mq.namesrv) as client, AdminClient(mq.namesrv) as admin:
        admin.create_topic("large", queues=1)
        WriteTask(client, SinkOptions(topic="large"), AtLeastOnce(client)).write(
            [pa.record_batch({"body": pa.array(bodies)})]
        )
    assert [message.body for message in stored(mq, "large")] == bodies


def test_a_task_that_begins_while_the_cluster_restarts_waits(mq: LocalCluster) -> None:
    """Routes and capabilities are asked for as patiently as rows are sent: nobody answers twice, then all is well."""

    class Restarting(ClusterClient):
        refusals = 2

        def publish_queues(self, topic: str) -> list[MessageQueue]:
            if self.refusals:
                self.refusals -= 1
                raise Unreachable("Nothing answers.", address=mq.namesrv)
            return super().publish_queues(topic)

    clock = ManualClock()
    begun_ms = clock.monotonic_ms()
    with Restarting(mq.namesrv, clock=clock) as client:
        written = WriteTask(client, SinkOptions(topic="late"), AtLeastOnce(client)).write(
            [pa.record_batch({"body": pa.array([b"row"])})]
        )
    assert (written.rows, clock.monotonic_ms() - begun_ms) == (1, sum(BEGINNING.pauses_ms[:2]))


A_ROW = [pa.record_batch({"body": pa.array([b"row"])})]


@contextmanager
def only_broker_away(clock: ManualClock) -> Iterator[tuple[LocalCluster, ClusterClient]]:
    """A cluster whose broker has topic `late` and is stopped."""
    with cluster() as one, ClusterClient(one.namesrv, clock=clock) as client:
        with AdminClient(one.namesrv) as admin:
            admin.create_topic("late", queues=3)
        one.stop_broker("broker-a")
        yield one, client


def test_a_task_that_begins_while_the_only_broker_restarts_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its topics are known to nobody then. They are not said to be missing, nor made."""
    clock = ManualClock()
    with only_broker_away(clock) as (one, client):
        with pytest.raises(Unreachable, match="No broker is registered"):
            WriteTask(client, SinkOptions(topic="late", auto_create_topic=True), AtLeastOnce(client)).write(A_ROW)
        monkeypatch.setattr(clock, "sleep_ms", lambda ms: one.start_broker("broker-a"))
        assert WriteTask(client, SinkOptions(topic="late"), AtLeastOnce(client)).write(A_ROW).rows == 1


def test_a_task_of_a_stream_waits_for_its_broker_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may have been told a wrong address; a query that runs has not, and ends if its task fails."""
    clock = ManualClock()
    with only_broker_away(clock) as (one, client):
        comes_back(one, clock, monkeypatch, after_ms=50_000)
        written = WriteTask(client, SinkOptions(topic="late", streaming=True), AtLeastOnce(client)).write(A_ROW)
        assert written.rows == 1
