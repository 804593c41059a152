"""Bodies of rmqspark's requests about many queues at once, in standard JSON."""

from __future__ import annotations

from typing import Final

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.headers.types import Int32, Int64

MAX_MEASURED_QUEUES: Final = 1_000
"""Queues that one RMQ_MEASURE asks about at most."""

MAX_BOUNDED_QUEUES: Final = 1_000
"""Queues that one RMQ_QUEUE_BOUNDS asks about at most."""


class QueueBudget(Body):
    """How many of the messages of [fromOffset, toOffset) fit into `maxBytes`?"""

    topic: str = ""
    queueId: Int32 = 0
    fromOffset: Int64 = 0
    toOffset: Int64 = 0
    maxBytes: Int64 = 0


class QueueExtent(Body):
    """Those below `nextOffset`, `bytes` in the log; the next one has `nextBytes`, and did not fit.

    `nextBytes` 0: there is none in the range, or the broker stopped there for its own reasons and may be asked on.
    """

    nextOffset: Int64 = 0
    bytes: Int64 = 0
    nextBytes: Int64 = 0


class QueueBudgets(Body):
    """RMQ_MEASURE."""

    queues: list[QueueBudget] = []


class QueueExtents(Body):
    """Answers RMQ_MEASURE, in the order of the question."""

    queues: list[QueueExtent] = []


class QueueOfTopic(Body):
    """One queue that is asked about."""

    topic: str = ""
    queueId: Int32 = 0


class QueuesOfTopics(Body):
    """RMQ_QUEUE_BOUNDS."""

    queues: list[QueueOfTopic] = []


class QueueBounds(Body):
    """What GET_MIN_OFFSET and GET_MAX_OFFSET answer; `topicDeleted` 0 says that no topic of this name was."""

    minOffset: Int64 = 0
    maxOffset: Int64 = 0
    topicDeleted: Int64 = 0


class BoundsOfQueues(Body):
    """Answers RMQ_QUEUE_BOUNDS, in the order of the question."""

    queues: list[QueueBounds] = []
