"""What is said to be wrong with a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.client.administration.cluster_problems import Problem, problems
from rmqspark.client.administration.cluster_status import BrokerStatus, ClusterStatus, NameServerStatus
from rmqspark.client.administration.replicas import Replicas, SlaveStatus

WELL = {"brokerActive": "true", "commitLogDiskRatio": "0.5", "bootTimestamp": "1000", "dispatchBehindBytes": "0"}
GIB = 1 << 30


def broker(
    runtime: dict[str, str] | None = None, settings: dict[str, str] | None = None, **fields: Any
) -> BrokerStatus:
    known: dict[str, Any] = {"name": "broker-a", "cluster": "c", "addresses": {0: "h:1"}, "topics": 1, "queues": 4}
    return BrokerStatus(**{**known, **fields}, runtime={**WELL, **(runtime or {})}, settings=settings or {})


def status(*brokers: BrokerStatus, **lost: list[str]) -> ClusterStatus:
    names = frozenset(each.name for each in brokers)
    return ClusterStatus([NameServerStatus("n:1", names)], list(brokers), lost)


def test_a_cluster_that_is_well() -> None:
    """Nothing is said, of a stock broker's few figures neither."""
    assert problems(status(broker())) == []
    assert problems(status(BrokerStatus("b", "c", {0: "h:1"}, 0, 0, {"brokerVersionDesc": "V5_3_2"}))) == []


@pytest.mark.parametrize(
    ("there", "severity", "story"),
    [
        (broker(silence="Connection refused."), "critical", "is registered and does not answer: Connection refused."),
        (broker(addresses={1: "h:2"}), "critical", "has no master and takes no messages"),
        (broker({"refusesMessages": "The disk is full."}), "critical", "takes no messages: The disk is full."),
        (broker({"commitLogDiskRatio": "0.9"}), "critical", "its disk is full: 90 percent are used, and it takes no"),
        (broker({"commitLogDiskRatio": "0.86"}), "warning", "its disk is nearly full: 86 percent are used"),
        (
            broker({"commitLogDirCapacity": "Total : 99.0 GiB, Free : 2.1 GiB."}, {"minFreeBytes": str(2 * GIB)}),
            "warning",
            "its disk is nearly full: 2,150 MiB are free, 2,048 MiB are to stay so",
        ),
        (broker({"brokerActive": "false"}), "warning", "is not active"),
        (broker({"dispatchBehindBytes": str(GIB)}), "warning", "its queues are 1,024 MiB behind its log"),
        (broker({"sendThreadPoolQueueHeadWaitTimeMills": "1500"}), "warning", "a send has been waiting for 1,500 ms"),
    ],
)
def test_what_is_wrong_with_a_broker(there: BrokerStatus, severity: str, story: str) -> None:
    """One problem each, in words."""
    (problem,) = problems(status(there))
    assert (problem.severity, problem.subject) == (severity, "broker-a")
    assert story in problem.story


SYNC_MASTER = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "3"}


@pytest.mark.parametrize(
    ("fields", "story"),
    [
        ({"is_connected": True, "behind_bytes": 0, "is_in_sync": True}, ""),
        ({}, ""),
        ({"is_connected": False, "behind_bytes": 7, "is_in_sync": False}, "does not follow its master"),
        ({"is_connected": True, "behind_bytes": GIB, "is_in_sync": False}, "is 1,024 MiB behind its master"),
        ({"silence": "Refused."}, "is registered and does not answer: Refused."),
        ({"is_master": True}, "is registered with a slave's id and follows no master"),
    ],
)
def test_what_is_wrong_with_a_slave(fields: dict[str, Any], story: str) -> None:
    """A warning of its own; of one that RocketMQ before 5 runs nothing is known, and nothing said."""
    slave = SlaveStatus("broker-a", 1, "h:2", **fields)
    there = status(broker(addresses={0: "h:1", 1: "h:2"}, replicas=Replicas((slave,), 1)))
    assert problems(there) == ([Problem("warning", "slave 1 of broker-a", story)] if story else [])


