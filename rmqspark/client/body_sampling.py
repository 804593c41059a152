"""Looking at a topic's newest bodies, to say what schema fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.body_schema import Sample
from rmqspark.client.in_time_order import in_time_order
from rmqspark.client.moments import LATEST, Position
from rmqspark.client.spans import spans

if TYPE_CHECKING:
    from rmqspark.client.pull_consumer import PullConsumer


def sampled(consumer: PullConsumer, topic: str, count: int) -> Sample:
    """Looks at the newest `count` messages or so: as many of each queue."""
    sample = Sample()
    each = -(-count // max(1, len(consumer.queues(topic))))
    for message in in_time_order(consumer, spans(consumer, topic, Position(offset=-each), LATEST)):
        sample.add(message.body)
    return sample
