"""A master asks name servers where its slaves are."""

from __future__ import annotations

import asyncio
from threading import Event

from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.replication.registered import RegisteredSlaves
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for

ASKED = expect(RequestCode.GET_BROKER_CLUSTER_INFO)
SLAVES = {0: "127.0.0.1:1", 1: "127.0.0.1:2", 2: "127.0.0.1:3", 3: "10.0.0.1:4", 4: "no address"}
KNOWN = ClusterInfo({"broker-a": BrokerData("c", "broker-a", SLAVES)}, {"c": ["broker-a"]}).encode()


def count(host: str, *name_servers: str) -> int:
    return asyncio.run(RegisteredSlaves("broker-a", name_servers).count_at(host))


def test_slaves_at_a_host_are_counted_and_not_the_master() -> None:
    """Those of this broker name alone."""
    for host, there in (("127.0.0.1", 2), ("10.0.0.1", 1), ("10.0.0.2", 0)):
        with ScriptedPeer([ASKED, answer(body=KNOWN)]) as peer:
            assert count(host, peer.address) == there
    assert count("127.0.0.1") == 0


def test_a_name_server_that_takes_its_time_is_not_waited_for_before_the_next_is_asked() -> None:
    """Or a slave would have given up by then."""
    second_was_asked = Event()
    slow = ScriptedPeer([ASKED, wait_for(second_was_asked), answer(body=KNOWN)])
    quick = ScriptedPeer([ASKED, lambda _: second_was_asked.set(), answer(body=ClusterInfo().encode())])
    with slow, quick:
        assert count("127.0.0.1", slow.address, quick.address) == 2
