"""The ledger: who may write, what is decided, and that it is never decided twice."""

from __future__ import annotations

import pytest
from msgspec import structs

from rmqspark.errors import Busy, ForgedEpoch, TransactionError, UnknownTransaction
from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange, OutputRange, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH
from rmqspark.txn.coordinator import ledger as ledger_module
from rmqspark.txn.coordinator.events import (
    CLOCK,
    DRIVER,
    BrokerCompleted,
    EpochClosed,
    Finished,
    decode_event,
    encode_event,
)
from rmqspark.txn.coordinator.ledger import Answer, Ledger
from rmqspark.txn.coordinator.ledger_state import MAX_RUNS

T = "spark-1"
ONE = TxnDecision("q", {"a": [HeldAttempt(0, "x", 1, 10, 100, 7)]}, rows=10, bytes=100, checksum="3")
TWO = TxnDecision("q", {"a": ONE.participants["a"], "b": [HeldAttempt(1, "y", 1, 5, 50, 9)]}, rows=15, bytes=150)
OUT = [OutputRange("topic", "a", 0, 0, 10)]


class Book:
    """A ledger whose events are taken as soon as they are decided, as a coordinator would."""

    def __init__(self, **limits: int) -> None:
        self.ledger = Ledger(**limits)
        self.log: list[bytes] = []

    def take(self, answer: Answer | None) -> Answer:
        assert answer is not None
        self.record(*answer.events)
        return answer

    def record(self, *events: object) -> None:
        for event in events:
            self.log.append(encode_event(event))  # type: ignore[arg-type]
            self.ledger.apply(decode_event(self.log[-1]))

    def prepare(self, run: str, version: int, uptime_ms: int = 0, least_epoch: int = 1) -> Answer:
        return self.take(self.ledger.prepare(T, run, version, "q", uptime_ms, least_epoch=least_epoch))

    def decide(self, run: str, epoch: int, version: int, decision: TxnDecision = ONE) -> Answer:
        answer = self.ledger.decide(T, run, epoch, version, decision)
        return self.take(answer or self.ledger.record(T, epoch, version, decision, 1))

    def close(self, epoch: int, version: int) -> Answer:
        return self.take(self.ledger.close(T, epoch, version, 2))

    def complete(self, version: int, *brokers: str) -> None:
        for broker in brokers:
            self.record(*self.ledger.completed(T, version, {broker: OUT}))

    def replayed(self) -> Ledger:
        again = Ledger()
        for event in self.log:
            again.apply(decode_event(event))
        return again


@pytest.fixture
def book() -> Book:
    return Book()


def outcomes(*answers: Answer) -> list[tuple[str, int]]:
    return [(answer.outcome.value, answer.epoch) for answer in answers]


def test_a_batch_is_written_once(book: Book) -> None:
    """Prepared, decided; the same batch again is answered with what was recorded."""
    assert outcomes(book.prepare("r1", 0), book.decide("r1", 1, 0)) == [("WRITE", 1), ("COMMITTED", 1)]
    again = book.decide("r1", 1, 0)
    assert (again.outcome, again.decision) == (TxnOutcome.ALREADY_COMMITTED, ONE)
    assert outcomes(book.prepare("r2", 0)) == [("ALREADY_COMMITTED", 0)]


