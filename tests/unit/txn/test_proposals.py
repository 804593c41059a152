"""What drivers asked for in vain, kept for operators."""

from __future__ import annotations

from rmqspark.protocol.bodies.txn import TxnDecision
from rmqspark.txn.coordinator.proposals import _MOST, Proposals

OLD, NEW = TxnDecision("old"), TxnDecision("new")


def test_only_the_latest_of_an_id_under_its_epoch_counts() -> None:
    """What another run wanted, or this one for another version, is not what an operator commits."""
    proposals = Proposals()
    proposals.note("T", 1, 0, OLD)
    proposals.note("T", 2, 0, NEW)
    assert [proposals.of("T", epoch, version) for epoch, version in ((1, 0), (2, 1), (2, 0))] == [None, None, NEW]
    assert proposals.of("U", 2, 0) is None
    proposals.forget("T")
    assert proposals.of("T", 2, 0) is None


def test_the_ids_refused_longest_ago_are_forgotten() -> None:
    """However many there are, memory has a bound; an id that is refused again is a new one."""
    proposals = Proposals()
    for number in range(_MOST):
        proposals.note(f"T{number}", 1, 0, OLD)
    proposals.note("T0", 1, 0, NEW)
    proposals.note("one more", 1, 0, NEW)
    assert [proposals.of(name, 1, 0) for name in ("T0", "T1", "T2")] == [NEW, None, OLD]
