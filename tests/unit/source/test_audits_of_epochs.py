"""What an audit says of a query whose queues began anew: their epochs keep it from calling that a fault."""

from __future__ import annotations

import json
from typing import NamedTuple

from rmqspark.client.spark.audit import findings, resets
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.planning.planner import Snapshot, advance, needing_begin, ranges

QUEUE = MessageQueue("t", "broker-a", 0)


class Look(NamedTuple):
    """What the cluster shows: the end of the queue, None where its topic is gone."""

    end: int | None
    incarnation: int = 1
    deleted_ms: int = 0

    def snapshot(self, start: Offsets) -> Snapshot:
        ends = {} if self.end is None else {QUEUE: self.end}
        stores = {"broker-a": StoreIdentity("s", self.incarnation)}
        deletions_ms = {(queue.topic, queue.broker_name): self.deleted_ms for queue in ends}
        seen = Snapshot(ends, stores, deletions_ms=deletions_ms)
        return Snapshot(ends, stores, dict.fromkeys(needing_begin(start, seen), 0), deletions_ms)


def batches(*looks: Look) -> list[AuditedBatch]:
    """A batch for each look at the cluster, with what it reads; its offsets go through the checkpoint. A topic that is
    gone leaves them."""
    end, told = Offsets("g"), []
    for version, look in enumerate(looks):
        start = end if look.end is not None else end.at({})
        end = Offsets.from_json(json.loads(json.dumps(advance(start, look.snapshot(start)).to_json())))
        read = [
            InputRange("g", *each[0], each.start, each.end, topicEpoch=end.epochs["t"]) for each in ranges(start, end)
        ]
        told.append(AuditedBatch("T", "q", version, inputs=read, completed=True))
    return told


def test_a_topic_that_comes_back_is_not_read_twice() -> None:
    """It left subscribePattern when it was deleted, and the query's offsets with that. Its name comes back, and its
    numbers begin anew."""
    told = batches(Look(0), Look(9), Look(None), Look(4, deleted_ms=70), Look(6, deleted_ms=70))
    assert [batch.inputs[0].toOffset for batch in told if batch.inputs] == [9, 6]
    assert findings(told) == []


def test_a_store_that_lost_its_tail_gives_numbers_twice() -> None:
    """To other messages, which are read; that fewer are there is told, and is no message in two batches."""
    told = batches(Look(0), Look(9), Look(6, incarnation=2), Look(8, incarnation=2))
    assert [(batch.inputs[0].fromOffset, batch.inputs[0].toOffset) for batch in told if batch.inputs] == [
        (0, 9),
        (6, 8),
    ]
    assert findings(told) == []
    (lost,) = resets(told)
    assert (lost.version, lost.messages) == (3, 3)


def test_what_is_read_twice_is_found_all_the_same() -> None:
    """A checkpoint that was restored reads the same messages again, of the same epoch."""
    told = batches(Look(0), Look(9), Look(12))
    assert [finding.messages for finding in findings([*told, told[1]])] == [12]