def test_a_later_run_of_a_committed_batch_learns_rows_and_checksum(book: Book) -> None:
    """Also when all brokers have completed it and the lists of attempts are gone."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0)
    book.complete(0, "a")
    again = book.decide("r2", 0, 0)
    decision = again.decision
    assert decision is not None
    assert (decision.rows, decision.bytes, decision.checksum, decision.participants) == (10, 100, "3", {"a": []})
    assert (again.outcome, again.epoch, again.last_version) == (TxnOutcome.ALREADY_COMMITTED, 1, 0)


def test_of_versions_before_the_last_only_those_under_way_are_known(book: Book) -> None:
    """Whoever asks about one that is done long since is told nothing of the decision that was made after it."""
    for version in (4, 5):
        book.prepare("r1", version)
        book.decide("r1", 1, version)
    book.complete(5, "a")
    assert [pending.version for pending in book.ledger.require(T).pending] == [4]
    under_way = book.ledger.status(T, 1, 4)
    assert (under_way.outcome, under_way.decision) == (TxnOutcome.COMMITTED, ONE)
    book.complete(4, "a")
    answers = book.ledger.status(T, 1, 4), book.decide("r1", 1, 4)
    told = [(answer.outcome, answer.last_version, answer.decision) for answer in answers]
    assert told == [(TxnOutcome.FENCED, 5, None), (TxnOutcome.STALE, 5, None)]


def test_every_run_gets_a_higher_epoch_and_fences_those_before(book: Book) -> None:
    """A driver that was cut off can neither go on writing nor commit what it wrote."""
    assert outcomes(book.prepare("r1", 0), book.prepare("r2", 0)) == [("WRITE", 1), ("WRITE", 2)]
    assert outcomes(book.prepare("r1", 0), book.decide("r1", 1, 0)) == [("FENCED", 0), ("FENCED", 0)]
    assert outcomes(book.decide("r2", 2, 0)) == [("COMMITTED", 2)]


def test_a_straggler_below_the_last_version_fences_nobody(book: Book) -> None:
    """A run first seen with an old version is told so and gets no epoch."""
    book.prepare("r1", 5)
    book.decide("r1", 1, 5)
    assert outcomes(book.prepare("r9", 4), book.prepare("r9", 5)) == [("STALE", 0), ("ALREADY_COMMITTED", 0)]
    assert outcomes(book.prepare("r1", 6), book.decide("r1", 1, 6)) == [("WRITE", 1), ("COMMITTED", 1)]


def test_a_run_that_was_cut_off_is_told_so_far_below_the_last_version(book: Book) -> None:
    """It would be told of a deleted checkpoint otherwise, and how to write its rows a second time."""
    book.prepare("r1", 0)
    for version in (0, 1):
        book.prepare("r2", version)
        book.decide("r2", 2, version)
    assert outcomes(book.prepare("r1", 0), book.prepare("r2", 0)) == [("FENCED", 0), ("STALE", 0)]
    assert outcomes(book.decide("r1", 1, 0), book.decide("r2", 2, 0)) == [("FENCED", 2), ("STALE", 2)]
    assert outcomes(book.prepare("r1", 1)) == [("ALREADY_COMMITTED", 0)], "there is nothing to be added"


def test_versions_may_begin_anywhere_and_jump(book: Book) -> None:
    """foreachBatch numbers as it likes, as long as it grows."""
    book.prepare("r1", 100)
    book.decide("r1", 1, 100)
    book.prepare("r1", 10**12)
    assert outcomes(book.decide("r1", 1, 10**12)) == [("COMMITTED", 1)]


def test_a_closed_version_is_never_decided_under_its_epoch(book: Book) -> None:
    """A DECIDE that was stuck in a socket while the driver asked for the status comes too late."""
    book.prepare("r1", 0)
    answers = outcomes(book.close(1, 0), book.decide("r1", 1, 0), book.close(1, 0))
    assert answers == [("FENCED", 1), ("FENCED", 0), ("FENCED", 1)]


def test_who_closes_a_version_is_told_whose_turn_it_is(book: Book) -> None:
    """So a driver can tell whether another run has taken over, or nobody but itself has closed the version."""
    book.prepare("r1", 0)
    assert outcomes(book.close(1, 0)) == [("FENCED", 1)]
    book.prepare("r2", 0)
    assert outcomes(book.close(1, 0)) == [("FENCED", 2)]


def test_a_closed_run_may_try_again_under_a_new_epoch(book: Book) -> None:
    """foreachBatch may catch the error and write the batch again in the same run."""
    book.prepare("r1", 0)
    book.close(1, 0)
    assert outcomes(book.prepare("r1", 0), book.decide("r1", 1, 0), book.decide("r1", 2, 0)) == [
        ("WRITE", 2),
        ("FENCED", 0),
        ("COMMITTED", 2),
    ]


def test_an_abort_after_the_decision_does_nothing(book: Book) -> None:
    """It is told that it comes too late."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0)
    late = book.close(1, 0)
    assert (late.outcome, late.decision, late.events) == (TxnOutcome.COMMITTED, ONE, ())


def test_votes_may_come_too_late(book: Book) -> None:
    """A run that took over while the brokers voted wins."""
    book.prepare("r1", 0)
    assert book.ledger.decide(T, "r1", 1, 0, ONE) is None
    book.prepare("r2", 0)
    assert book.take(book.ledger.record(T, 1, 0, ONE, 1)).outcome is TxnOutcome.FENCED


