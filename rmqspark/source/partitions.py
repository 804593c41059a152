"""What the driver hands to tasks: plain data, apart from the code that plans it and the code that reads."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import InputPartition

from rmqspark.source.queue_range import QueueRange
from rmqspark.source.task_options import TaskOptions
from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.message_queue import MessageQueue


class QueueLease(NamedTuple):
    """Under what a member reads a queue, in which `run` of it, as its broker numbers them. `number` 0: the group is not
    shared. `epoch`: of the topic in its offsets."""

    group: str
    member: str
    number: int
    epoch: int = 0
    run: int = 0


_NO_LEASES: Mapping[MessageQueue, int] = MappingProxyType({})
_NONE_BY_NAME: Mapping[str, int] = MappingProxyType({})


class Holder(NamedTuple):
    """Who reads: for which group, and of a shared one as which member, under the leases of these numbers; the epochs of
    the topics in its offsets; and the numbers of this run, by broker name."""

    group: str = ""
    member: str = ""
    leases: Mapping[MessageQueue, int] = _NO_LEASES
    epochs: Mapping[str, int] = _NONE_BY_NAME
    runs: Mapping[str, int] = _NONE_BY_NAME

    def of(self, read: Sequence[QueueRange]) -> tuple[QueueLease, ...]:
        """Under what each of these ranges is read."""
        return tuple(self._of(wanted.queue) for wanted in read)

    def _of(self, queue: MessageQueue) -> QueueLease:
        number, run = self.leases.get(queue, 0), self.runs.get(queue.broker_name, 0)
        return QueueLease(self.group, self.member, number, self.epochs.get(queue.topic, 0), run)


@dataclass
class QueuePartition(Travelling, InputPartition):
    """One task's share: ranges of one or several queues of one broker, and under what each of them is read. The group
    there is the one whose offsets move when a batch with these messages is decided, "" for none."""

    ranges: tuple[QueueRange, ...]
    held: tuple[QueueLease, ...]
    options: TaskOptions


class StorePlace(NamedTuple):
    """Where a broker says that its store lies, which one it is, and in which opening: "" where it does not say that."""

    path: str
    store_id: str
    incarnation: int
    opening: str = ""


@dataclass
class DirectPartition(QueuePartition):
    """A share that is read from the broker's own files; its ranges lie beside each other in the log."""

    place: StorePlace
