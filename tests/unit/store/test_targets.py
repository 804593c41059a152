"""Queues by number."""

from __future__ import annotations

import numpy as np
import pytest

from rmqspark.errors import InvalidName
from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.record import topic_field
from rmqspark.store.appending.targets import Targets

from .store_bench import StoreBench, table

NAMES = [(f"topic-{number}", number % 3) for number in range(200)]


def test_a_queue_keeps_its_number_and_what_is_known_of_it() -> None:
    """However many there are."""
    targets = Targets(NAMES)
    numbers = [targets.number_of(*name) for name in NAMES]
    assert numbers == list(range(200))
    rows = targets.rows(np.array(numbers))
    assert rows["queue_id"].tolist() == [queue_id for _, queue_id in NAMES]
    assert rows["topic_hash"].view(np.int32).tolist() == [java_hash(f"{topic}#") for topic, _ in NAMES]
    assert rows["topic_bytes"].tolist() == [len(topic) for topic, _ in NAMES]
    assert targets.topic_fields == [topic_field(topic)[1] for topic, _ in NAMES]


def test_it_is_known_whether_there_may_be_delays() -> None:
    """Only messages of the delay topic carry a deliver time."""
    targets = Targets(NAMES)
    assert not targets.may_delay
    targets.number_of(SCHEDULE_TOPIC, 3)
    assert targets.may_delay


def test_a_queue_whose_topic_was_deleted_is_not_written_to() -> None:
    """A message that comes afterwards begins a new one."""
    bench = StoreBench()
    first = table([("orders", 0), ("refund", 0)], [b"1", b"2"])
    bench.store.writer.append_table(first)
    bench.store.deletions.delete("orders")
    again = table([("orders", 0), ("refund", 0)], [b"3", b"4"])._replace(targets=first.targets)
    stored = bench.store.writer.append_table(again)
    assert stored is not None
    assert stored.queue_offsets.tolist() == [0, 1]
    assert bench.store.queues.max_offset("orders", 0) == 1


def test_only_queues_that_are_asked_for_are_made() -> None:
    """A name that cannot be a topic's harms nobody else."""
    bench = StoreBench()
    some = table([("orders", 0)], [b"1"])
    odd = some.targets.number_of("no/topic", 0)
    bench.store.writer.append_table(some)
    assert bench.store.queues.topics() == ["orders"]
    with pytest.raises(InvalidName):
        bench.store.writer.append_table(some._replace(target_of=np.array([odd])))
    assert bench.store.queues.topics() == ["orders"]
