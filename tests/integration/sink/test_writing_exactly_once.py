"""The sink's transactions on real brokers, without Spark: its tasks and its driver as Spark would call them."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.spark.coordinator import Coordinator
from rmqspark.client.spark.txn import audited_batches, input_keeper, report_input, transactions
from rmqspark.clock import SystemClock
from rmqspark.errors import Fenced, InvalidArgument, NotCommitted, ReplayMismatch, RmqError, StaleVersion
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.sends.delivery import AtLeastOnce
from rmqspark.sink.sends.task import WriteTask
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.sink.transactions.commit import abort, commit
from rmqspark.sink.transactions.half_batches import key_prefix
from rmqspark.sink.transactions.inputs import inputs_of
from rmqspark.source.partitions import QueueLease
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks.report import tell
from rmqspark.streaming_batch import StreamingBatch
from rmqspark.testing import LocalCluster, assert_exactly_once, cluster, crash_at, in_process
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import ReceivedMessage
    from rmqspark.protocol.bodies.txn import TxnState

pytestmark = pytest.mark.integration

_numbers = count()


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=2) as running:
        yield running


@pytest.fixture(scope="module")
def client(mq: LocalCluster) -> Iterator[ClusterClient]:
    with ClusterClient(mq.namesrv) as connected:
        yield connected


class Sink:
    """One sink of one query, under a topic and a transactional id of its own."""

    def __init__(self, mq: LocalCluster, client: ClusterClient) -> None:
        self.mq = mq
        self.client = client
        self.name = f"exactly-{next(_numbers)}"
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic(self.name, queues=2)

    def task(
        self, version: int, partition: int, *bodies: str, run: str = "run-1", skip_stale: bool = False
    ) -> AttemptWritten:
        """One task's message."""
        batches = (pa.record_batch({"body": pa.array([body])}) for body in bodies)
        return self.write(version, partition, batches, run=run, skip_stale=skip_stale)

    def write(
        self,
        version: int,
        partition: int,
        batches: Iterator[pa.RecordBatch],
        *,
        run: str = "run-1",
        skip_stale: bool = False,
    ) -> AttemptWritten:
        name = f"{next(_numbers)}-x"
        attempt = Attempt(self.name, run, version, partition, name, query_id=f"q-{self.name}", batch_id=version)
        return write_attempt(self.client, SinkOptions(topic=self.name), attempt, batches, skip_stale=skip_stale)

    def commit(self, *messages: AttemptWritten, strict: bool = False) -> None:
        commit(self.client, TransactionOptions(self.name, fail_on_mismatch=strict), messages)

    def bodies(self) -> list[str]:
        with Rmq(self.mq) as rmq:
            return sorted(message.body.decode() for message in rmq.messages(self.name))


@pytest.fixture
def sink(mq: LocalCluster, client: ClusterClient) -> Sink:
    return Sink(mq, client)


def test_nothing_is_readable_before_the_decision_and_everything_after(sink: Sink) -> None:
    """The rows of a batch appear together, over both brokers; a task without rows is a task, too."""
    messages = [sink.task(0, 0, "a", "b", "c", "d"), sink.task(0, 1, "e", "f"), sink.task(0, 2)]
    assert {name for message in messages for name in message.held} == {"broker-a", "broker-b"}
    assert sink.bodies() == []
    sink.commit(*messages)
    assert sink.bodies() == list("abcdef")
    assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


def test_rows_that_are_to_wait_do_so_from_the_decision_on(sink: Sink) -> None:
    """All of a batch or none, each once; what waits is counted as what goes at once."""
    time_ms = SystemClock().now_ms() + 500
    columns = {"body": ["a", "b", "c"], "delayLevel": [0, 1, 0], "deliverTime": [0, 0, time_ms]}
    rows = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    dropped = sink.write(0, 0, iter([rows]))
    message = sink.write(0, 0, iter([rows]), run="run-2")
    assert (message.rows, dropped.rows) == (3, 3)
    SystemClock().sleep_ms(1_500)  # longer than either waits
    assert sink.bodies() == []
    sink.commit(message)
    sink.commit(sink.write(0, 0, iter([rows]), run="run-3"), strict=True)
    while sink.bodies() != ["a", "b", "c"]:
        SystemClock().sleep_ms(50)
    assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


