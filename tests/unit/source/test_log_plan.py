"""Stretches of the log for tasks, where the entries change while they are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqspark.model import MessageQueue
from rmqspark.source.planning import log_plan
from rmqspark.source.queue_range import QueueRange
from rmqspark.store.queues.consume_queue import ENTRY_DTYPE

if TYPE_CHECKING:
    from rmqspark.store.queues.consume_queue import Entries

SIZE = 100


class CutQueue:
    """A queue that a recovery cuts down to `left` entries when it has been looked at so often."""

    def __init__(self, looks: int, left: int) -> None:
        self._looks = looks
        self._entries = np.zeros(SIZE, ENTRY_DTYPE)
        self._entries["physical_offset"] = np.arange(SIZE) * 100
        self._entries["size"] = 100
        self._left = left

    def entries(self, start: int, end: int) -> Entries:
        if self._looks == 0:
            self._entries[self._left :] = 0
        self._looks -= 1
        return self._entries[start:end]


@pytest.mark.parametrize("left", [0, 30, 70])
def test_each_offset_is_in_one_task_though_a_recovery_cuts_the_queue(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it does: no message is read twice, and none that is left is missed."""
    monkeypatch.setattr(log_plan, "_LOOKED_AT_IN_ONE_GO", 4)
    monkeypatch.setattr(log_plan, "_SEARCHED_IN_ONE_GO", 3)
    monkeypatch.setattr(log_plan, "_SAMPLES", 16)
    name = MessageQueue("t", "broker-a", 0)
    for looks in range(80):
        tasks = log_plan.stretches({name: CutQueue(looks, left)}, [QueueRange(name, 0, SIZE)], 6, SIZE)
        offsets = [offset for task in tasks for part in task for offset in range(part.start, part.end)]
        assert sorted(offsets) == list(range(SIZE))