@pytest.mark.parametrize(
    ("in_sync", "settings", "story"),
    [
        (0, SYNC_MASTER, "a send waits for 2 slaves in sync, and there is none"),
        (1, SYNC_MASTER, "a send waits for 2 slaves in sync, and there is one"),
        (2, SYNC_MASTER, ""),
        (None, SYNC_MASTER, ""),
        (0, {"brokerRole": "SYNC_MASTER"}, ""),
        (0, {**SYNC_MASTER, "inSyncReplicas": "2"}, "a send waits for 1 slave in sync, and there is none"),
        (0, {**SYNC_MASTER, "brokerRole": "ASYNC_MASTER"}, ""),
    ],
)
def test_a_master_that_waits_for_slaves(in_sync: int | None, settings: dict[str, str], story: str) -> None:
    """Only SYNC_MASTER does, and RocketMQ's not by default."""
    there = status(broker(settings=settings, replicas=Replicas((), in_sync)))
    assert problems(there) == ([Problem("warning", "broker-a", story)] if story else [])


def test_a_disk_with_its_own_bounds() -> None:
    """Bytes to keep free take the place of ratios, and ratios that were set that of RocketMQ's."""
    free = {"commitLogDiskRatio": "0.97", "commitLogDirCapacity": "Total : 99.0 GiB, Free : 3.0 GiB."}
    assert problems(status(broker(free, {"minFreeBytes": str(2 * GIB)}))) == []
    own = {"diskSpaceWarningLevelRatio": "98", "diskSpaceCleanForciblyRatio": "95"}
    assert [each.severity for each in problems(status(broker(free, own)))] == ["warning"]


def test_the_worst_comes_first() -> None:
    """Brokers, name servers and routes."""
    picture = ClusterStatus(
        [
            NameServerStatus("n:1", frozenset({"broker-a", "broker-b"})),
            NameServerStatus("n:2", frozenset({"broker-a"})),
            NameServerStatus("n:3", silence="Nothing answers."),
        ],
        [broker(), broker(name="broker-b", silence="away")],
        {"orders": ["broker-c"], "old": []},
    )
    assert problems(picture) == [
        Problem("critical", "broker-b", "is registered and does not answer: away"),
        Problem("warning", "name server n:2", "does not know broker-b"),
        Problem("warning", "name server n:3", "does not answer: Nothing answers."),
        Problem("warning", "topic old", "has queues on no broker that is registered now"),
        Problem("warning", "topic orders", "has queues on broker-c, not registered now"),
    ]
    assert problems(ClusterStatus([], [], {})) == [Problem("critical", "brokers", "none is registered")]


def test_a_name_server_that_knows_a_slave_alone() -> None:
    """Its clients can send nothing. Where no master is known anywhere, it is the master that is missed."""
    slave = frozenset({"broker-a"})
    without = NameServerStatus("n:2", slave)
    assert problems(ClusterStatus([NameServerStatus("n:1", slave, slave), without], [broker()], {})) == [
        Problem(
            "warning", "name server n:2", "does not know the master of broker-a: who asks it can send nothing there"
        )
    ]
    alone = ClusterStatus([NameServerStatus("n:1", slave), without], [broker(addresses={1: "h:2"})], {})
    assert problems(alone) == [Problem("critical", "broker-a", "has no master and takes no messages")]


def test_figures_as_brokers_write_them() -> None:
    """Unknown where there are none, or no numbers."""
    facts = {"putTps": "1.5 1.2 0.9", "getTransferredTps": "", "msgPutTotalTodayNow": "7", "msgGetTotalTodayNow": "x"}
    one = broker({**facts, "commitLogDirCapacity": "Total : 98.4 GiB, Free : 512.0 MiB."})
    assert (one.stored_per_second, one.read_per_second, one.stored, one.read) == (1.5, None, 7, None)
    assert (one.disk_free_bytes, one.started_ms, one.uptime_s, one.address) == (512 << 20, 1000, None, "h:1")
    assert broker({"runtime": "[ 1,000 days, 2 hours, 3 minutes, 4 seconds ]"}).uptime_s == 86_400_000 + 7_384
    assert (broker(runtime={"commitLogDirCapacity": "?"}).disk_free_bytes, one.flush_mode) == (None, None)
