"""`rmq cluster` against real clusters, one of them with a broker that goes away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.testing import cluster
from rmqspark.testing.in_process import TEST_STORE

from ..silent_broker import silent_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing.rmq import Rmq

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def test_info(ok: Run, rmq: Rmq, topic: str) -> None:
    """What each broker is and does."""
    rmq.send(topic, b"x", b"y")
    (broker,) = ok("cluster", "info", "--json").json["brokers"]
    assert (broker["brokerName"], broker["cluster"], broker["state"]) == ("broker-a", "DefaultCluster", "ok")
    assert broker["addresses"] == {"0": rmq.cluster.brokers["broker-a"]}
    assert broker["in"] >= 2
    assert broker["queues"] >= 4
    assert broker["flushDiskType"] == "ASYNC_FLUSH"
    assert broker["diskFreeBytes"] > 0
    told = ok("cluster", "info").out
    assert f"Name server {rmq.namesrv}: 1 broker" in told
    assert "rmqspark" in told


def test_health(ok: Run) -> None:
    """Nothing wrong, exit code 0."""
    assert ok("cluster", "health").out.startswith("Nothing is wrong: 1 name server, 1 broker, ")
    assert ok("cluster", "health", "--json").json == {"state": "ok", "problems": []}


def test_a_name_server_that_is_away(processes: Processes) -> None:
    """One of two is a warning; none of them is critical."""
    with cluster(brokers=1, namesrvs=2) as mq:
        mq.stop_name_server(1)
        warned = processes.run("cluster", "health", RMQ_NAMESRV=mq.namesrv)
        assert warned.code == 1
        assert warned.out.startswith(f"warning   name server {mq.namesrv.split(';')[1]}: does not answer")
        assert "broker-a" in processes.run("cluster", "info", RMQ_NAMESRV=mq.namesrv).out
        mq.stop_name_server(0)
        gone = processes.run("cluster", "health", "--json", RMQ_NAMESRV=mq.namesrv)
        assert (gone.code, gone.json["state"]) == (2, "critical")
        mq.start_name_server(0)


def test_a_broker_that_takes_no_messages(processes: Processes) -> None:
    """Its disk has less room than it is to keep: critical, with its own words; without brokers, too."""
    with cluster(brokers=1, store_config=replace(TEST_STORE, min_free_bytes=1 << 60)) as mq:
        full = processes.run("cluster", "health", RMQ_NAMESRV=mq.namesrv)
        assert full.code == 2
        assert full.out.startswith("critical  broker-a: takes no messages: ")
        assert "min_free_bytes" in full.out
        mq.stop_broker("broker-a")
        nobody = processes.run("cluster", "health", RMQ_NAMESRV=mq.namesrv)
        assert nobody.code == 2
        assert "none is registered" in nobody.out


def test_a_broker_that_has_gone_is_missed_where_it_is_expected(processes: Processes) -> None:
    """Name servers forget one whose process has ended: who does not name it hears that nothing is wrong."""
    both = ("--expect", "broker-a", "--expect", "broker-b")
    with cluster(brokers=2) as mq:
        assert processes.run("cluster", "health", *both, RMQ_NAMESRV=mq.namesrv).code == 0
        mq.stop_broker("broker-b")
        assert processes.run("cluster", "health", RMQ_NAMESRV=mq.namesrv).code == 0
        missed = processes.run("cluster", "health", *both, RMQ_NAMESRV=mq.namesrv)
        assert (missed.code, missed.out) == (2, "critical  broker-b: is not registered\n")
        watched = processes.run("check", "cluster", *both, RMQ_NAMESRV=mq.namesrv)
        assert (watched.code, watched.out) == (2, "CRITICAL: broker-b: is not registered\n")


def test_a_broker_that_is_registered_and_does_not_answer(processes: Processes) -> None:
    """Critical, by name, and the others are told of all the same."""
    with cluster(brokers=1) as mq, silent_broker(mq.namesrv, "broker-x", "one", "two"):
        wrong = processes.run("cluster", "health", RMQ_NAMESRV=mq.namesrv)
        assert wrong.code == 2
        assert wrong.out.startswith("critical  broker-x: is registered and does not answer: ")
        brokers = processes.run("cluster", "info", "--json", RMQ_NAMESRV=mq.namesrv).json["brokers"]
        assert [(each["brokerName"], each["queues"]) for each in brokers][1] == ("broker-x", 2)
        assert [each["version"] is None for each in brokers] == [False, True]