def test_rows_that_are_to_wait_go_with_their_topic(sink: Sink) -> None:
    """What was sent for a topic that is deleted before the decision is not delivered to the next one of its name."""

    def rows(*bodies: str) -> Iterator[pa.RecordBatch]:
        return iter([pa.record_batch({"body": pa.array(bodies), "delayLevel": pa.array([1] * len(bodies))})])

    before = sink.write(0, 0, rows(*"abcd"))
    with AdminClient(sink.mq.namesrv) as admin:
        admin.delete_topic(sink.name)
        admin.create_topic(sink.name, queues=2)
    sink.commit(before)
    sink.commit(sink.write(1, 0, rows(*"efgh")))
    while not {*"efgh"} <= {*sink.bodies()}:
        SystemClock().sleep_ms(50)
    assert sink.bodies() == list("efgh")


def test_a_batch_that_comes_again_adds_nothing(sink: Sink) -> None:
    """Whatever run it comes from; other rows are found out, and change nothing."""
    sink.commit(sink.task(0, 0, "a", "b"))
    again = sink.task(0, 0, "b", run="run-2"), sink.task(0, 1, "a", run="run-2")
    assert all(message.held == {} for message in again)
    sink.commit(*again, strict=True)
    with pytest.raises(ReplayMismatch, match="committed with 2 rows"):
        sink.commit(sink.task(0, 0, "a", "x", run="run-3"), strict=True)
    assert sink.bodies() == ["a", "b"]
    assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


def test_a_batch_that_comes_again_for_other_topics(sink: Sink) -> None:
    """Where a column names the topics, they count as the bodies do: the same rows for another topic are others."""
    other = Sink(sink.mq, sink.client).name

    def written(run: str, *rows: tuple[str, str]) -> AttemptWritten:
        topics, bodies = zip(*rows, strict=True)
        batch = pa.record_batch({"topic": pa.array(topics), "body": pa.array(bodies)})
        return write_attempt(sink.client, SinkOptions(), Attempt(sink.name, run, 0, 0, f"{next(_numbers)}-x"), [batch])

    sink.commit(written("run-1", (sink.name, "a"), (other, "b"), (sink.name, "c")), strict=True)
    sink.commit(written("run-2", (other, "b"), (sink.name, "c"), (sink.name, "a")), strict=True)
    with pytest.raises(ReplayMismatch, match="committed with 3 rows .* run again, it has 3 rows"):
        sink.commit(written("run-3", (other, "a"), (sink.name, "b"), (sink.name, "c")), strict=True)
    assert sink.bodies() == ["a", "c"]


def test_the_assertion_bites(sink: Sink) -> None:
    """A query nobody knows, and one that skipped messages, are not exactly-once."""
    with pytest.raises(AssertionError, match="No batch of nobody was committed"):
        assert_exactly_once("nobody", namesrv=sink.mq.namesrv)
    keeper = input_keeper(sink.client, f"q-{sink.name}")
    for version, (first, end) in enumerate([(0, 5), (7, 9)]):
        piece = InputRange("", sink.name, "broker-a", 0, first, end)
        report_input(keeper, f"q-{sink.name}", version, [piece]).result().raise_for_code()
        sink.commit(sink.task(version, 0, "x"))
    with pytest.raises(AssertionError, match="offsets 5 to 6, is in no batch"):
        assert_exactly_once(f"q-{sink.name}", namesrv=sink.mq.namesrv)


class WrittenAgain(AtLeastOnce):
    """The rows of an attempt once more, under the ids that they have: what a broker leaves that completes a batch
    twice."""

    def __init__(self, client: ClusterClient, attempt: Attempt) -> None:
        super().__init__(client)
        self._prefix = key_prefix(attempt)

    def ids(self, now_ms: int, rows: int) -> IdRange:
        return IdRange(self._prefix, 0)


