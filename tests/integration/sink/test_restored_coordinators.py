"""A coordinator whose store is set back to a copy of it, beside participants whose stores are not."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import TransactionError
from rmqspark.testing import cluster

from .test_writing_exactly_once import Sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


@contextmanager
def undone(mq: LocalCluster, broker: str) -> Iterator[None]:
    """What the block does is not in this broker's store when it ends: that is set back to what it was."""
    store = mq.store_dir(broker)
    kept = store.with_name("kept")
    mq.stop_broker(broker)
    shutil.copytree(store, kept)
    mq.start_broker(broker)
    yield
    mq.stop_broker(broker)
    shutil.rmtree(store)
    kept.rename(store)
    mq.start_broker(broker)


def test_a_query_goes_on_though_its_coordinator_was_set_back() -> None:
    """It has forgotten what epochs it has handed out since; the other brokers take nothing of older ones."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as client:
        sink = Sink(mq, client)
        sink.commit(sink.task(0, 0, *"ab", run="run-0"))
        owner = client.coordinators.of(sink.name)
        assert owner is not None
        with undone(mq, owner):
            for version in range(1, 4):
                sink.commit(sink.task(version, 0, *"cd", run=f"run-{version}"))
        sink.commit(sink.task(4, 0, *"ef", run="run-4"))
        assert {"e", "f"} <= set(sink.bodies())


def test_a_batch_that_a_set_back_coordinator_has_forgotten_is_not_written_again() -> None:
    """Whichever brokers its rows would go to; the task says at once what to do, and later batches go through."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as client:
        sink = Sink(mq, client)
        sink.commit(sink.task(0, 0, "a", run="run-0"))
        owner = client.coordinators.of(sink.name)
        assert owner is not None
        with undone(mq, owner):
            written = sink.task(1, 0, *"bcde", run="run-1")
            sink.commit(written)
        [other] = written.held.keys() - {owner}
        for _ in range(2):
            refused = f"not above 1, which broker '{other}' has completed.*under a new transactionalId"
            with pytest.raises(TransactionError, match=refused):
                sink.task(1, 0, *"bcde", run="run-2")
        sink.commit(sink.task(2, 0, "f", run="run-2"))
        assert "f" in sink.bodies()
