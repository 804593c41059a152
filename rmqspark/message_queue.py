"""The name of a queue. Apart from `model`: Spark's processes deal with queues and never see a message as an object."""

from __future__ import annotations

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Sorts as RocketMQ's rebalance sorts: topic, broker, id."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"