def test_the_assertion_reads_the_topic(sink: Sink) -> None:
    """Rows that are there twice are found, though no broker knows of that, and so are rows that are gone."""
    written = sink.task(0, 0, "a", "b")
    sink.commit(written)
    assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)
    again = WriteTask(sink.client, SinkOptions(topic=sink.name), WrittenAgain(sink.client, written.attempt))
    again.write([pa.record_batch({"body": pa.array(["a", "b"])})])
    assert sink.bodies() == ["a", "a", "b", "b"]
    with pytest.raises(AssertionError, match="2 rows are there more than once"):
        assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)
    with AdminClient(sink.mq.namesrv) as admin:
        admin.delete_topic(sink.name)
        admin.create_topic(sink.name, queues=2)
    with pytest.raises(AssertionError, match=f"{sink.name}/.* has 0 messages"):
        assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


def test_the_assertion_is_about_somebody(sink: Sink) -> None:
    """An empty name, as of a variable that was not set, was good for whatever else the brokers knew of."""
    sink.commit(sink.task(0, 0, "a"))
    with pytest.raises(InvalidArgument, match="name is empty"):
        assert_exactly_once("", namesrv=sink.mq.namesrv)


def test_the_assertion_takes_no_row_of_the_next_topic_for_one_of_the_last(sink: Sink) -> None:
    """The offsets are given again: rows that went with their topic are gone, and none is there twice."""
    with AdminClient(sink.mq.namesrv) as admin:
        sink.commit(sink.task(0, 0, "a"))
        admin.delete_topic(sink.name)
        with pytest.raises(AssertionError, match=f"exactly-once: {sink.name}/[^ ]*, offsets 0 to 0, has 0 messages.$"):
            assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)
        admin.create_topic(sink.name, queues=2)
    sink.commit(sink.task(1, 0, *"bcde"))
    with pytest.raises(AssertionError, match=f"exactly-once: {sink.name}/[^ ]*, offsets 0 to 0, has 0 messages.$"):
        assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


@pytest.mark.parametrize("is_doubled", [False, True])
def test_the_assertion_waits_for_a_slow_broker(sink: Sink, monkeypatch: pytest.MonkeyPatch, is_doubled: bool) -> None:
    """What it has not given yet passed for gone, and what is there once more in another queue for not there."""
    written = sink.task(0, 0, "a")
    sink.commit(written)
    if is_doubled:
        again = WriteTask(sink.client, SinkOptions(topic=sink.name), WrittenAgain(sink.client, written.attempt))
        again.write([pa.record_batch({"body": pa.array(["a"])})])
    poll, asked = PullConsumer.poll, count()

    def slow(consumer: PullConsumer, timeout_ms: int = 1_000) -> list[ReceivedMessage]:
        return poll(consumer, timeout_ms) if next(asked) % 2 else []

    monkeypatch.setattr(PullConsumer, "poll", slow)
    with pytest.raises(AssertionError, match="1 rows are there more than once") if is_doubled else nullcontext():
        assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)


