"""Where queues of one broker begin and end: rmqspark's own request, spoken only where `capabilities` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import then
from rmqspark.errors import BodyError
from rmqspark.protocol.bodies.bulk import MAX_BOUNDED_QUEUES, BoundsOfQueues, QueueOfTopic, QueuesOfTopics
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response


class Bounds(NamedTuple):
    """The messages [begin, end) are there, and a topic of this name was last deleted then, 0 if never."""

    begin: int
    end: int
    topic_deleted_ms: int


def submit_bounds(broker: BrokerClient, queues: Sequence[MessageQueue], timeout_ms: int) -> list[Future[list[Bounds]]]:
    """RMQ_QUEUE_BOUNDS for queues of this broker; the answers, one after the other, are in the order of `queues`.

    They fail with BodyError where the broker answers what cannot be.
    """
    pieces = [queues[at : at + MAX_BOUNDED_QUEUES] for at in range(0, len(queues), MAX_BOUNDED_QUEUES)]
    return [_submit(broker, piece, timeout_ms) for piece in pieces]


def _submit(broker: BrokerClient, queues: Sequence[MessageQueue], timeout_ms: int) -> Future[list[Bounds]]:
    body = QueuesOfTopics([QueueOfTopic(queue.topic, queue.queue_id) for queue in queues]).encode()
    answer = broker.submit(RequestCode.RMQ_QUEUE_BOUNDS, None, body, timeout_ms=timeout_ms)
    return then(answer, lambda response: _bounds(response, len(queues)))


def _bounds(response: Response, asked: int) -> list[Bounds]:
    answered = BoundsOfQueues.decode(response.raise_for_code().body).queues
    if len(answered) != asked:
        raise BodyError(f"The broker told the bounds of {len(answered)} queues instead of {asked}.")
    found = [Bounds(each.minOffset, each.maxOffset, each.topicDeleted) for each in answered]
    for each in found:
        if not 0 <= each.begin <= each.end:
            raise BodyError(f"The broker told {each} of a queue, which cannot be.")
    return found
