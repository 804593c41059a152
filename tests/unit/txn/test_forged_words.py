"""A participant that hears something in its coordinator's name, and can or cannot ask whether it is true."""

from __future__ import annotations

import contextlib

import pytest

from rmqspark.errors import Busy, Fenced, ForgedDecision, ForgedEpoch, RequestTimeout, RmqError, Unreachable
from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.hearsay import Verdict
from rmqspark.txn.ports import Complete, Vote

from .participant_bench import ParticipantBench, Sent, T, make_half, run

N0, N1 = (Batch(T, 1, version) for version in range(2))
NEW = Batch(T, 2, 0)
A, B = AttemptName(0, "a"), AttemptName(0, "b")
AWAY = Unreachable("It is away.", address="")
NO_TELLING = Verdict(is_open=True)
OPEN = Verdict(is_open=True, newest_epoch=1)
CLOSED = Verdict(is_open=False, newest_epoch=1)
CLOSED_BY_NEXT = Verdict(is_open=False, newest_epoch=2)
COMMITTED = Verdict(is_open=False, attempts=[A], newest_epoch=1)
UNKNOWN = Verdict(is_open=False)


@pytest.fixture
def bench() -> ParticipantBench:
    return ParticipantBench()


def hold_unasked(bench: ParticipantBench, batch: Batch) -> HeldAttempt:
    """A half batch that came while the coordinator of its epoch could not be asked."""
    half, body = make_half(batch, 0, "a", 0, Sent("t", 0, [b"x"]))
    bench.resolver.take(half, memoryview(body))
    return HeldAttempt(0, "a", 1, half.rows, half.body_bytes, half.body_crc32)


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict(is_open=True, newest_epoch=2), None),
        (NO_TELLING, None),
        (AWAY, None),
        (RequestTimeout("No answer."), None),
        (Verdict(is_open=False, newest_epoch=3), Fenced),
        (CLOSED_BY_NEXT, Fenced),
        (CLOSED, ForgedEpoch),
        (UNKNOWN, ForgedEpoch),
    ],
)
def test_a_vote_under_a_new_epoch(
    bench: ParticipantBench, verdict: Verdict | RmqError, error: type[RmqError] | None
) -> None:
    """Its coordinator is asked. Only an epoch that it has handed out fences older runs; where there is no telling the
    vote is given, and fences nobody, nor does it after a restart."""
    attempt = hold_unasked(bench, NEW)
    bench.verdicts[NEW] = verdict
    with pytest.raises(error) if error else contextlib.nullcontext():
        run(bench.resolver.hearsay.check_vote(Vote(*NEW, [attempt])))
    if error is None:
        assert bench.vote(NEW, attempt) == ""
    assert bench.participant.is_fenced(N0) is (verdict == Verdict(is_open=True, newest_epoch=2))
    bench.kill()
    assert not bench.participant.is_fenced(N0)
    bench.send(N0, Sent("t", 0, [b"1"]))


def test_a_vote_under_an_invented_epoch_holds_nobody_up_for_long(bench: ParticipantBench) -> None:
    """What was voted for while nobody could be asked is gone when somebody can; the real version waits till then."""
    forged = Batch(T, 1 << 60, 0)
    assert bench.vote(forged, hold_unasked(bench, forged)) == ""
    kept = bench.send(N1, Sent("t", 0, [b"1"]))
    assert bench.vote(N1, kept) == ""
    with pytest.raises(Busy, match="comes first"):
        bench.commit(N1, kept)
    bench.verdicts[forged] = CLOSED
    bench.check_back()
    assert bench.commit(N1, kept) == [("t", 0, 0, 1)]


TOLD = [
    # what is said of N0, what its coordinator says, and what comes of it
    (True, [A], COMMITTED, None),
    (True, [B], COMMITTED, ForgedDecision),
    (True, [A, B], COMMITTED, ForgedDecision),
    (True, [], COMMITTED, ForgedDecision),
    (True, [A], OPEN, ForgedDecision),
    (True, [A], CLOSED, ForgedDecision),
    (True, [], CLOSED, ForgedDecision),
    (True, [A], UNKNOWN, ForgedDecision),
    (True, [A], NO_TELLING, Busy),
    (True, [A], AWAY, Busy),
    (False, [], CLOSED, None),
    (False, [], CLOSED_BY_NEXT, None),
    (False, [], COMMITTED, ForgedDecision),
    (False, [], OPEN, ForgedDecision),
    (False, [], UNKNOWN, ForgedDecision),
    (False, [], NO_TELLING, Busy),
    (False, [], AWAY, Busy),
]


@pytest.mark.parametrize(("commit", "attempts", "verdict", "error"), TOLD)
def test_a_decision_that_is_told(
    bench: ParticipantBench,
    commit: bool,
    attempts: list[AttemptName],
    verdict: Verdict | RmqError,
    error: type[RmqError] | None,
) -> None:
    """What this broker has not voted for is believed if the coordinator, asked, says the same; busy is tried again."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    bench.verdicts[N0] = verdict
    with pytest.raises(error) if error else contextlib.nullcontext():
        run(bench.resolver.hearsay.check_complete(Complete(*N0, commit, attempts)))
    assert bench.asked == [N0]


def test_what_was_voted_for_or_done_is_not_asked_about(bench: ParticipantBench) -> None:
    """In the usual way of a batch COMPLETE costs no question; nor does it when it comes again."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.vote(N0, attempt)
    run(bench.resolver.hearsay.check_complete(Complete(*N0, True, [A])))
    bench.commit(N0, attempt)
    run(bench.resolver.hearsay.check_complete(Complete(*N0, True, [A])))
    assert bench.asked == []
    assert bench.bodies("t") == [b"1"]
