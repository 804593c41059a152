"""Who clients say that they are."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from rmqspark.client.cluster import identity
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.entropy import SystemEntropy
from rmqspark.testing.manual_clock import ManualClock


def test_clients_of_one_process_have_ids_of_their_own() -> None:
    """However quickly they are made: in one group, two of the same id would read the same queues."""
    clock, entropy = ManualClock(), SystemEntropy(0)
    ids = [identity.client_id("10.0.0.5", clock, entropy) for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(each.startswith(f"10.0.0.5@{os.getpid()}#{clock.now_ms()}") for each in ids)


def test_clients_of_containers_that_begin_at_once_have_ids_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is the first of the process 1 of a machine that Docker calls 172.17.0.2 (RocketMQ #667, #1547, #2760)."""
    clock = ManualClock()

    def first_of_a_machine(seed: int) -> str:
        monkeypatch.setattr(identity, "_clients", count())
        with ClusterClient("127.0.0.1:9876", clock=clock, entropy=SystemEntropy(seed)) as cluster:
            return cluster.client_id

    assert len({first_of_a_machine(seed) for seed in range(20)}) == 20


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
def test_on_an_ipv6_network_a_client_says_where_it_is() -> None:
    """All of them said that they are at 127.0.0.1, so nobody knew which machine's was which. Where nothing leads they
    say it still."""
    assert identity.local_ip("[::1]:9876") == "::1"
    assert identity.local_ip("127.0.0.1:9876") == "127.0.0.1"
    assert identity.local_ip(f"{'x' * 70}.example:9876") == "127.0.0.1"
    with ClusterClient("[::1]:9876") as cluster:
        assert cluster.client_id.startswith("::1@")
        assert len(identity.MessageIds(cluster).next()) == 32
