"""What a direct read hands to its tasks: plain data, apart from the code that reads, which few queries need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from rmqspark.source.planner import QueueRange


class StorePlace(NamedTuple):
    """Where a broker says that its store lies, and which one it is."""

    path: str
    store_id: str
    incarnation: int


@dataclass
class DirectPartition(InputPartition):
    """One task's share: ranges of some queues of one broker, which lie beside each other in its log.

    `group` is the consumer group whose offsets move when a batch with these messages is decided, "" for none.
    """

    place: StorePlace
    ranges: tuple[QueueRange, ...]
    group: str = ""
