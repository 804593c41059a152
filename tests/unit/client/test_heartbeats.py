"""What brokers hear of a client that comes and goes."""

from __future__ import annotations

import threading

from rmqspark.client.broker_client import BrokerClient
from rmqspark.client.heartbeats import Heartbeats
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for, wait_for_close

GOOD_BYE = expect(RequestCode.UNREGISTER_CLIENT)


def test_good_bye_is_said_to_all_brokers_together() -> None:
    """One that has stopped keeps it from no other, and several cost no more time than one."""
    heard = threading.Event()
    with (
        ScriptedPeer([GOOD_BYE, wait_for(heard), answer(), wait_for_close()]) as first,
        ScriptedPeer([GOOD_BYE, lambda _: heard.set(), answer(), wait_for_close()]) as second,
    ):
        heartbeats = Heartbeats("client")
        connections = [BlockingConnection(peer.address) for peer in (first, second)]
        for number, connection in enumerate(connections):
            heartbeats.reach(BrokerClient(f"broker-{number}", lambda connection=connection: connection, 60_000))
        heartbeats.remove_producer("g")
        for connection in connections:
            connection.close()
