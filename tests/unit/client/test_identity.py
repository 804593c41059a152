"""Who clients say that they are."""

from __future__ import annotations

import os

from rmqspark.client.identity import client_id
from rmqspark.testing.manual_clock import ManualClock


def test_clients_of_one_process_have_ids_of_their_own() -> None:
    """However quickly they are made: in one group, two of the same id would read the same queues."""
    clock = ManualClock()
    ids = [client_id("10.0.0.5", clock) for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(each.startswith(f"10.0.0.5@{os.getpid()}#{clock.now_ms()}") for each in ids)
