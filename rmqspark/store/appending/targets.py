"""Queues that messages go to, by number: what is to be known of a message's queue is then a column.

A turn of the loop may bring hundreds of messages for as many queues. Whoever names a queue gets its number once, and
remembers it; from there on nothing is looked up by topic and queue id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.record import topic_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues

_TARGET: Final = np.dtype([("queue_id", np.int32), ("topic_hash", np.uint32), ("topic_bytes", np.int64)])
"""Queue id; what the hash of a key of the topic begins with (`index_keys.py`); the length of the topic's name."""
_LOW_32: Final = 0xFFFFFFFF


class Targets:
    """Topics and queue ids in the order of their numbers. There is no end to them but what the caller sets."""

    def __init__(self, names: Iterable[tuple[str, int]] = ()) -> None:
        self._names: list[tuple[str, int]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._columns = np.zeros(64, _TARGET)
        self._queues: list[Any] = []  # those that have been asked for, and None for the others
        self._queues_of: tuple[ConsumeQueues, int] | None = None  # where from, and after how many removals there
        self.topic_fields: list[bytes] = []
        """The topics as they stand in records, with their length in front."""
        self.may_delay = False
        """Whether there is a queue of delayed messages."""
        for name in names:
            self.number_of(*name)

    def number_of(self, topic: str, queue_id: int) -> int:
        """The number of a queue from now on."""
        known = self._numbers.get((topic, queue_id))
        if known is not None:
            return known
        number = len(self._names)
        if number == len(self._columns):
            self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)))
        _, field = topic_field(topic)
        self._columns[number] = queue_id, java_hash(f"{topic}#") & _LOW_32, len(topic.encode())
        self.topic_fields[number:] = [field]  # not `append`: memory may have run out here before
        self._queues[number:] = [None]
        self.may_delay = self.may_delay or topic == SCHEDULE_TOPIC
        self._names.append((topic, queue_id))
        self._numbers[topic, queue_id] = number
        return number

    def by_topic(self, numbers: NDArray[np.intp]) -> Iterator[tuple[str, NDArray[np.intp]]]:
        """The topics of these queues, and beside each which of the queues are its."""
        topics = [self._names[number][0] for number in numbers.tolist()]
        for topic in dict.fromkeys(topics):
            yield topic, np.array([row for row, other in enumerate(topics) if other == topic])

    def rows(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """Of each of these queues `queue_id`, `topic_hash` and `topic_bytes`."""
        return self._columns[numbers]

    def queues(self, numbers: Sequence[int], all_queues: ConsumeQueues) -> list[ConsumeQueue]:
        """These queues; one that is new has no file until its first entry. Raises InvalidName, InvalidQueue."""
        if self._queues_of != (all_queues, all_queues.removals):
            self._queues_of = all_queues, all_queues.removals
            self._queues = [None] * len(self._names)
        found = list(map(self._queues.__getitem__, numbers))
        if None in found:
            for number in numbers:
                self._queues[number] = all_queues.get_or_make(*self._names[number])
            found = list(map(self._queues.__getitem__, numbers))
        return found