def test_a_participant_is_told_how_its_halves_stand(book: Book) -> None:
    """Open, committed, and not to be written any more or at all are told apart; and which epoch is the newest."""
    book.prepare("r1", 0)
    assert book.ledger.status(T, 1, 0).outcome is TxnOutcome.UNKNOWN
    book.decide("r1", 1, 0)
    assert (book.ledger.status(T, 1, 0).outcome, book.ledger.status(T, 1, 0).epoch) == (TxnOutcome.COMMITTED, 1)
    book.prepare("r2", 1)
    stands = [book.ledger.status(T, epoch, 1) for epoch in (1, 2, 3)]
    assert outcomes(*stands) == [("FENCED", 2), ("UNKNOWN", 2), ("FENCED", 2)]
    assert book.ledger.status(T, 2, 2).outcome is TxnOutcome.FENCED  # a version from the future
    book.close(2, 1)
    assert [book.ledger.status(T, 2, version).outcome for version in (1, 2)] == [TxnOutcome.FENCED] * 2


def test_after_a_start_any_version_may_have_been_begun(book: Book) -> None:
    """A power loss may have taken the note, until an attempt says which version it is about."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0)
    book.ledger.start()
    assert book.ledger.status(T, 1, 1).outcome is TxnOutcome.UNKNOWN
    assert book.ledger.status(T, 2, 1).outcome is TxnOutcome.FENCED
    book.prepare("r1", 1)
    assert [book.ledger.status(T, 1, version).outcome for version in (1, 2)] == [TxnOutcome.UNKNOWN, TxnOutcome.FENCED]


def test_a_driver_closes_also_what_was_forgotten_to_be_begun(book: Book) -> None:
    """A power loss may take the note that a version was begun; what its driver was told is closed stays closed."""
    book.prepare("r1", 0)
    assert outcomes(book.close(1, 5)) == [("FENCED", 1)]
    assert book.prepare("r1", 5).epoch == 2
    assert outcomes(book.decide("r1", 1, 5)) == [("FENCED", 0)]


@pytest.mark.parametrize(("epoch", "version"), [(2, 0), (1, 7)])
def test_a_driver_whose_coordinator_has_forgotten_is_told_what_to_do(book: Book, epoch: int, version: int) -> None:
    """The note of its epoch, or of its version, may have gone with the power, or be lacking on a slave."""
    book.prepare("r1", 0)
    with pytest.raises(TransactionError, match="Start the query again"):
        book.decide("r1", epoch, version)


@pytest.mark.parametrize(
    ("run", "epoch", "version", "decision", "error"),
    [
        ("r1", 2, 0, ONE, ForgedEpoch),
        ("old", 2, 0, ONE, ForgedEpoch),
        ("r1", 2**62, 0, ONE, ForgedEpoch),
        ("r1", 1, 7, ONE, UnknownTransaction),
        ("r1", 1, 0, TxnDecision(rows=1), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, participants={**ONE.participants, "b": []}), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, participants={"b" * 256: ONE.participants["a"]}), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, queryId="q" * 256), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, topic="t" * 256), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, checksum="9" * 21), TransactionError),
        ("r1", 1, 0, structs.replace(ONE, checksum="-1"), TransactionError),
        (
            "r1",
            1,
            0,
            TxnDecision(participants={"a": [HeldAttempt(0, "x", 1, 1), HeldAttempt(0, "y", 1, 1)]}, rows=2),
            TransactionError,
        ),
        ("r1", 1, 0, structs.replace(ONE, participants={"a": [HeldAttempt(0, "x", 1, 5)] * 2}), TransactionError),
        *(
            ("r1", 1, 0, structs.replace(ONE, participants={"a": [*ONE.participants["a"], nothing]}), TransactionError)
            for nothing in (HeldAttempt(1, "y"), HeldAttempt(1, "y", halves=1))
        ),
        ("r1", 1, 0, TxnDecision(participants={"a": [HeldAttempt(0, "x", rows=10)]}, rows=10), TransactionError),
        (
            "r1",
            1,
            0,
            TxnDecision(participants={"a": [HeldAttempt(0, "x", 1, 1)], "b": [HeldAttempt(0, "y", 1, 1)]}, rows=2),
            TransactionError,
        ),
    ],
)
def test_a_forged_decision_is_refused(
    book: Book, run: str, epoch: int, version: int, decision: TxnDecision, error: type[Exception]
) -> None:
    """An epoch nobody was given, a version from the future, two attempts of one partition, names without end: named,
    and nothing done."""
    book.prepare("r1", 0)
    before = list(book.log)
    with pytest.raises(error):
        book.decide(run, epoch, version, decision)
    assert book.log == before
    assert outcomes(book.decide("r1", 1, 0)) == [("COMMITTED", 1)]


def test_a_decision_may_be_about_one_row_and_have_long_names(book: Book) -> None:
    """Brokers, topics and queries may have names as long as ids."""
    longest = "n" * MAX_TRANSACTIONAL_ID_LENGTH
    book.prepare("r1", 0)
    decision = TxnDecision(longest, {longest: [HeldAttempt(0, "x", 1, 1)]}, rows=1, topic=longest)
    assert book.decide("r1", 1, 0, decision).outcome is TxnOutcome.COMMITTED


def test_an_unknown_id_is_refused(book: Book) -> None:
    """Nothing is decided about an id that nobody has prepared."""
    for call in (lambda: book.decide("r1", 1, 0), lambda: book.close(1, 0), lambda: book.ledger.status(T, 1, 0)):
        with pytest.raises(UnknownTransaction, match=T):
            call()


def test_a_decision_is_kept_until_every_broker_has_it_on_disk(book: Book) -> None:
    """Then it is finished, with all its outputs for the audit."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0, TWO)
    assert isinstance(book.ledger.completed(T, 0, {"b": OUT})[0], BrokerCompleted)
    book.complete(0, "b", "b")
    (finished,) = book.ledger.completed(T, 0, {"a": OUT})
    assert isinstance(finished, Finished)
    assert (finished.batch.completed, len(finished.batch.outputs), finished.batch.rows) == (True, 2, 15)
    book.record(finished)
    assert book.ledger.completed(T, 0, {"a": OUT}) == []
    assert book.ledger.require(T).pending == []