def test_the_assertion_looks_at_the_cluster_of_this_process(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one; of several a test has to say which."""
    sink.commit(sink.task(0, 0, "a"))
    monkeypatch.setattr(in_process, "_running", [sink.mq])
    assert_exactly_once(sink.name)
    monkeypatch.setattr(in_process, "_running", [sink.mq, sink.mq])
    with pytest.raises(InvalidArgument, match="namesrv="):
        assert_exactly_once(sink.name)


def test_twins_and_failed_attempts_leave_nothing(sink: Sink) -> None:
    """Of all attempts at a partition only the one that Spark took counts."""
    sink.task(0, 0, "a", "b")
    sink.task(0, 0, "a")
    sink.commit(sink.task(0, 0, "a", "b"))
    sink.commit(sink.task(1, 0, "c"))
    assert sink.bodies() == ["a", "b", "c"]


def test_a_driver_that_was_cut_off_can_neither_write_nor_commit(sink: Sink) -> None:
    """Once another run has begun the old one is fenced, wherever it was."""
    late = sink.task(0, 0, "a")
    sink.commit(sink.task(0, 0, "a", run="run-2"))
    following = sink.task(1, 0, "b", run="run-2")
    sink.commit(late)  # it is: by the other one
    with pytest.raises(Fenced, match="another run has taken over"):
        sink.task(1, 0, "b")
    sink.commit(following)
    with pytest.raises(Fenced, match="another run has taken over"):
        sink.commit(late)
    assert sink.bodies() == ["a", "b"]


def test_a_task_that_is_cut_off_while_it_writes_is_told_so(sink: Sink) -> None:
    """By the brokers, which take nothing more of it: another run has taken over since it was allowed to write."""

    def taken_over() -> Iterator[pa.RecordBatch]:
        sink.task(0, 0, "b", run="run-2")
        yield pa.record_batch({"body": pa.array(["a"])})

    with pytest.raises(Fenced, match="takes nothing more of attempt .*: another run has taken over.*stop this one"):
        sink.write(0, 0, taken_over())


def test_what_was_aborted_is_not_committed(sink: Sink) -> None:
    """abort closes the version, so a commit that was under way comes too late; another run writes it."""
    given_up = sink.task(0, 0, "a")
    abort(sink.client, [given_up])
    with pytest.raises(Fenced):
        sink.commit(given_up)
    sink.commit(sink.task(0, 0, "a", run="run-2"))
    assert sink.bodies() == ["a"]
    abort(sink.client, [given_up])
    assert sink.bodies() == ["a"]


def test_a_checkpoint_that_was_restored(sink: Sink) -> None:
    """A version below the last one is refused, or passed over without a trace."""
    for version in range(3):
        sink.commit(sink.task(version, 0, str(version)))
    with pytest.raises(StaleVersion, match="below the last one that was committed, 2"):
        sink.task(1, 0, "x", run="run-2")
    sink.commit(sink.task(1, 0, "x", run="run-2", skip_stale=True))
    sink.commit(sink.task(3, 0, "3", run="run-2"))
    assert sink.bodies() == ["0", "1", "2", "3"]


def test_a_broker_that_lost_what_it_held(sink: Sink) -> None:
    """A participant that does not hold everything refuses, and the error says who."""
    message = sink.task(0, 0, "a", "b", "c", "d")
    held = message.held["broker-b"]
    held.halves += 1
    with pytest.raises(NotCommitted, match="broker-b"):
        sink.commit(message)
    assert sink.bodies() == []


@pytest.mark.parametrize("point", ["before_vote", "after_vote", "after_decide", "before_complete", "mid_complete"])
def test_a_step_that_fails_is_made_up_for(sink: Sink, point: str) -> None:
    """The driver asks again where an answer is lost, and the batch is there once."""
    messages = [sink.task(0, 0, "a", "b", "c", "d")]
    with crash_at(point) as crash:
        try:
            sink.commit(*messages)
        except RmqError:
            sink.commit(sink.task(0, 0, "a", "b", "c", "d", run="run-2"))
    assert crash.met
    sink.commit(sink.task(1, 0, "e", run="run-2"))
    assert sink.bodies() == list("abcde")


def test_what_was_read_is_recorded_and_moves_the_group(sink: Sink) -> None:
    """Input ranges stand beside the output in the audit, and the group's offsets are at their end."""
    with Rmq(sink.mq) as rmq:
        rmq.send(sink.name, *"abc")
        queue = rmq.messages(sink.name)[0].queue
    piece = InputRange("readers", queue.topic, queue.broker_name, queue.queue_id, 0, 1)
    keeper = input_keeper(sink.client, f"q-{sink.name}")
    report_input(keeper, f"q-{sink.name}", 0, [piece]).result().raise_for_code()
    sink.commit(sink.task(0, 0, "x"))
    assert_exactly_once(sink.name, namesrv=sink.mq.namesrv)
    (batch,) = audited_batches(sink.client, query_id=f"q-{sink.name}")
    assert batch.inputs == [piece]
    assert (batch.rows, sum(out.toOffset - out.fromOffset for out in batch.outputs)) == (1, 1)
    broker = sink.client.broker(queue.broker_name)
    for _ in range(1_000):  # the coordinator sees to it within its next round, about a second
        if broker.query_offset("readers", queue.topic, queue.queue_id) == 1:
            return
        sink.client.clock.sleep_ms(20)
    pytest.fail("the group has not moved")


@pytest.mark.parametrize("away", ["broker-a", "broker-b"])
def test_what_was_read_is_known_though_a_broker_is_away(sink: Sink, away: str) -> None:
    """Whichever brokers' queues a batch has read, and whichever is gone when the driver asks what that was."""
    attempt = Attempt(sink.name, "run-1", 0, 0, "x", query_id=f"q-{sink.name}", batch_id=0)
    batch = StreamingBatch(attempt.query_id, attempt.batch_id, attempt.run)
    ranges = [QueueRange(MessageQueue(sink.name, name, 0), 0, 7) for name in ("broker-a", "broker-b")]
    for each in ranges:
        tell(sink.client, batch, [each], [QueueLease("readers", "", 0)])
    sink.mq.stop_broker(away)
    try:
        known = inputs_of(sink.client, attempt, (), iter(()))
    finally:
        sink.mq.start_broker(away)
    assert [(piece.brokerName, piece.fromOffset, piece.toOffset) for piece in known] == [
        ("broker-a", 0, 7),
        ("broker-b", 0, 7),
    ]


def test_what_was_read_is_known_though_an_earlier_run_of_the_batch_wakes(sink: Sink) -> None:
    """Its tasks say what they read before they find out that they have lost the leases to it."""
    runs = [Attempt(sink.name, f"run-{n}", 0, 0, "x", query_id=f"q-{sink.name}", batch_id=0) for n in (1, 2)]
    earlier, later = ((run, StreamingBatch(run.query_id, run.batch_id, run.run)) for run in runs)
    read = [QueueRange(MessageQueue(sink.name, "broker-a", 0), 0, 7)]
    for _, batch in (later, earlier):
        tell(sink.client, batch, read, [QueueLease("readers", "me", 7)])
    (known,) = inputs_of(sink.client, later[0], (), iter(()))
    assert (known.run, known.lease, known.toOffset) == ("run-2", 7, 7)


def test_how_it_stands_is_listed(sink: Sink) -> None:
    """What is decided and what is open, with its rows, their bytes and their brokers; what was given up has none."""

    def state() -> TxnState:
        (found,) = [state for state in transactions(sink.client) if state.transactionalId == sink.name]
        return found

    sink.commit(sink.task(0, 0, *"abcd"), sink.task(0, 1, "e"))  # a row for each queue, on two brokers
    decided = state()
    assert (decided.version, decided.lastVersion, decided.rows) == (0, 0, 5)
    assert decided.brokers == ["broker-a", "broker-b"]
    written = sink.task(1, 0, *"fghi")
    still_open = state()
    assert (still_open.version, still_open.lastVersion, still_open.rows) == (1, 0, 4)
    assert still_open.bytes == sum(held.bytes for held in written.held.values())
    assert still_open.brokers == ["broker-a", "broker-b"]
    abort(sink.client, [written])
    given_up = state()
    assert (given_up.version, given_up.lastVersion) == (1, 0)
    assert given_up.rows in (0, 4)  # until the brokers have asked what became of it
    assert given_up.state == "version 1 was given up by driver"


def test_a_query_under_way_goes_on_without_name_servers() -> None:
    """Each micro-batch is committed by a process of its own, which knows what its tasks tell it: whom they have asked,
    and where brokers are. A process that knows brokers finds who owns an id, but none is handed out: it may be owned by
    a broker of which nobody here has heard."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as workers, ClusterClient(mq.namesrv) as others:
        sink = Sink(mq, workers)

        def batch(version: int, *bodies: str) -> None:
            told = pickle.dumps([sink.task(version, number, body) for number, body in enumerate(bodies)])
            with ClusterClient(mq.namesrv) as fresh:
                commit(fresh, TransactionOptions(sink.name), pickle.loads(told))

        batch(0, "a", "b")
        queues = others.subscribe_queues(sink.name)
        mq.stop_name_server(0)
        batch(1, "c", "d")
        ends = [others.broker(queue.broker_name).max_offset(queue.topic, queue.queue_id) for queue in queues]
        assert sum(ends) == 4
        undecided = sink.task(2, 0, "e")
        with ClusterClient(mq.namesrv) as fresh:
            abort(fresh, [undecided])
        assert Coordinator(others, sink.name).prepare("run-2", 1, 0, "f", None).outcome == "ALREADY_COMMITTED"
        with pytest.raises(RmqError, match="No name server says which brokers there are"):
            Coordinator(others, "a-new-query").prepare("run-1", 0, 0, "g", None)
