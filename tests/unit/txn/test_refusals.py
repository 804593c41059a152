"""What the log hears of requests about transactions that contradict what was decided."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import Busy, Fenced, ForgedEpoch, RecordError, RmqError, UnknownTransaction
from rmqspark.txn.refusals import Refusals


def refuse(refusals: Refusals, transactional_id: str, error: RmqError) -> None:
    with pytest.raises(type(error)), refusals.telling(transactional_id):
        raise error


def test_who_goes_on_sending_what_is_refused_fills_no_log() -> None:
    """The first of each kind, and of each transactional id, is told."""
    refusals = Refusals()
    with capture_logs() as logs:
        for _ in range(3):
            refuse(refusals, "T", ForgedEpoch("Epoch 9 was never handed out."))
            refuse(refusals, "T", RecordError("The checksum is wrong."))
            refuse(refusals, "U", ForgedEpoch("Epoch 8 was never handed out."))
            refusals.tell("U", UnknownTransaction("Nobody knows 'U'."))
    told = [(line["transactional_id"], line["error"], line["reason"]) for line in logs]
    assert told == [
        ("T", "ForgedEpoch", "Epoch 9 was never handed out."),
        ("T", "RecordError", "The checksum is wrong."),
        ("U", "ForgedEpoch", "Epoch 8 was never handed out."),
        ("U", "UnknownTransaction", "Nobody knows 'U'."),
    ]


@pytest.mark.parametrize("error", [Fenced("Another run has taken over."), Busy("Too much is unfinished.")])
def test_what_happens_to_honest_clients_is_not_told(error: RmqError) -> None:
    """Somebody else was faster, or has to wait: nobody has to look into that."""
    with capture_logs() as logs:
        refuse(Refusals(), "T", error)
    assert logs == []
