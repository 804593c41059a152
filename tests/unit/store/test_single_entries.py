"""Messages that come one by one get their place in their queues, however many queues there are."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rmqspark.store.appending.single_entries import SingleEntries
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.queues.consume_queue import ENTRY, ENTRY_BYTES
from rmqspark.store.queues.consume_queues import ConsumeQueues
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

TOPICS = ("a", "b", "c")
QUEUES = [(topic, queue_id) for topic in TOPICS for queue_id in range(2)]
SEGMENT_BYTES = 8 * ENTRY_BYTES


class Bench:
    """Queues on a memory disk, and the entries that each of them should have."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        files = self.disk.within("store")
        files.make_root()
        self.queues = ConsumeQueues(files, SegmentFiles(files, 8), SEGMENT_BYTES, ())
        self.expected: dict[tuple[str, int], list[bytes]] = {place: [] for place in QUEUES}
        self.physical_offset = 0

    def entry(self) -> bytes:
        self.physical_offset += 100
        return ENTRY.pack(self.physical_offset, 100, -1)

    def singles(self, places: list[tuple[str, int]]) -> SingleEntries:
        """What a turn of the loop brings."""
        queued = SingleEntries(self.queues)
        for place in places:
            entry = self.entry()
            queued.add(self.queues.get_or_make(*place), entry, len(self.expected[place]))
            self.expected[place].append(entry)
        return queued

    def insist(self, call: Callable[[], object]) -> None:
        """Once more if the disk refuses."""
        with suppress(OSError):
            call()
            return
        self.disk.heal()
        call()

    def check(self) -> None:
        for place in QUEUES:
            queue, expected = self.queues.get_or_make(*place), self.expected[place]
            assert queue.max_offset == queue.next_offset == len(expected)
            assert queue.entries(0, queue.max_offset).tobytes() == b"".join(expected)


turns = st.tuples(st.just("turn"), st.lists(st.sampled_from(QUEUES), min_size=1, max_size=30))
others = st.tuples(st.sampled_from(["alone", "refuse", "write out"]), st.lists(st.sampled_from(QUEUES), min_size=1))


@given(st.lists(turns | turns | others, max_size=12))
def test_readers_find_every_message_in_its_place(steps: list[tuple[str, list[tuple[str, int]]]]) -> None:
    """Whatever comes between turns, and however often the disk refuses: each queue has its messages, once, in order."""
    bench = Bench()
    for step, places in steps:
        if step == "alone":
            queue, entry = bench.queues.get_or_make(*places[0]), bench.entry()
            bench.insist(partial(queue.put, queue.next_offset, entry))
            bench.expected[places[0]].append(entry)
        elif step == "write out":
            bench.insist(bench.queues.write_out)
        else:
            if step == "refuse":  # the next write, whenever there is one
                bench.disk.fail_next("pwrite", OSError(errno.ENOSPC, "refused"))
            queued = bench.singles(places)
            queued.take_offsets()
            bench.insist(queued.put)
        bench.check()


def test_nothing_advances_before_the_messages_are_in_the_log() -> None:
    """Offsets that an append works out are given only when it has succeeded."""
    bench = Bench()
    queued = bench.singles([("a", 0), ("a", 0), ("b", 1)])
    assert queued.queue_offsets == [0, 1, 0]
    assert all(queue.next_offset == queue.max_offset == 0 for queue in bench.queues)
    again = SingleEntries(bench.queues)
    assert again.offset_in(bench.queues.get_or_make("a", 0)) == 0
    queued.take_offsets()
    assert again.offset_in(bench.queues.get_or_make("a", 0)) == 2


def test_readers_are_told_of_each_queue_once() -> None:
    """Those who wait hear of all that came to their queue in one word, with the tags in order."""
    bench = Bench()
    queued = bench.singles([("a", 0), ("b", 1), ("a", 0)])
    queued.take_offsets()
    queued.put()
    assert list(queued.readable()) == [("a", 0, 2, [0, 1]), ("b", 1, 1, [0])]


def test_a_deleted_topic_leaves_the_others() -> None:
    """What waits for the queues of a topic that is deleted goes with it, the rest is put."""
    bench = Bench()
    queued = bench.singles([("a", 0), ("b", 1), ("a", 1), ("b", 1)])
    queued.take_offsets()
    queued.without("a").put()
    ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in bench.queues}
    assert ends == {("a", 0): 0, ("a", 1): 0, ("b", 1): 2}
