"""What the driver makes of the messages of its tasks, over a coordinator that answers as the test says."""

from __future__ import annotations

import logging
import pickle
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.known_coordinators import KnownCoordinators
from rmqspark.errors import (
    Busy,
    ConnectionLost,
    Fenced,
    InDoubt,
    NotCommitted,
    ReplayMismatch,
    RequestTimeout,
    RmqError,
    StaleVersion,
    TransactionError,
)
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.bodies.txn import AuditedBatch, AuditedBatches, HeldAttempt, InputRange, InputRanges, TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.commit import abort, commit
from rmqspark.sink.transactions.inputs import joined, leased_queues
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.txn.coordinator.decisions import figures

if TYPE_CHECKING:
    import msgspec

LOST = ConnectionLost("cut", address="h:1")
PREPARE, DECIDE = RequestCode.RMQ_TXN_PREPARE, RequestCode.RMQ_TXN_DECIDE
STATUS, ABORT, INPUTS = RequestCode.RMQ_TXN_STATUS, RequestCode.RMQ_TXN_ABORT, RequestCode.RMQ_TXN_INPUTS


class Cluster:
    """One broker that gives what it is told to for each kind of request, the last answer for ever."""

    namesrv = "ns:1"
    name = "a"

    def __init__(self, **answers: list[dict[str, str] | RmqError]) -> None:
        self.clock = ManualClock()
        self.coordinators = KnownCoordinators()
        self.answers = {RequestCode[f"RMQ_TXN_{name}"]: list(given) for name, given in answers.items()}
        self.asked: list[RequestCode] = []
        self.decisions: list[TxnDecision] = []

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(brokerAddrTable={"a": BrokerData(brokerName="a", brokerAddrs={0: "h:1"})})

    def hear(self, masters: dict[str, str]) -> None:
        pass

    def known_masters(self) -> dict[str, str]:
        return {}

    def broker(self, name: str) -> Cluster:
        return self

    def capabilities(self) -> Capabilities:
        return Capabilities(transactions=1)

    def call(self, code: RequestCode, header: msgspec.Struct, body: bytes = b"", *, timeout_ms: int) -> Response:
        self.asked.append(code)
        if code == DECIDE:
            self.decisions.append(TxnDecision.decode(body))
        given = self.answers[code]
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, RmqError):
            raise answer
        return Response(0, 1, answer.get("remark"), 479, answer, answer.get("body", "").encode())


def message(partition: int, rows: int = 10, *, epoch: int = 4, brokers: str = "a") -> AttemptWritten:
    attempt = Attempt("T", "run-1", 7, partition, f"{partition}-x", epoch=epoch)
    held = {name: HeldAttempt(partition, attempt.name, 1, rows, 100, 5) for name in brokers} if epoch else {}
    return AttemptWritten(attempt, rows, 1000, held)


def run(cluster: Cluster, *messages: AttemptWritten, options: TransactionOptions | None = None) -> None:
    travelled = pickle.loads(pickle.dumps(list(messages)))
    commit(cluster, options or TransactionOptions(), travelled)  # type: ignore[arg-type]


def recorded(rows: int, checksum: int) -> str:
    return TxnDecision(rows=rows, checksum=str(checksum)).encode().decode()


def test_what_is_decided() -> None:
    """Attempts by broker, rows and checksum over all tasks; a task without rows has its say too."""
    cluster = Cluster(DECIDE=[{"outcome": "COMMITTED"}])
    run(cluster, message(0, brokers="ab"), message(1, brokers="b"), message(2, 0, brokers=""))
    decision = cluster.decisions[0]
    assert {name: [held.partition for held in attempts] for name, attempts in decision.participants.items()} == {
        "a": [0],
        "b": [0, 1],
    }
    assert (decision.rows, decision.bytes, decision.checksum) == (20, 300, "3000")


@pytest.mark.parametrize("version", [None, 7])
def test_who_numbered_a_version_is_recorded(version: int | None) -> None:
    """A stream writes each of its versions; whoever writes under a number of his own may leave some out."""
    cluster = Cluster(DECIDE=[{"outcome": "COMMITTED"}])
    run(cluster, message(0), options=TransactionOptions("T", version))
    assert cluster.decisions[0].ownVersion == (version is not None)


