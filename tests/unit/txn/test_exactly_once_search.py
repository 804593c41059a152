"""Every interleaving of 2 runs × 2 versions × 2 participants, over the real ledger and participant.

The search bites: each rule of the protocol, switched off, is missed by it within seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.participant.held import HeldTransaction
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.ports import VoteAnswer

from . import exactly_once_search as search_module
from .exactly_once_search import Search, State, Wrong

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.property

BATCH_0 = (
    "run 1 starts",
    "run 1 may write 0",
    "run 1 sends 0 to 0",
    "run 1 sends 0 to 1",
    "run 1 asks to commit 0",
    "the commit of 0 arrives",
)
BATCH_0_DECIDED = (*BATCH_0, "0 votes yes", "1 votes yes", "0 is decided")
BROKER_1_NOT_TOLD = (
    *BATCH_0_DECIDED,
    "0 completes",
    "1 is not told",
    "0 is answered",
    "run 1 may write 1",
    "run 1 sends 1 to 0",
    "run 1 sends 1 to 1",
    "run 1 asks to commit 1",
    "the commit of 1 arrives",
)


@pytest.mark.slow_first
def test_every_interleaving_keeps_every_row_once(
    amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """Late, lost and repeated commits, zombies, power losses of everybody: nothing is lost, doubled or out of order."""
    limit = amount(120_000, 1_200_000)
    visited = Search(healed_share=32).run(limit)
    assert visited >= limit
    tell(f"{visited} states")


# what is switched off, by which method
RULES: dict[str, list[tuple[type, str, Any]]] = {
    "the fence": [(Ledger, "is_fenced", lambda self, txn, epoch: False)],
    "the idempotence check": [(Ledger, "is_decided", lambda self, txn, version: False)],
    "the idempotence check of participants": [(Participant, "is_completed", lambda self, batch: False)],
    "the preparedTransactionOffset scan": [(search_module._Broker, "rows_present", lambda self, offset, halves: {})],
    "the flush of the ledger": [(Search, "flush_ledger", lambda self, log: log)],
    "the vote": [(Search, "vote", lambda self, log, request: (log, VoteAnswer(yes=True)))],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_switched_off_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it some interleaving ends badly, and the search finds one."""
    for owner, name, instead in RULES[rule]:
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises(Wrong):
        Search(healed_share=2).run(60_000)


def completing_newest_first(self: Search, ledger: Any, broker: int, rule: Any = Search.in_order) -> list[Any]:
    return rule(self, ledger, broker)[::-1]


ORDER: list[tuple[type, str, Any]] = [
    (Search, "earlier", lambda self, ledger, broker: []),  # complete what is pending, then vote
    (Search, "in_order", completing_newest_first),  # complete in the order of versions
    (HeldTransaction, "comes_first", lambda self, batch: None),  # take no completion out of order
]


def test_without_the_completion_order_readers_see_versions_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was not told of version 0 shows version 1 first: the search finds the way there by itself, where
    one request is lost and nothing else happens."""
    for owner, name, instead in ORDER:
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises(Wrong, match=r"broker \d shows versions \[1"):
        Search(healed_share=10**9).run(60_000, State(losses=1, cuts=0, repeats=0))


@pytest.mark.parametrize("kept", range(3), ids=["coordinator before votes", "coordinator", "participant"])
def test_each_of_the_three_guards_of_the_order_is_enough(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any one of them left, versions become readable in their order."""
    for place, (owner, name, instead) in enumerate(ORDER):
        if place != kept:
            monkeypatch.setattr(owner, name, instead)
    search = Search(healed_share=10**9)
    search.run(20_000, search.follow(*BROKER_1_NOT_TOLD))


def test_g1_without_the_vote_a_power_loss_takes_a_committed_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace that called for the vote: decided, Spark moves on, and a participant has nothing to append."""
    monkeypatch.setattr(Search, "vote", lambda self, log, request: (log, VoteAnswer(yes=True)))
    search = Search(healed_share=1)
    with pytest.raises(Wrong, match=r"broker 1 shows versions \[1?\]"):
        search.follow(*BATCH_0_DECIDED, "1 loses power, 0 entries stay")


def test_g1_with_the_vote_the_batch_survives() -> None:
    """A participant that has voted has the batch on its disk."""
    search = Search(healed_share=1)
    state = search.follow(*BATCH_0_DECIDED, "1 loses power, 2 entries stay")
    assert state.brokers[1].flushed >= 2


LATE_COMMIT = (*BATCH_0[:-1], "run 1 waits no longer", "run 1 hears 0 is closed", "the commit of 0 ")


def test_g2_a_commit_that_was_stuck_comes_too_late() -> None:
    """The driver was told that the batch is closed: whatever arrives afterwards, it stays so."""
    search = Search(healed_share=1)
    closed = search.follow(*LATE_COMMIT[:-1])
    outcomes = [step for step, _ in search.take_request(closed, closed.requests[0])]
    assert outcomes == ["0 is FENCED", "0 is FENCED (and will again)"]


def test_g2_without_the_fence_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace that called for the fence: decided after the driver was told that it never will be."""
    monkeypatch.setattr(Ledger, "is_fenced", lambda self, txn, epoch: False)
    search = Search(healed_share=10**9)
    with pytest.raises(Wrong, match="which is closed"):
        search.run(2_000, search.follow(*BATCH_0[:-1], "run 1 waits no longer", "run 1 hears 0 is closed"))
