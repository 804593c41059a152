"""A broker asks name servers which others there are."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.registered_brokers import registered_brokers
from rmqspark.testing.ports import reserved_port
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, cut, expect

ASKED = expect(RequestCode.GET_BROKER_CLUSTER_INFO)
KNOWN = ClusterInfo({"broker-a": BrokerData("c", "broker-a", {0: "h:1", 1: "h:2"})}, {"c": ["broker-a"]})


def ask(address: str) -> tuple[ClusterInfo | None, list[str]]:
    """What it said, and what was logged as a warning."""
    with capture_logs() as logs:
        info = asyncio.run(registered_brokers(address, OPEN))
    return info, [each["reason"] for each in logs if each["log_level"] == "warning"]


def test_masters_and_slaves_by_name() -> None:
    """As the name server knows them."""
    with ScriptedPeer([ASKED, answer(body=KNOWN.encode())]) as peer:
        info, warned = ask(peer.address)
    assert info is not None
    assert (info.brokerAddrTable["broker-a"].brokerAddrs, warned) == ({0: "h:1", 1: "h:2"}, [])


def test_one_that_is_away() -> None:
    """Nothing is said of it: who registers with it says so."""
    with reserved_port() as port:
        assert ask(f"127.0.0.1:{port}") == (None, [])
    with ScriptedPeer([ASKED, cut()]) as peer:
        assert ask(peer.address) == (None, [])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(ResponseCode.NO_PERMISSION, remark="no matched policies"), "no matched policies"),
        (answer(body=b"[]"), "ClusterInfo"),
    ],
)
def test_one_that_does_not_say_it(said: object, reason: str) -> None:
    """It refuses, or answers something else: that is logged."""
    with ScriptedPeer([ASKED, said]) as peer:  # type: ignore[list-item]
        info, (warned,) = ask(peer.address)
    assert info is None
    assert reason in warned
