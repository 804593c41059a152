"""What the driver hands to tasks: plain data, apart from the code that plans it and the code that reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from rmqspark.model import MessageQueue
from rmqspark.source.planner import QueueRange


class QueueLease(NamedTuple):
    """Under what a member reads a queue. `number` 0: the group is not shared."""

    group: str
    member: str
    number: int


@dataclass
class QueuePartition(InputPartition):
    """One task's share: the messages of one queue from `start` up to, not including, `end`.

    `group` is the consumer group whose offsets move when a batch with these messages is decided, "" for none; `member`
    and `lease` say under what the queue is read for a shared one.
    """

    topic: str
    broker_name: str
    queue_id: int
    start: int
    end: int
    group: str = ""
    member: str = ""
    lease: int = 0

    @property
    def held(self) -> QueueLease:
        return QueueLease(self.group, self.member, self.lease)

    @property
    def range(self) -> QueueRange:
        return QueueRange(MessageQueue(self.topic, self.broker_name, self.queue_id), self.start, self.end)

    @property
    def ranges(self) -> tuple[QueueRange, ...]:
        return (self.range,)


class StorePlace(NamedTuple):
    """Where a broker says that its store lies, and which one it is."""

    path: str
    store_id: str
    incarnation: int


@dataclass
class DirectPartition(InputPartition):
    """One task's share of a direct read: ranges of some queues of one broker, which lie beside each other in its log.

    `group` is the consumer group whose offsets move when a batch with these messages is decided, "" for none.
    """

    place: StorePlace
    ranges: tuple[QueueRange, ...]
    group: str = ""

    @property
    def held(self) -> QueueLease:
        return QueueLease(self.group, "", 0)
