"""What drivers asked for in vain, kept for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.bodies.txn import HeldAttempt, TxnDecision
from rmqspark.txn.coordinator import proposals as proposals_module
from rmqspark.txn.coordinator.proposals import _MOST, Proposals

if TYPE_CHECKING:
    import pytest

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


def test_large_ones_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of what a request has room for would take gigabytes."""
    large = TxnDecision("large", {"a": [HeldAttempt(partition, "x", 1, 1) for partition in range(50)]})
    monkeypatch.setattr(proposals_module, "_MOST_BYTES", int(2.5 * len(large.encode(standard=True))))
    proposals = Proposals()
    for name in ("T0", "T1", "T1", "T2"):
        proposals.note(name, 1, 0, large)
    assert [proposals.of(name, 1, 0) for name in ("T0", "T1", "T2")] == [None, large, large]