def test_brokers_that_are_done_together_finish_a_decision(book: Book) -> None:
    """Nobody has to be the last one."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0, TWO)
    (finished,) = book.ledger.completed(T, 0, {"b": OUT, "a": OUT})
    assert isinstance(finished, Finished)
    book.record(finished)
    assert book.ledger.require(T).pending == []


def test_too_many_unfinished_versions_are_refused(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is down for hours does not fill the coordinator's memory."""
    monkeypatch.setattr(ledger_module, "MAX_PENDING", 3)
    for version in range(3):
        book.prepare("r1", version)
        book.decide("r1", 1, version)
    with pytest.raises(Busy, match="wait for a"):
        book.prepare("r1", 3)
    book.complete(0, "a")
    assert book.prepare("r1", 3).outcome is TxnOutcome.WRITE


def test_too_many_ids_are_refused() -> None:
    """Made-up ids cannot fill the coordinator's memory either."""
    book = Book(max_transactions=1)
    book.prepare("r1", 0)
    with pytest.raises(Busy, match="takes no more.*transactional_id_expiration"):
        book.ledger.prepare("another", "r", 0, "", 0)


def test_runs_are_remembered_but_not_for_ever(book: Book) -> None:
    """The newest are fenced by name; one from long ago gets a new epoch, as a new run would."""
    for number in range(MAX_RUNS + 5):
        book.prepare(f"r{number}", 0)
    assert book.prepare("r6", 0).outcome is TxnOutcome.FENCED
    assert len(book.ledger.require(T).runs) == MAX_RUNS


def test_what_nobody_writes_any_more_is_closed_by_the_clock(book: Book) -> None:
    """A driver that died and never came back leaves nothing open for ever."""
    book.prepare("r1", 0, uptime_ms=1_000)
    assert book.ledger.overdue(1_999, 1_000, 7) == []
    (closed,) = book.ledger.overdue(2_000, 1_000, 7)
    assert isinstance(closed, EpochClosed)
    book.record(closed)
    assert (book.ledger.require(T).is_open, book.ledger.overdue(9_000, 1_000, 7)) == (False, [])
    assert book.ledger.status(T, 1, 0).outcome is TxnOutcome.FENCED


