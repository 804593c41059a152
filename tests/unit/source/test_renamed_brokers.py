"""A broker that comes back with its store, under another name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.model import MessageQueue
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import Subscription
from rmqspark.source.planning.planner import Snapshot, range_in, ranges

from .one_cluster import STORE, Cluster, progress

if TYPE_CHECKING:
    from rmqspark.source.planning.progress import Progress

A, B, C, D = (MessageQueue("t", f"broker-{letter}", 0) for letter in "abcd")
OF_A, OF_B = STORE, StoreIdentity("other", 1)


class Named(Cluster):
    """Brokers that serve stores under names of today."""

    def __init__(self, ends: dict[MessageQueue, int], stores: dict[str, StoreIdentity]) -> None:
        super().__init__(ends)
        self.stores = stores

    def snapshot(self, **kwargs: bool) -> Snapshot:
        there = {queue.broker_name for queue in self.ends}
        return replace(
            super().snapshot(**kwargs),
            stores={name: store for name, store in self.stores.items() if name in there},
            deletions_ms={},
        )


def start(**left: Offsets) -> Offsets:
    stores = {("t", "broker-a"): OF_A, ("t", "broker-b"): OF_B}
    return Offsets("g", {A: 5, B: 7}, stores, {"t": 3}, **left)  # type: ignore[arg-type]


def step(query: Progress, before: Offsets) -> tuple[Offsets, list[object]]:
    """A micro-batch, its offsets as Spark keeps them."""
    end = Offsets.from_json(query.latest(before, None).to_json())
    return end, list(ranges(before, end))


def test_its_queues_are_read_on_where_they_were() -> None:
    """They were read from their first message, though that had been read under the old name."""
    query = progress(Named({C: 9, B: 8}, {"broker-c": OF_A, "broker-b": OF_B}))
    end, read = step(query, start())
    assert (end.positions, end.epochs) == ({C: 9, B: 8}, {"t": 3})
    assert read == [range_in(OF_B, B, 7, 8), range_in(OF_A, C, 5, 9)]
    assert step(query, end) == (end, [])


def test_two_that_have_changed_their_names() -> None:
    query = progress(Named({C: 9, D: 8}, {"broker-c": OF_A, "broker-d": OF_B}))
    assert step(query, start())[1] == [range_in(OF_A, C, 5, 9), range_in(OF_B, D, 7, 8)]


@pytest.mark.parametrize(
    ("ends", "stores"),
    [
        ({B: 8, C: 9}, {"broker-c": StoreIdentity("new", 1), "broker-b": OF_B}),  # its store is another one
        ({A: 6, B: 8, C: 9}, {"broker-a": OF_A, "broker-c": OF_A, "broker-b": OF_B}),  # a copy, beside the other
        ({B: 8, C: 9, D: 9}, {"broker-c": OF_A, "broker-d": OF_A, "broker-b": OF_B}),  # which one is it?
        ({B: 8, C: 9}, {"broker-c": StoreIdentity(), "broker-b": OF_B}),  # a stock broker says nothing
    ],
)
def test_who_else_comes_is_new(ends: dict[MessageQueue, int], stores: dict[str, StoreIdentity]) -> None:
    """What is not known to have been read is read from its first message."""
    end, _ = step(progress(Named(ends, stores)), start())
    assert end.positions[C] == 0


def test_a_queue_that_was_taken_out_comes_back_under_the_new_name() -> None:
    """Put back, it goes on at its place; so does one that is named in assign under the new name alone."""
    cluster = Named({C: 9, B: 8}, {"broker-c": OF_A, "broker-b": OF_B})
    kept = Offsets(
        "g", {B: 7}, {("t", "broker-b"): OF_B}, {"t": 3}, left=Offsets("", {A: 5}, {("t", "broker-a"): OF_A})
    )
    assert step(progress(cluster), kept)[1] == [range_in(OF_B, B, 7, 8), range_in(OF_A, C, 5, 9)]
    named = progress(cluster, subscription=Subscription(("t",), frozenset({C})))
    assert step(named, start())[1] == [range_in(OF_A, C, 5, 9)]


def test_a_batch_that_is_run_again_reads_the_broker_under_its_new_name() -> None:
    """It was planned, and not done with, when the broker had the old one."""
    end = Offsets("g", {A: 9, B: 8}, start().stores, {"t": 3})
    query = progress(Named({C: 9, B: 8}, {"broker-c": OF_A, "broker-b": OF_B}))
    assert query.readable(ranges(start(), end), end) == [range_in(OF_A, C, 5, 9), range_in(OF_B, B, 7, 8)]
