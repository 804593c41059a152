"""Where many queues begin and end, over brokers that answer as the test says."""

from __future__ import annotations

import pytest

from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.queue_bounds import Bounds, submit_bounds
from rmqspark.errors import BodyError
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.bulk import MAX_BOUNDED_QUEUES, BoundsOfQueues, QueueBounds
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close

QUEUE = MessageQueue("t", "broker-a", 0)


def told(queues: int, *answers: list[tuple[int, int, int]]) -> list[Bounds]:
    steps = [
        step
        for bounds in answers
        for step in (
            expect(RequestCode.RMQ_QUEUE_BOUNDS),
            answer(body=BoundsOfQueues([QueueBounds(*each) for each in bounds]).encode(standard=True)),
        )
    ]
    with ScriptedPeer([*steps, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        try:
            futures = submit_bounds(BrokerClient("broker-a", lambda: connection, 3_000), [QUEUE] * queues, 3_000)
            return [bounds for future in futures for bounds in future.result()]
        finally:
            connection.close()


def test_answers_are_in_the_order_of_the_question() -> None:
    """Each queue gets its own bounds."""
    assert told(2, [(1, 4, 0), (0, 0, 99)]) == [Bounds(1, 4, 0), Bounds(0, 0, 99)]


def test_many_queues_take_several_requests() -> None:
    """No request is larger than a broker takes."""
    found = told(MAX_BOUNDED_QUEUES + 1, [(0, 1, 0)] * MAX_BOUNDED_QUEUES, [(5, 6, 7)])
    assert (len(found), found[-1]) == (MAX_BOUNDED_QUEUES + 1, Bounds(5, 6, 7))


@pytest.mark.parametrize("bounds", [[], [(0, 1, 0), (0, 1, 0)], [(-1, 1, 0)], [(2, 1, 0)]])
def test_answers_that_cannot_be(bounds: list[tuple[int, int, int]]) -> None:
    """Too few, too many, or an end before the beginning: an error, not a plan."""
    with pytest.raises(BodyError):
        told(1, bounds)
