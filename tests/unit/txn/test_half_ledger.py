"""Which half messages are open, and when their producers are asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import Busy
from rmqspark.txn.half_messages.half_ledger import REMEMBERED, Ask, CheckRules, HalfLedger, Outcome, SetAside

RULES = CheckRules(timeout_ms=6_000, interval_ms=60_000, max_checks=15, reserved_ms=72 * 3_600_000)
ALL = 1000


def open_half(
    ledger: HalfLedger,
    offset: int,
    *,
    now_ms: int = 0,
    age_ms: int = 0,
    immunity_ms: int | None = None,
    checks: int = 0,
) -> None:
    ledger.admit(offset, offset * 1000, age_ms=age_ms, now_ms=now_ms, immunity_ms=immunity_ms, checks=checks)


def asked(ledger: HalfLedger, now_ms: int) -> list[int]:
    """Whose producers are asked at that time."""
    return [action.half.queue_offset for action in ledger.take_due(now_ms, ALL) if isinstance(action, Ask)]


@pytest.mark.parametrize(
    ("age_ms", "immunity_ms", "first_ms"),
    [
        (0, None, 6_000),
        (2_000, None, 4_000),
        (6_000, None, 0),
        (99_999, None, 0),
        (-5_000, None, 6_000),  # the wall clock went back
        (0, 600_000, 600_000),
        (0, 0, 0),
        (0, 100 * 3_600_000, RULES.reserved_ms),  # set aside before it would be asked for
    ],
)
def test_the_first_question(age_ms: int, immunity_ms: int | None, first_ms: int) -> None:
    """It comes when the half message is old enough, and to the millisecond (RocketMQ's issue 544)."""
    ledger = HalfLedger(RULES, max_open=1_000)
    open_half(ledger, 0, age_ms=age_ms, immunity_ms=immunity_ms)
    assert ledger.take_due(first_ms - 1, ALL) == []
    assert len(ledger.take_due(first_ms, ALL)) == 1


def test_the_questions_end() -> None:
    """Fifteen questions, a minute apart; then it is set aside, unless the producer said something in between."""
    ledger = HalfLedger(RULES, max_open=1_000)
    open_half(ledger, 0)
    open_half(ledger, 1)
    for check in range(15):
        actions = ledger.take_due(6_000 + 60_000 * check, ALL)
        assert [(type(action), action.half.checks) for action in actions] == [(Ask, check + 1)] * (
            2 if check < 3 else 1
        )
        if check == 2:
            ledger.end(1, Outcome.COMMITTED)
    (action,) = ledger.take_due(6_000 + 60_000 * 15, ALL)
    assert isinstance(action, SetAside)
    assert "15 times" in action.reason


def test_checks_of_an_apache_broker_count() -> None:
    """A half message that was asked for 14 times before is asked for once more."""
    ledger = HalfLedger(RULES, max_open=1_000)
    open_half(ledger, 0, checks=14)
    assert asked(ledger, 6_000) == [0]
    assert isinstance(ledger.take_due(66_000, ALL)[0], SetAside)


def test_what_is_older_than_messages_are_kept_is_set_aside_unasked() -> None:
    """Its record may be deleted any moment; after days no producer remembers."""
    ledger = HalfLedger(RULES, max_open=1_000)
    open_half(ledger, 0, age_ms=RULES.reserved_ms)
    (action,) = ledger.take_due(0, ALL)
    assert isinstance(action, SetAside)


def test_a_half_message_ends_once() -> None:
    """How it ended is known for a while, that it ended for ever."""
    ledger = HalfLedger(RULES, max_open=1_000)
    for offset in range(REMEMBERED + 1):
        open_half(ledger, offset)
        ledger.end(offset, Outcome.COMMITTED if offset % 2 else Outcome.ROLLED_BACK)
    assert not any(ledger.is_open(offset) for offset in range(REMEMBERED + 1))
    assert ledger.outcome(0) is None
    assert (ledger.outcome(1), ledger.outcome(2)) == (Outcome.COMMITTED, Outcome.ROLLED_BACK)
    assert asked(ledger, 10**9) == []


def test_an_end_may_come_before_the_half_message_was_looked_at() -> None:
    """The ledger follows the half queue at leisure; an end need not wait for it."""
    ledger = HalfLedger(RULES, max_open=1_000)
    assert ledger.is_open(1)
    ledger.end(1, Outcome.COMMITTED)
    assert not ledger.is_open(1)
    assert ledger.next_offset == 0
    open_half(ledger, 0)
    assert (ledger.next_offset, ledger.first_open, len(ledger)) == (1, 0, 1)
    open_half(ledger, 1)
    assert (ledger.next_offset, len(ledger)) == (2, 1)
    ledger.end(0, Outcome.ROLLED_BACK)
    assert ledger.first_open == 2


def test_no_more_is_done_at_once_than_asked_for() -> None:
    """Thousands may be due after a restart; the rest comes with the next call."""
    ledger = HalfLedger(RULES, max_open=1_000)
    for offset in range(5):
        open_half(ledger, offset)
    assert [len(ledger.take_due(6_000, 2)) for _ in range(4)] == [2, 2, 1, 0]


@given(st.lists(st.tuples(st.sampled_from(["admit", "end", "skip"]), st.integers(0, 12)), max_size=60))
def test_the_offset_kept_never_passes_an_open_half_message(steps: list[tuple[str, int]]) -> None:
    """Whatever comes in whatever order: below the committed offset all ended, and it never goes back."""
    ledger, ended, gone, kept = HalfLedger(RULES, max_open=1_000), set[int](), set[int](), 0
    for step, offset in steps:
        if step == "admit" and offset >= ledger.next_offset:
            gone.update(range(ledger.next_offset, offset))
            open_half(ledger, offset)
        elif step == "end" and offset not in gone and ledger.is_open(offset):
            ledger.end(offset, Outcome.COMMITTED)
            ended.add(offset)
        elif step == "skip" and offset > ledger.next_offset:
            gone.update(range(ledger.next_offset, offset))
            ledger.skip_to(offset)
        assert ledger.first_open >= kept
        kept = ledger.first_open
        assert set(range(kept)) <= ended | gone
        assert all(ledger.is_open(other) == (other not in ended | gone) for other in range(13))


def test_what_ended_long_before_its_question_takes_no_memory() -> None:
    """A producer that asks for a day of immunity and commits at once costs no more than one that asks for none."""
    ledger = HalfLedger(RULES, max_open=1_000)
    open_half(ledger, 0, immunity_ms=500)
    open_half(ledger, 1)
    for offset in range(2, 10_000):
        open_half(ledger, offset, immunity_ms=24 * 3_600_000)
        ledger.end(offset, Outcome.COMMITTED)
    assert len(ledger._due) < 2_000
    assert (asked(ledger, 500), asked(ledger, 6_000)) == ([0], [1])


def test_so_many_transactions_may_be_open_and_no_more() -> None:
    """The next one is refused until one has ended; those count that were stored and not looked at yet."""
    ledger = HalfLedger(RULES, max_open=2)
    for offset in range(2):
        ledger.check_room(offset)
        open_half(ledger, offset)
    with pytest.raises(Busy, match="2 transactions"):
        ledger.check_room(2)
    ledger.end(0, Outcome.COMMITTED)
    ledger.check_room(2)
    with pytest.raises(Busy):
        ledger.check_room(3)
    ledger.end(3, Outcome.COMMITTED)
    with pytest.raises(Busy):
        ledger.check_room(4)
    ledger.end(2, Outcome.COMMITTED)
    ledger.check_room(4)
