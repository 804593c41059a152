"""How far bytes reach into queues, over brokers that answer as the test says."""

from __future__ import annotations

import pytest

from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.measuring import Budget, Extent, submit_measure
from rmqspark.errors import BodyError
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.bulk import MAX_MEASURED_QUEUES, QueueExtent, QueueExtents
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close

QUEUE = MessageQueue("t", "broker-a", 0)
ASKED = expect(RequestCode.RMQ_MEASURE)
BUDGET = Budget(QUEUE, 10, 20, 100)


def measured(budgets: list[Budget], *answers: list[tuple[int, int, int]]) -> list[Extent]:
    steps = [
        step
        for extents in answers
        for step in (ASKED, answer(body=QueueExtents([QueueExtent(*each) for each in extents]).encode(standard=True)))
    ]
    with ScriptedPeer([*steps, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        try:
            futures = submit_measure(BrokerClient("broker-a", lambda: connection, 3_000), budgets)
            return [extent for future in futures for extent in future.result()]
        finally:
            connection.close()


def test_answers_are_in_the_order_of_the_question() -> None:
    """Each budget gets its own extent."""
    second = Budget(QUEUE, 0, 5, 9)
    assert measured([BUDGET, second], [(14, 96, 24), (5, 9, 0)]) == [Extent(14, 96, 24), Extent(5, 9, 0)]


def test_many_queues_take_several_requests() -> None:
    """No request is larger than a broker takes."""
    most = MAX_MEASURED_QUEUES
    found = measured([BUDGET] * (most + 1), [(10, 0, 7)] * most, [(20, 50, 0)])
    assert (len(found), found[-1]) == (most + 1, Extent(20, 50, 0))


@pytest.mark.parametrize(
    "extents",
    [
        [],
        [(14, 96, 24), (14, 96, 24)],
        [(9, 0, 24)],
        [(21, 96, 24)],
        [(14, 101, 24)],
        [(14, -1, 24)],
        [(14, 96, -1)],
    ],
)
def test_an_answer_that_cannot_be_is_refused(extents: list[tuple[int, int, int]]) -> None:
    """A broker cannot make a batch skip messages, go back or exceed its limit by lying."""
    with pytest.raises(BodyError, match="measured"):
        measured([BUDGET], extents)
