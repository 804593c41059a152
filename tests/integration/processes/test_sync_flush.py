"""SYNC_FLUSH as the kernel sees it: no answer goes out before the fsync that covers its message has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.history import History

from . import strace
from .durability import TRACED, LogFiles, acknowledgements, premature
from .load import QUEUES, TOPIC, Load
from .servers import UpProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHY_NOT = strace.why_not()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
SYNC_FLUSH = ("--flush-disk-type", "SYNC_FLUSH", "--min-free-bytes", "1")
_MESSAGES = 2000
_PATIENCE_S = 60


def test_every_answer_follows_the_fsync_of_its_message(
    tmp_path: Path, soaking: bool, seed: int, tell: Callable[[str], None]
) -> None:
    """Single sends, batches and bulks: what is acknowledged was written, and then synced, and then answered."""
    trace, history = tmp_path / "trace", History()
    with UpProcess(tmp_path, strace.command(trace, TRACED)) as server:
        server.start(*SYNC_FLUSH)
        server.create_topic(TOPIC, len(QUEUES))
        goal = _MESSAGES * (10 if soaking else 1)
        with Load(history, server.namesrv, "load", seed, durable=True):
            assert history.wait_for(lambda: history.acknowledged >= goal, _PATIENCE_S)
        assert server.stop() == 0
    with trace.open() as lines:
        calls = strace.parse(lines)
    answers = list(acknowledgements(calls))
    assert sum(answer.messages for answer in answers) == history.acknowledged
    assert list(premature(calls, answers, LogFiles(server.broker_files / "commitlog"))) == []
    syncs = sum(call.name == "fdatasync" and "commitlog" in call.target for call in calls)
    tell(f"--randomly-seed={seed}: {history.acknowledged} messages in {len(answers)} answers after {syncs} fdatasyncs")
