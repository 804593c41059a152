"""Interleavings of 2 runs × 2 versions × 2 participants, over the real ledger and participant, from several places on.

The search bites: each rule of the protocol, switched off, is missed by it within seconds. And it comes to what it is
about: from each place but the beginning, version 1 is decided, recorded, and readable on both brokers.
"""

from __future__ import annotations

from collections import Counter
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
BATCH_0_COMPLETE = (*BATCH_0_DECIDED, "0 completes", "1 completes", "0 is answered")


def asks_to_commit_1(run: int) -> tuple[str, ...]:
    return f"run {run} may write 1", f"run {run} sends 1 to 0", f"run {run} sends 1 to 1", f"run {run} asks to commit 1"


BROKER_1_NOT_TOLD = (
    *BATCH_0_DECIDED,
    "0 completes",
    "1 is not told",
    "0 is answered",
    *asks_to_commit_1(1),
    "the commit of 1 arrives",
)
BATCH_1_ON_ITS_WAY = (*BATCH_0_COMPLETE, *asks_to_commit_1(1))
BATCH_1_VOTED_FOR = (*BATCH_1_ON_ITS_WAY, "the commit of 1 arrives", "0 votes yes", "1 votes yes")
OVERTAKEN = (*BATCH_0_DECIDED, "run 2 starts", "run 2 finds 0 committed", *asks_to_commit_1(2))
RUN_1_FENCED = (
    *BATCH_1_VOTED_FOR,
    "run 2 starts",
    *asks_to_commit_1(2),
    "1 is FENCED",
    "the commit of 1 arrives",
)

# each is a way from the beginning, and what has to be found from its end on in 30,000 states
STARTS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "the beginning": ((), {"steps": 14}),
    "version 0 is complete, run 1 asks to commit version 1": (
        BATCH_1_ON_ITS_WAY,
        {"decided": 300, "recorded": 30, "readable on 0": 50, "readable on 1": 10},
    ),
    "broker 1 was not told of version 0, the commit of version 1 arrives": (
        BROKER_1_NOT_TOLD,
        {"decided": 2_000, "recorded": 800, "readable after faults on 0": 1_000, "readable after faults on 1": 800},
    ),
    "version 0 is decided, and complete nowhere, run 2 asks to commit version 1": (
        OVERTAKEN,
        {"decided": 200, "recorded": 5, "readable after faults on 0": 5, "readable after faults on 1": 3},
    ),
}
# the same, where no more than some thousand states are left
NEAR_THE_END: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "brokers have voted for version 1 of run 1, the commit of run 2 arrives": (
        RUN_1_FENCED,
        {"decided": 7_000, "recorded": 5_000, "readable after faults on 0": 3_000, "readable after faults on 1": 3_000},
    ),
    "version 1 is decided, and complete nowhere, run 2 comes": (
        (*BATCH_1_VOTED_FOR, "1 is decided", "run 2 starts"),
        {"decided": 4_000, "recorded": 3_000, "readable after faults on 0": 1_500, "readable after faults on 1": 1_500},
    ),
}


@pytest.mark.slow_first
@pytest.mark.parametrize("start", STARTS)
def test_every_interleaving_keeps_every_row_once(
    start: str, amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """Late, lost and repeated commits, zombies, power losses of everybody: nothing is lost, doubled or out of order."""
    way, least = STARTS[start]
    search, limit = Search(healed_share=32), amount(30_000, 300_000)
    assert search.run(limit, search.follow(*way)) >= limit
    check_reach(search, least, tell)


@pytest.mark.parametrize("start", NEAR_THE_END)
def test_near_the_end_nothing_is_left_out(start: str, tell: Callable[[str], None]) -> None:
    """All is visited that can still happen, with as many losses, repeats and power losses as anywhere."""
    way, least = NEAR_THE_END[start]
    search, limit = Search(healed_share=4), 20_000
    assert search.run(limit, search.follow(*way)) < limit
    check_reach(search, least, tell)


def check_reach(search: Search, least: dict[str, int], tell: Callable[[str], None]) -> None:
    """That a search did not end before what it was begun for."""
    reach = search.reach()
    tell(", ".join(f"{what} {count}" for what, count in reach.items()))
    assert reach >= Counter(least)


# what is switched off, by which method
RULES: dict[str, list[tuple[type, str, Any]]] = {
    "the fence": [(Ledger, "is_fenced", lambda self, txn, epoch: False)],
    "the idempotence check": [(Ledger, "is_decided", lambda self, txn, version: False)],
    "the idempotence check of participants": [(Participant, "is_completed", lambda self, batch: batch.version < 0)],
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


# where a rule is switched off when version 0 is in, and how that is missed
IN_VERSION_1: dict[str, tuple[tuple[str, ...], str]] = {
    "the fence": (BATCH_1_ON_ITS_WAY, "version 1 was decided under epoch 1, which is closed"),
    "the idempotence check": (RUN_1_FENCED, "takes nothing of a new run"),
    "the idempotence check of participants": (RUN_1_FENCED, r"broker \d is still to complete 1"),
    "the preparedTransactionOffset scan": (RUN_1_FENCED, r"broker \d shows versions \[0, 1, 1\]"),
    "the flush of the ledger": (RUN_1_FENCED, r"broker \d shows versions \[0\]"),
    "the vote": (RUN_1_FENCED, r"broker \d shows versions \[0\]"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_switched_off_later_is_missed_in_version_1(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds what goes wrong in the second version as it does in the first."""
    way, story = IN_VERSION_1[rule]
    start = Search().follow(*way)
    for owner, name, instead in RULES[rule]:
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises(Wrong, match=story):
        Search(healed_share=1).run(20_000, start)


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


two_versions = pytest.mark.parametrize("way", [BROKER_1_NOT_TOLD, OVERTAKEN], ids=["broker 1 not told", "overtaken"])


@two_versions
def test_without_the_completion_order_versions_are_swapped_among_all_faults(
    way: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where version 0 is not complete everywhere and version 1 comes, the search need not be spared anything else."""
    for owner, name, instead in ORDER:
        monkeypatch.setattr(owner, name, instead)
    search = Search(healed_share=10**9)
    with pytest.raises(Wrong, match=r"broker \d shows versions \[1"):
        search.run(10_000, search.follow(*way))


@two_versions
@pytest.mark.parametrize("kept", range(3), ids=["coordinator before votes", "coordinator", "participant"])
def test_each_of_the_three_guards_of_the_order_is_enough(
    kept: int, way: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any one of them left, versions become readable in their order."""
    for place, (owner, name, instead) in enumerate(ORDER):
        if place != kept:
            monkeypatch.setattr(owner, name, instead)
    search = Search(healed_share=10**9)
    search.run(10_000, search.follow(*way))


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