def test_a_driver_is_told_who_gave_its_version_up(book: Book) -> None:
    """The setting, where it was the clock; the name of an operator. What it has done itself it knows."""
    for by, story in ((CLOCK, "transaction_max_open"), ("ann@host", "ann@host has rolled"), (DRIVER, "")):
        epoch = book.prepare(f"closed by {by}", 0).epoch
        book.take(book.ledger.close(T, epoch, 0, 2, by))
        told = (
            book.decide(f"closed by {by}", epoch, 0),
            book.ledger.record(T, epoch, 0, ONE, 3),
            book.close(epoch, 0),
        )
        assert [answer.outcome for answer in told] == [TxnOutcome.FENCED] * 3
        assert all(story in (answer.reason or "") and bool(answer.reason) == bool(story) for answer in told)


def test_a_driver_is_told_nothing_of_other_runs(book: Book) -> None:
    """Whoever was overtaken was not given up."""
    first, second = book.prepare("r1", 0).epoch, book.prepare("r2", 0).epoch
    assert (book.decide("r1", first, 0).reason, book.decide("r1", 0, 0).reason) == (None, None)
    book.take(book.ledger.close(T, second, 0, 2, CLOCK))
    assert (book.decide("r1", first, 0).reason, book.decide("r1", 0, 0).reason) == (None, None)
    assert book.decide("r2", second, 0).reason


def test_a_version_whose_attempts_go_on_stays_open(book: Book) -> None:
    """A batch may take hours, as long as tasks of it begin now and then."""
    for uptime_ms in range(0, 100_000, 7_000):
        book.prepare("r1", 0, uptime_ms)
    assert book.ledger.overdue(100_000, 30_000, 7) == []
    assert len(book.log) < 10  # which costs an event now and then
    assert len(book.ledger.overdue(200_000, 30_000, 7)) == 1


def test_ages_go_on_where_a_ledger_ends(book: Book) -> None:
    """However long ago that was, and whether or not it was restated since."""
    book.prepare("r1", 0, uptime_ms=5_000)
    assert book.replayed().uptime_ms == 5_000
    book.log = [encode_event(event) for event in book.ledger.restated(T)]
    assert book.replayed().uptime_ms == 5_000


def test_only_what_is_done_is_forgotten(book: Book) -> None:
    """An id that is idle for months goes, one with something left to do stays."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0)
    assert book.ledger.disused(10**12, 1) == []
    book.complete(0, "a")
    book.record(*book.ledger.disused(10**12, 1))
    assert T not in book.ledger


def test_an_id_that_was_forgotten_goes_on_above_its_epochs(book: Book) -> None:
    """Brokers remember the epochs they have seen, and would take nothing of the new run under an older one."""
    start_ms, months_ms = 1_700_000_000_000, 10**10
    epochs = [book.prepare(f"r{number}", 0, least_epoch=start_ms).epoch for number in range(100)]
    book.decide("r99", epochs[-1], 0)
    book.complete(0, "a")
    book.record(*book.ledger.disused(months_ms, months_ms))
    assert T not in book.ledger
    assert book.prepare("again", 1, least_epoch=start_ms + months_ms).epoch > max(epochs)


def test_the_same_events_make_the_same_ledger(book: Book) -> None:
    """Whatever was answered is still so after a restart, also when it was restated."""
    book.prepare("r1", 0)
    book.decide("r1", 1, 0, TWO)
    book.complete(0, "a")
    book.prepare("r1", 1)
    book.close(1, 1)
    state = book.ledger.require(T)
    assert book.replayed().require(T) == state
    restated = [encode_event(event) for event in book.ledger.restated(T)]
    assert len(restated) == 2  # one of them what broker b has not completed
    torn = [*book.log, restated[0]]
    for log in (restated, torn, [*torn, *restated]):
        book.log = log
        assert book.replayed().require(T) == state


def test_an_empty_batch_counts(book: Book) -> None:
    """It moves the version and the input. No broker has anything to complete; it is kept until its groups follow."""
    inputs = [InputRange("g", "t", "b", 0, 5, 9)]
    book.prepare("r1", 0)
    book.take(book.ledger.record(T, 1, 0, TxnDecision("q", inputs=inputs), 1))
    assert book.ledger.completed(T, 0, {}, may_finish=False) == []
    book.record(*book.ledger.completed(T, 0, {}))
    finished = decode_event(book.log[-1])
    assert isinstance(finished, Finished)
    assert (finished.batch.completed, finished.batch.inputs, finished.batch.version) == (True, inputs, 0)
    assert (book.ledger.require(T).pending, book.ledger.require(T).last_version) == ([], 0)
