"""A coordinator whose store is set back to a copy of it, beside participants whose stores are not."""

from __future__ import annotations

import shutil

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.testing import cluster

from .test_writing_exactly_once import Sink

pytestmark = pytest.mark.integration


def test_a_query_goes_on_though_its_coordinator_was_set_back() -> None:
    """It has forgotten what epochs it has handed out since; the other brokers take nothing of older ones."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as client:
        sink = Sink(mq, client)
        sink.commit(sink.task(0, 0, *"ab", run="run-0"))
        owner = client.coordinators.of(sink.name)
        assert owner is not None
        store = mq.store_dir(owner)
        kept = store.with_name("kept")
        mq.stop_broker(owner)
        shutil.copytree(store, kept)
        mq.start_broker(owner)
        for version in range(1, 4):
            sink.commit(sink.task(version, 0, *"cd", run=f"run-{version}"))
        mq.stop_broker(owner)
        shutil.rmtree(store)
        kept.rename(store)
        mq.start_broker(owner)
        sink.commit(sink.task(4, 0, *"ef", run="run-4"))
        assert {"e", "f"} <= set(sink.bodies())
