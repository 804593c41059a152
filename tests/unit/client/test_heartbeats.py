"""What brokers hear of a client that comes and goes."""

from __future__ import annotations

import threading

from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.heartbeats import _MOST_MISSED, Heartbeats
from rmqspark.errors import Unreachable
from rmqspark.protocol.bodies.client import HeartbeatData
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


def test_a_broker_that_hangs_keeps_no_other_from_hearing_of_a_client() -> None:
    """With forty that are gone for good each would hear of it once in two minutes, and take it for gone itself."""
    heard, over = threading.Event(), threading.Event()
    beat = expect(RequestCode.HEART_BEAT)
    with (
        ScriptedPeer([beat, wait_for(over)]) as hanging,
        ScriptedPeer([beat, lambda _: heard.set(), answer(), wait_for(over)]) as other,
    ):
        heartbeats = Heartbeats("client")
        connections = [BlockingConnection(peer.address) for peer in (hanging, other)]
        for number, connection in enumerate(connections):
            heartbeats.reach(BrokerClient(f"broker-{number}", lambda connection=connection: connection, 60_000))
        heartbeats.add_producer("g")
        assert heard.wait(20)
        heartbeats.stop()
        over.set()
        for connection in connections:
            connection.close()
        heartbeats.join()


def test_a_broker_that_is_away_for_long_is_told_nothing_more() -> None:
    """Brokers may come under a new name each time; one that is used once more hears of the client again."""
    heartbeats, beat = Heartbeats("client"), HeartbeatData(clientID="client")

    def nobody() -> BlockingConnection:
        raise Unreachable("nobody", address="10.0.0.1:10911")

    with ScriptedPeer([*[expect(RequestCode.HEART_BEAT), answer()] * (2 * _MOST_MISSED), wait_for_close()]) as peer:
        there = BlockingConnection(peer.address)
        brokers = [BrokerClient("gone", nobody, 60_000), BrokerClient("there", lambda: there, 60_000)]
        for broker in brokers:
            heartbeats.reach(broker)
        for _ in range(_MOST_MISSED - 1):
            heartbeats._beat(brokers, beat)
        assert sorted(heartbeats._brokers) == ["gone", "there"]
        heartbeats._beat(brokers, beat)
        assert (sorted(heartbeats._brokers), heartbeats._missed) == (["there"], {})
        heartbeats.reach(brokers[0])
        for _ in range(_MOST_MISSED):
            heartbeats._beat(brokers[1:], beat)
        assert sorted(heartbeats._brokers) == ["gone", "there"]
        there.close()