def test_without_tasks_there_is_nothing_to_decide() -> None:
    """No version has begun, and nobody is asked."""
    cluster = Cluster()
    run(cluster)
    abort(cluster, [])  # type: ignore[arg-type]
    assert cluster.asked == []


def test_a_coordinator_that_restarts_is_asked_again() -> None:
    """A lost answer costs a pause: the second DECIDE is answered ALREADY_COMMITTED, and that is success."""
    cluster = Cluster(DECIDE=[LOST, LOST, {"outcome": "ALREADY_COMMITTED", "body": recorded(10, 1000)}])
    run(cluster, message(0))
    assert cluster.asked == [DECIDE] * 3


def test_without_an_answer_the_version_is_closed_before_anything_is_raised() -> None:
    """STATUS decides whether a batch in doubt was committed; only what is closed may be run again."""
    cluster = Cluster(DECIDE=[LOST], STATUS=[LOST, {"outcome": "COMMITTED", "body": recorded(10, 1000)}])
    begun_ms = cluster.clock.monotonic_ms()
    run(cluster, message(0))
    assert cluster.asked == [DECIDE] * (len(cluster.asked) - 2) + [STATUS] * 2
    assert cluster.clock.monotonic_ms() - begun_ms > 60_000
    with pytest.raises(Fenced):
        run(Cluster(DECIDE=[LOST], STATUS=[{"outcome": "FENCED"}]), message(0))
    silent = Cluster(DECIDE=[LOST], STATUS=[LOST])
    begun_ms = silent.clock.monotonic_ms()
    with pytest.raises(InDoubt, match="Nothing is lost or doubled either way"):
        run(silent, message(0))
    assert 60_000 < silent.clock.monotonic_ms() - begun_ms < 75_000, "it is waited for once, not for each question"


def test_a_broker_that_is_restarting_is_waited_for() -> None:
    """Its vote is asked for again; if it stays away the batch is given up, and the error says whom it waited for."""
    run(Cluster(DECIDE=[Busy("b: away"), Busy("b: away"), {"outcome": "COMMITTED"}]), message(0))
    with pytest.raises(NotCommitted, match="b: away"):
        run(Cluster(DECIDE=[Busy("b: away")], STATUS=[{"outcome": "FENCED"}]), message(0))


def test_a_run_that_gave_its_version_up_is_not_told_that_another_has_taken_over() -> None:
    """Where no newer epoch was handed out nobody has: the error names who did not answer, and what was waited for."""
    told = {"outcome": "FENCED", "epoch": "4", "lastVersion": "6", "remark": "b: not complete"}
    hung, busy = RequestTimeout("h:1 did not answer."), Busy("b: away")
    for failure, story in (hung, "committed: h:1 did not answer. b: not complete Nothing"), (busy, "b: away Nothing"):
        with pytest.raises(NotCommitted, match=story):
            run(Cluster(DECIDE=[failure], STATUS=[told]), message(0))
        for others in {"epoch": "5"}, {"lastVersion": "8"}:
            with pytest.raises(Fenced, match="another run has taken over"):
                run(Cluster(DECIDE=[failure], STATUS=[{**told, **others}]), message(0))


@pytest.mark.parametrize(
    ("answer", "error", "story"),
    [
        ({"outcome": "FENCED"}, Fenced, "another run has taken over.*let that one go on and stop this one"),
        (
            {"outcome": "FENCED", "remark": "nobody was heard of for transaction_max_open."},
            Fenced,
            "closed to this run.*: nobody was heard of for transaction_max_open. Nothing.*start the query again",
        ),
        ({"outcome": "STALE", "lastVersion": "9"}, Fenced, "another run has taken over"),
        ({"outcome": "REFUSED", "remark": "broker-b holds 1 of 2 halves"}, NotCommitted, "broker-b holds 1 of 2"),
        (TransactionError("forged"), TransactionError, "forged"),
    ],
)
def test_refusals_say_what_they_mean(answer: dict[str, str] | RmqError, error: type[RmqError], story: str) -> None:
    """The error says what became of the rows and what to do."""
    with pytest.raises(error, match=story):
        run(Cluster(DECIDE=[answer]), message(0))


