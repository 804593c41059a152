"""Which brokers a transaction producer lets know that it can be asked."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster import heartbeats
from rmqspark.client.transaction_producer import TransactionProducer
from rmqspark.model import Message, PreparedMessage, ReceivedMessage, TransactionState
from rmqspark.protocol.bodies.client import HeartbeatData
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect

if TYPE_CHECKING:
    from rmqspark.testing.scripted_peer import Conversation, Step

ASKED_BROKERS = expect(RequestCode.GET_BROKER_CLUSTER_INFO)
HEART_BEAT = expect(RequestCode.HEART_BEAT)


class Committing:
    def execute(self, message: PreparedMessage, arg: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


def registered(*addresses: str) -> Step:
    brokers = {f"broker-{n}": BrokerData("c", f"broker-{n}", {0: address}) for n, address in enumerate(addresses)}
    return answer(body=ClusterInfo(brokers, {"c": list(brokers)}).encode(standard=True))


def by_code(answers: dict[RequestCode, Step]) -> Step:
    """Answers whatever the client asks until it closes the connection; with SUCCESS alone where nothing is said."""

    def step(conversation: Conversation) -> None:
        with suppress(AssertionError, ConnectionResetError):
            while True:
                answers.get(RequestCode(conversation.read().command.code), answer())(conversation)

    return step


@pytest.mark.parametrize("first", [registered(), answer(1, remark="I have just been started.")])
def test_a_broker_that_comes_later_is_told_too(first: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have half messages of this group from before, and asks nobody about them but whom it knows; what it has
    asked about in vain fifteen times is given up."""
    monkeypatch.setattr(heartbeats, "INTERVAL_S", 0.01)
    heard = threading.Event()
    with ScriptedPeer([HEART_BEAT, answer(), lambda _: heard.set(), by_code({})]) as broker:
        there = registered(broker.address)
        asked = [ASKED_BROKERS, first, ASKED_BROKERS, there, by_code({RequestCode.GET_BROKER_CLUSTER_INFO: there})]
        with ScriptedPeer(asked) as names, TransactionProducer(names.address, "g", listener=Committing()):
            assert heard.wait(60)
    (group,) = HeartbeatData.decode(broker.requests[0].body).producerDataSet
    assert group.groupName == "g"


def test_a_process_that_was_forked_closes_it_whatever_its_parent_was_at() -> None:
    """A thread of the parent's may have held the lock of `close`, and is not there to give it back."""
    with TransactionProducer("127.0.0.1:1", "g", listener=Committing()) as producer:
        producer._checks._lock.acquire()  # as a thread does that the child will not have
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)  # ends a child that waits for ever
            producer.close()
            os._exit(0)
        producer._checks._lock.release()
        assert os.waitpid(child, 0)[1] == 0


def test_what_was_executed_is_told_whatever_id_the_broker_gave() -> None:
    """An error would say that nothing was; the broker, which cannot be told, asks."""
    stored = answer(msgId="not one of ours", queueId="0", queueOffset="0")
    with ScriptedPeer([by_code({RequestCode.SEND_MESSAGE_V2: stored})]) as broker:
        route = TopicRouteData([QueueData("broker-0", 1, 1, 6)], [BrokerData("c", "broker-0", {0: broker.address})])
        told = {
            RequestCode.GET_BROKER_CLUSTER_INFO: registered(broker.address),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: answer(body=route.encode(standard=True)),
        }
        with (
            ScriptedPeer([by_code(told)]) as names,
            TransactionProducer(names.address, "g", listener=Committing()) as producer,
        ):
            assert producer.send(Message("t", b"x")).state is TransactionState.COMMIT
