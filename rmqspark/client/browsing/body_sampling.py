"""Looking at a topic's newest bodies, to say what schema fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.browsing.body_schema import Sample
from rmqspark.client.browsing.in_time_order import InTimeOrder
from rmqspark.client.browsing.spans import spans
from rmqspark.client.moments import LATEST, Position
from rmqspark.errors import RequestTimeout

if TYPE_CHECKING:
    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.clock import Clock


def sampled(
    consumer: PullConsumer, topic: str, count: int, *, until_ms: int | None = None, clock: Clock | None = None
) -> Sample:
    """Looks at the newest `count` messages or so: as many of each queue; of them the older ones where it has been
    `until_ms` by the clock before all are looked at. RequestTimeout where not one is."""
    sample = Sample()
    each = -(-count // max(1, len(consumer.queues(topic))))
    newest = spans(consumer, topic, Position(offset=-each), LATEST)
    order = InTimeOrder(consumer, newest, until_ms=until_ms, clock=clock)
    for message in order:
        sample.add(message.body)
    if order.is_broken_off and not sample.bodies:
        raise RequestTimeout(f"No message of topic {topic!r} came in time.", hint="Ask again, or for fewer: count.")
    return sample
