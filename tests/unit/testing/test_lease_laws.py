"""Law 12 of the simulator: what is no fault is let pass, and each fault is seen."""

from __future__ import annotations

import pytest

from rmqspark.testing.sim.lease_laws import NEVER_COMMITTED, Heard, LeasedQueue, Term

FIRST, AGAIN, SECOND = Term(5, 1), Term(5, 3), Term(6, 2)
"""Of one member, of its next run, and of somebody else."""
LEASE_S = 10.0


def heard(member: str, sent_s: float, took_s: float = 0.1) -> Heard:
    return Heard(member, sent_s, sent_s + took_s, LEASE_S)


def leased(*, at_s: float = 0.0, committed: int | None = None) -> LeasedQueue:
    """A queue that `a` has under its first term."""
    queue = LeasedQueue()
    assert queue.granted(FIRST, heard("a", at_s), NEVER_COMMITTED, ()) == []
    if committed is not None:
        queue.committing(FIRST, committed)
        assert queue.committed(FIRST, committed, committed, ()) == []
    return queue


def test_a_queue_is_given_to_another_once_its_lease_has_run_out() -> None:
    queue = leased(committed=7)
    assert queue.granted(SECOND, heard("b", LEASE_S), 7, ()) == []


@pytest.mark.parametrize("sent_s", [0.2, LEASE_S - 0.2])
def test_a_queue_is_not_given_to_another_before(sent_s: float) -> None:
    (wrong,) = leased(committed=7).granted(SECOND, heard("b", sent_s), 7, ())
    assert wrong.startswith("was given to b, while a had it until 9.998")


def test_nothing_is_sure_of_an_answer_that_was_long_on_its_way() -> None:
    """The lease may have begun after the other request, and have run out before the other answer."""
    assert leased(at_s=1.0).granted(SECOND, heard("b", 0.5), NEVER_COMMITTED, ()) == []
    assert leased().granted(SECOND, heard("b", 1.0, took_s=LEASE_S), NEVER_COMMITTED, ()) == []


def test_a_lease_that_was_renewed_lasts_longer() -> None:
    queue = leased()
    queue.kept(FIRST, heard("a", LEASE_S - 1))
    assert queue.granted(SECOND, heard("b", LEASE_S), NEVER_COMMITTED, ())


def test_a_lease_is_not_refused_to_its_owner_before_it_has_run_out() -> None:
    (wrong,) = leased().refused(FIRST, heard("a", LEASE_S - 0.2))
    assert wrong.startswith("was refused to a, who had it until 9.998")
    assert leased().refused(FIRST, heard("a", LEASE_S)) == []


def test_a_lease_that_was_given_up_or_is_over_may_be_refused() -> None:
    given_up, over = leased(), leased()
    given_up.giving_up(FIRST)
    assert over.granted(SECOND, heard("b", LEASE_S), NEVER_COMMITTED, ()) == []
    assert [queue.refused(FIRST, heard("a", LEASE_S + 1)) for queue in (given_up, over)] == [[], []]


def test_what_its_owner_gives_up_may_be_anybody_s_at_once_and_for_good() -> None:
    """That request may arrive after one that renews the lease."""
    queue = leased()
    queue.giving_up(FIRST)
    queue.kept(FIRST, heard("a", 0.5))
    assert queue.granted(SECOND, heard("b", 1.0), NEVER_COMMITTED, ()) == []


def test_a_number_is_nobody_else_s() -> None:
    (wrong,) = leased().granted(FIRST._replace(run=2), heard("b", LEASE_S), NEVER_COMMITTED, ())
    assert wrong == "was given to b under lease 5, which was a's"


def test_its_owner_s_next_run_has_it_at_once_under_the_same_number() -> None:
    queue = leased(committed=7)
    assert queue.granted(AGAIN, heard("a", 1.0), 7, ()) == []
    assert queue.granted(SECOND, heard("b", 2.0), 7, ()) != []


def test_a_run_that_another_has_followed_keeps_nothing() -> None:
    """What it had asked for before that was heard of may be answered later."""
    queue = leased()
    assert queue.granted(AGAIN, heard("a", 1.0), NEVER_COMMITTED, ()) == []
    assert queue.kept(FIRST, heard("a", 1.0, took_s=5.0)) == []
    (wrong,) = queue.kept(FIRST, heard("a", 2.0))
    assert wrong == f"was kept for a under {FIRST}, though {AGAIN} of a had begun"


@pytest.mark.parametrize("told", [NEVER_COMMITTED, 6, 8])
def test_who_gets_a_queue_begins_where_the_last_owner_was(told: int) -> None:
    (wrong,) = leased(committed=7).granted(SECOND, heard("b", LEASE_S), told, ())
    assert wrong == f"was given to b at {told}, where [7] may be committed"
    assert leased(committed=7).granted(SECOND, heard("b", LEASE_S), told, {told}) == []


def test_a_commit_of_which_nobody_heard_may_be_there_or_not() -> None:
    for told in (7, 9):
        queue = leased(committed=7)
        queue.committing(FIRST, 9)
        assert queue.granted(SECOND, heard("b", LEASE_S), told, ()) == []


def test_a_commit_of_a_term_that_is_over_is_never_there() -> None:
    queue = leased(committed=7)
    queue.committing(FIRST, 9)
    assert queue.granted(SECOND, heard("b", LEASE_S), 7, ()) == []
    assert queue.values == {7}
    assert queue.committed(FIRST, 9, 9, ()) == []  # heard of only now: it was there before, or is not
    assert queue.values == {7}


def test_a_commit_that_was_refused_is_not_there() -> None:
    queue = leased(committed=7)
    queue.committing(FIRST, 9)
    queue.not_committed(FIRST, 9)
    assert queue.values == {7}


def test_what_is_said_to_be_committed_was_asked_for() -> None:
    queue = leased(committed=7)
    queue.committing(FIRST, 9)
    (wrong,) = queue.committed(FIRST, 9, 8, ())
    assert wrong == "is at 8 after a commit of 9, where [7, 9] may be"


def test_an_answer_that_comes_after_a_later_term_has_begun_says_nothing() -> None:
    queue = leased(committed=7)
    assert queue.granted(SECOND, heard("b", LEASE_S), 7, ()) == []
    assert queue.granted(FIRST, heard("a", LEASE_S), 3, ()) == []
    assert queue.values == {7}


def test_a_broker_that_forgets_is_at_what_was_ever_committed_and_still_gives_no_lease_twice() -> None:
    queue = leased(committed=3)
    queue.committing(FIRST, 7)
    assert queue.committed(FIRST, 7, 7, ()) == []
    queue.forgot()
    assert queue.values == {NEVER_COMMITTED, 3, 7}
    assert queue.granted(SECOND, heard("b", 1.0), 3, ()) != []


def test_leases_of_a_master_that_is_gone_are_nobody_s() -> None:
    queue = leased(committed=3)
    queue.succeeded()
    assert queue.granted(SECOND, heard("b", 1.0), 3, ()) == []