def test_a_version_that_became_stale_while_its_tasks_read() -> None:
    """Tasks that were told that it was committed, and versions above it since: the two ways on are named."""
    story = (
        "Version 7 of transactional id 'T' is below the last one that was committed, 9: the checkpoint was deleted "
        "or restored.*new transactionalId.*onStaleVersion=skip"
    )
    with pytest.raises(StaleVersion, match=story):
        run(Cluster(DECIDE=[{"outcome": "STALE", "lastVersion": "9"}]), message(0, epoch=0))


def test_a_run_that_was_overtaken_in_the_middle_of_a_batch() -> None:
    """Some of its tasks were allowed to write, later ones found the batch committed: it was cut off, no more."""
    cluster = Cluster(DECIDE=[{"outcome": "STALE", "lastVersion": "9"}])
    for messages in ([message(0), message(1, epoch=0)], [message(0, epoch=0), message(1)]):
        with pytest.raises(Fenced, match="another run has taken over"):
            run(cluster, *messages)


def test_a_batch_that_comes_again_is_compared(caplog: pytest.LogCaptureFixture) -> None:
    """Equal rows in whatever tasks are fine; others are a warning with both figures, or an error if asked for."""
    cluster = Cluster(DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": recorded(20, 2000)}])
    with caplog.at_level(logging.WARNING):
        run(cluster, message(0, 19, epoch=0), message(1, 1, epoch=0))
        assert not caplog.records
        run(cluster, message(0, 19, epoch=0))
    assert "committed with 20 rows (checksum 2000); run again, it has 19 rows (checksum 1000)" in caplog.text
    with pytest.raises(ReplayMismatch, match="nothing was added.*set onReplayMismatch=warn"):
        run(cluster, message(0), options=TransactionOptions(fail_on_mismatch=True))
    as_many = "committed with 20 rows .checksum 2000.; run again, it has 20 rows .checksum 1000."
    with pytest.raises(ReplayMismatch, match=as_many):
        run(cluster, message(0, 20), options=TransactionOptions(fail_on_mismatch=True))


def test_a_second_topic_under_one_id_is_no_replay(caplog: pytest.LogCaptureFixture) -> None:
    """Two writes of one batch under one id and version: the second is told that nothing was written."""
    body = TxnDecision(rows=10, checksum="1000", topic="t").encode().decode()
    cluster = Cluster(DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": body}])
    run(cluster, replace(message(0), topic="t"), options=TransactionOptions("job", 7))
    run(cluster, message(0), options=TransactionOptions("job", 7))  # its topics are a column's
    with pytest.raises(ReplayMismatch, match="was committed to topic 't', so nothing was written to 'u'"):
        run(cluster, replace(message(0), topic="u"), options=TransactionOptions("job", 7))
    assert not caplog.records
    run(cluster, replace(message(0), topic="u"))  # a stream whose topic was changed goes on
    assert "so nothing was written to 'u'" in caplog.text


PLANNED = [InputRange("g", "t", "a", 0, 0, 5), InputRange("g", "t", "a", 1, 0, 5)]
SPARKS_RUN = "6f1b8a4e-0a51-4a53-9a3e-2f0a5c8b7d11"


def test_a_second_write_of_one_batch_is_no_replay() -> None:
    """Other rows under the id and version that this very batch has written under are an error, not a warning: nobody
    else would ever write them."""
    decision = figures(TxnDecision("q", rows=10, checksum="1000", run=SPARKS_RUN, batchId=7, ownVersion=True))
    cluster = Cluster(
        DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": decision.encode().decode()}],
        INPUTS=[{"body": InputRanges(PLANNED).encode().decode()}],
    )
    second, again = message(0, 3, epoch=0), message(0, epoch=0)
    for one in (second, again):
        one.attempt = Attempt("T", SPARKS_RUN, 1_000, 0, "x", query_id="q", batch_id=7)
    with pytest.raises(ReplayMismatch, match="before in this very batch, 7"):
        run(cluster, second, options=TransactionOptions("T", 1_000))
    run(cluster, again, options=TransactionOptions("T", 1_000))  # the same rows may come again


def test_a_batch_of_another_query_is_not_taken_for_this_one(caplog: pytest.LogCaptureFixture) -> None:
    """A deleted checkpoint begins again at batch 0: where that was the last one, its new rows are not passed over in
    silence. Versions that users number are the same batch, whichever query writes them."""
    body = TxnDecision("old", rows=10, checksum="1000").encode().decode()
    cluster = Cluster(DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": body}], INPUTS=[{"body": "{}"}])
    mine = message(0, epoch=0)
    mine.attempt = Attempt("T", "run-1", 7, 0, "x", query_id="new", batch_id=7)
    with pytest.raises(StaleVersion, match=r"committed by another query, old: the checkpoint was deleted.*skip"):
        run(cluster, mine)
    run(cluster, mine, options=TransactionOptions(skip_stale=True))
    assert "another query's and skipped" in caplog.text
    run(cluster, mine, options=TransactionOptions("T", 7))


def test_foreach_batch_over_a_deleted_checkpoint_is_not_taken_for_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    """Its batch 7 has other rows than the one that another query committed under the number 7. The same rows may come
    again, and so may others where the user's numbers are not the batches'."""
    decision = TxnDecision("old", rows=10, checksum="1000", ownVersion=True, run=SPARKS_RUN, batchId=7)
    cluster = Cluster(
        DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": decision.encode().decode()}], INPUTS=[{"body": "{}"}]
    )
    same, other, numbered = message(0, epoch=0), message(0, 15, epoch=0), message(0, 15, epoch=0)
    same.attempt = other.attempt = Attempt("T", "run-1", 7, 0, "x", query_id="new", batch_id=7)
    numbered.attempt = Attempt("T", "run-1", 7, 0, "x", query_id="new", batch_id=3)
    run(cluster, same, options=TransactionOptions("T", 7))
    with pytest.raises(StaleVersion, match=r"committed by another query, old: the checkpoint was deleted.*skip"):
        run(cluster, other, options=TransactionOptions("T", 7))
    run(cluster, other, options=TransactionOptions("T", 7, skip_stale=True))
    assert "another query's and skipped" in caplog.text
    run(cluster, numbered, options=TransactionOptions("T", 7))
    assert "run again, it has 15 rows" in caplog.text


def test_a_stream_is_told_that_another_write_has_taken_its_version() -> None:
    """It would go on behind rows that nobody has written."""
    decision = TxnDecision("", rows=10, checksum="1000", ownVersion=True, topic="elsewhere")
    cluster = Cluster(
        DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": decision.encode().decode()}], INPUTS=[{"body": "{}"}]
    )
    mine = message(0, epoch=0)
    mine.attempt, mine.topic = Attempt("T", "run-1", 7, 0, "x", query_id="q", batch_id=7), "here"
    story = r"committed by a write that gives its own versions \(transactionVersion\): .*skip"
    with pytest.raises(StaleVersion, match=story):
        run(cluster, mine)
    mine.topic = "elsewhere"
    run(cluster, mine)  # the same rows: nothing is left out


@pytest.mark.parametrize(
    ("now", "story"),
    [
        (PLANNED, ""),
        (PLANNED[:1], ""),  # the other one's topic is gone
        ([*PLANNED, InputRange("g", "t", "a", 2, 7, 7)], ""),
        ([PLANNED[0], InputRange("g", "t", "a", 1, 5, 9, topicEpoch=1)], ""),  # its group was set there, for one
        ([PLANNED[0], InputRange("g", "t", "a", 1, 0, 9)], "t/a/1 is read up to offset 9 now, and was up to 5 then"),
        ([PLANNED[0], InputRange("g", "t", "a", 1, 0, 3)], "t/a/1 is read up to offset 3 now, and was up to 5 then"),
        ([*PLANNED, InputRange("g", "t", "a", 2, 0, 1)], "t/a/2 is read up to offset 1 now, and was not at all then"),
        ([*PLANNED, InputRange("g", "t", "a", 2, 0, 1, "m", 4, "run-1")], ""),  # by a run that is over
        ([*PLANNED, InputRange("g", "t", "a", 2, 0, 1, "m", 4, "run-2")], ""),  # another member's, when it was decided
        (
            [PLANNED[0], InputRange("g", "t", "a", 1, 0, 9, "m", 4, "run-2")],
            "t/a/1 is read up to offset 9 now, and was up to 5 then",
        ),
    ],
)
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_batch_that_was_planned_anew_is_not_taken_for_the_old_one(
    now: list[InputRange], story: str, is_finished: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the checkpoint lost its end, Spark gives the last batch's number to other messages: they are not passed
    over in silence. A batch that reads what it read before is the same one, whatever became of its rows."""
    decision = TxnDecision("q", rows=10, checksum="1000", inputs=PLANNED, topic="t")
    batch = AuditedBatch("T", "q", 7, inputs=PLANNED)
    answers = {
        "outcome": "ALREADY_COMMITTED",
        "body": (figures(decision) if is_finished else decision).encode().decode(),
    }
    told = {"body": AuditedBatches([AuditedBatch("T", "q", 6), batch]).encode().decode()}
    cluster = Cluster(DECIDE=[answers], INPUTS=[{"body": InputRanges(now).encode().decode()}], AUDIT=[told])
    again = message(0, 12, epoch=0)
    again.attempt = Attempt("T", "run-2", 7, 0, "x", query_id="q", batch_id=7)
    with pytest.raises(StaleVersion, match=rf"another batch of this number: {story}\.") if story else nullcontext():
        run(cluster, again)
    run(cluster, again, options=TransactionOptions(skip_stale=True))
    assert ("was another batch and is skipped" in caplog.text) is bool(story)
    elsewhere = replace(again, topic="copies")  # as of a copied checkpoint, whose query writes to another topic
    with pytest.raises(StaleVersion, match="another batch") if story else nullcontext():
        run(cluster, elsewhere)
    assert ("nothing was written to 'copies'" in caplog.text) is not bool(story)
    again.attempt = again.attempt._replace(version=20261125)  # the user's number, which is the batch
    run(cluster, again, options=TransactionOptions("T", 20261125))


def test_what_a_batch_had_read_may_not_be_known_any_more(caplog: pytest.LogCaptureFixture) -> None:
    """Then its rows are compared, as ever."""
    decision = TxnDecision("q", rows=10, checksum="1000").encode().decode()
    cluster = Cluster(
        DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": decision}],
        INPUTS=[{"body": InputRanges(PLANNED).encode().decode()}],
        AUDIT=[{"body": "{}"}, RequestTimeout("silent")],
    )
    again = message(0, 12, epoch=0)
    again.attempt = Attempt("T", "run-2", 7, 0, "x", query_id="q", batch_id=7)
    for _ in range(2):
        run(cluster, again)
    assert caplog.text.count("run again, it has 12 rows") == 2
    assert "What version 7 of T had read cannot be found out: silent" in caplog.text


def test_a_skipped_version_is_not_decided() -> None:
    """onStaleVersion=skip leaves no trace, also where a task had begun to write before another run went on."""
    cluster = Cluster()
    skipped = message(0, epoch=0)
    skipped.skipped = True
    run(cluster, skipped)
    run(cluster, message(1), skipped)
    assert cluster.asked == []


def test_aborts_go_to_the_coordinator_and_never_fail() -> None:
    """abort closes the version if any task wrote; what cannot be said is left to time out."""
    cluster = Cluster(ABORT=[LOST])
    abort(cluster, [message(0, epoch=0)])  # type: ignore[arg-type]
    assert cluster.asked == []
    abort(cluster, [message(0, epoch=0), message(1)])  # type: ignore[arg-type]
    assert cluster.asked == [ABORT]


def test_inputs_travel_with_the_decision(caplog: pytest.LogCaptureFixture) -> None:
    """What the batch has read is recorded with it, each range once; a batch is not held up by what cannot be had."""
    pieces = [
        InputRange("g", "t", "a", 0, 5, 9),
        InputRange("g", "t", "a", 0, 0, 5),
        InputRange("g", "t", "a", 0, 0, 9),
    ]
    reported = InputRanges(pieces).encode().decode()
    told = message(0)
    told.attempt = Attempt("T", "run-1", 7, 0, "x", epoch=4, query_id="q", batch_id=7)
    cluster = Cluster(DECIDE=[{"outcome": "COMMITTED"}], INPUTS=[{"body": reported}])
    run(cluster, told)
    assert cluster.decisions[0].inputs == [InputRange("g", "t", "a", 0, 0, 9)]
    cluster = Cluster(DECIDE=[{"outcome": "COMMITTED"}], INPUTS=[LOST])
    run(cluster, told)
    assert cluster.decisions[0].inputs == []
    assert "is not recorded" in caplog.text


def test_what_an_earlier_run_read_of_a_shared_group_is_not_told() -> None:
    """A batch that is run again leaves out queues that were given to others since: they are not its inputs."""
    pieces = [
        InputRange("g", "t", "a", 0, 0, 5, "m", 1, "run-0"),
        InputRange("g", "t", "a", 1, 0, 5, "m", 2, "run-1"),
        InputRange("h", "u", "a", 0, 0, 5),
    ]
    told = message(0)
    told.attempt = Attempt("T", "run-1", 7, 0, "x", epoch=4, query_id="q", batch_id=7)
    cluster = Cluster(DECIDE=[{"outcome": "COMMITTED"}], INPUTS=[{"body": InputRanges(pieces).encode().decode()}])
    run(cluster, told)
    assert cluster.decisions[0].inputs == pieces[1:]


def leased(*queues: int, run: str = "run-1") -> list[InputRange]:
    return [InputRange("g", "t", "a", queue, 0, 5, "m", 1 + queue, run) for queue in queues]


@pytest.mark.parametrize(("held", "is_compared"), [((0,), True), ((0, 1), False), ((), False)])
def test_a_batch_that_comes_again_is_compared_if_it_read_the_same_queues(
    held: tuple[int, ...], is_compared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a shared group queues may have been given to another member since it was committed: then it has fewer rows
    than were committed, rightly, and both figures are told. What runs before that had read does not matter."""
    pieces = leased(0) + leased(1, run="run-0")
    told = message(0, 0, epoch=0)
    told.attempt = Attempt("T", "run-1", 7, 0, "x", query_id="q", batch_id=7)
    recorded = TxnDecision("q", rows=10, checksum="1000", leasedQueues=leased_queues(leased(*held)))
    answers = {"outcome": "ALREADY_COMMITTED", "body": figures(recorded).encode().decode()}
    read = {"body": InputRanges(pieces).encode().decode()}
    cluster = Cluster(DECIDE=[answers], INPUTS=[read], AUDIT=[{"body": "{}"}])
    with pytest.raises(ReplayMismatch) if is_compared else nullcontext():
        run(cluster, told, options=TransactionOptions(fail_on_mismatch=True))
    assert cluster.decisions[0].leasedQueues == leased_queues(leased(0))
    assert ("10 rows (checksum 1000); run again, it has" in caplog.text) is not is_compared


@pytest.mark.parametrize(
    ("queues", "read_to_now", "is_known"), [(1, 5, False), (1, 9, True), (32, 9, True), (33, 9, False)]
)
def test_a_batch_planned_anew_is_known_when_its_audit_has_expired(
    queues: int, read_to_now: int, is_known: bool
) -> None:
    """Its checkpoint has lost its end. The ledger remembers how far few queues were read as long as it knows the id."""
    told = message(0, 0, epoch=0)
    told.attempt = Attempt("T", "run-1", 7, 0, "x", query_id="q", batch_id=7)
    then, now = (
        [InputRange("g", "t", "a", queue, first, first + 4) for first in range(1, end, 4) for queue in range(queues)]
        for end in (5, read_to_now)
    )
    recorded = figures(figures(TxnDecision("q", rows=10, checksum="1000", inputs=then)))
    cluster = Cluster(
        DECIDE=[{"outcome": "ALREADY_COMMITTED", "body": recorded.encode().decode()}],
        INPUTS=[{"body": InputRanges(now).encode().decode()}],
        AUDIT=[{"body": "{}"}],
    )
    with pytest.raises(StaleVersion if is_known else ReplayMismatch):
        run(cluster, told, options=TransactionOptions(fail_on_mismatch=True))


def test_ranges_of_tasks_that_ran_twice() -> None:
    """Overlaps are joined; gaps and other queues stay apart."""
    given = [
        InputRange("g", "t", "a", 1, 0, 4),
        InputRange("g", "t", "a", 0, 6, 8),
        InputRange("g", "t", "a", 0, 0, 3),
        InputRange("g", "t", "a", 0, 2, 5),
    ]
    assert joined(given) == [
        InputRange("g", "t", "a", 0, 0, 5),
        InputRange("g", "t", "a", 0, 6, 8),
        InputRange("g", "t", "a", 1, 0, 4),
    ]
