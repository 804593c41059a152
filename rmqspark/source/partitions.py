"""What the driver hands to tasks: plain data, apart from the code that plans it and the code that reads."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import InputPartition

from rmqspark.model import MessageQueue
from rmqspark.source.planner import QueueRange

if TYPE_CHECKING:
    from collections.abc import Mapping


class QueueLease(NamedTuple):
    """Under what a member reads a queue. `number` 0: the group is not shared."""

    group: str
    member: str
    number: int


_NO_LEASES: Mapping[MessageQueue, int] = MappingProxyType({})


class Holder(NamedTuple):
    """Who reads: for which group, and of a shared one as which member, under the leases of these numbers."""

    group: str = ""
    member: str = ""
    leases: Mapping[MessageQueue, int] = _NO_LEASES


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
    def held(self) -> tuple[QueueLease, ...]:
        """Under what each of `ranges` is read."""
        return (QueueLease(self.group, self.member, self.lease),)

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

    `group` and `member` are as in QueuePartition; `leases` has a number for each range of a shared group, else none.
    """

    place: StorePlace
    ranges: tuple[QueueRange, ...]
    group: str = ""
    member: str = ""
    leases: tuple[int, ...] = ()

    @property
    def held(self) -> tuple[QueueLease, ...]:
        """Under what each of `ranges` is read."""
        return tuple(QueueLease(self.group, self.member, number) for number in self.leases or (0,) * len(self.ranges))
