"""How far shared groups have come is in the log: what a start finds there, and what it leaves out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rmqspark.broker.shared_groups.offset_log import OffsetLog
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.errors import WRITTEN_LATER, Busy, DamagedFile, FlushTimeout, NotWritable
from rmqspark.model import MessageQueue
from rmqspark.protocol.names import GROUP_OFFSET_TOPIC, OFFSET_LOG_GROUP
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft

from ..store.store_bench import SMALL, StoreBench

ZERO, ONE = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


class Bench(StoreBench):
    """A broker's store, its table of offsets, which `save` has a start find again, and its log of them."""

    def __init__(self, **settings: int) -> None:
        super().__init__(replace(SMALL, **settings))
        self.saved = ConsumerOffsets().table(0)
        self.flushed_to: list[int] = []
        self.failure: Exception | None = None
        for queue_id in (0, 1):
            self.send("orders", queue_id, *[b"x"] * 9)
        self.start()

    def start(self, most: int = 1_000) -> None:
        """As `Broker` does it: the table is read, moved into the bounds of its queues, and told what is logged."""
        self.offsets = ConsumerOffsets(most)
        self.offsets.load(self.saved)
        self.offsets.clamp(self.store.queues.bounds)
        self.log = OffsetLog(
            self.store,
            self.offsets,
            self.clock,
            append=lambda drafts: self.store.append(drafts),
            flush_to=self.flush_to,
        )
        self.log.replay()

    async def flush_to(self, end_offset: int) -> None:
        self.flushed_to.append(end_offset)
        if self.failure is not None:
            raise self.failure
        self.store.flush()

    def save(self) -> None:
        self.saved = self.offsets.table(0)

    def start_again(self) -> None:
        """As the master, after a kill."""
        self.kill()
        self.start()

    def committed(self, group: str = "g") -> tuple[int | None, int | None]:
        return self.offsets.committed(group, "orders", 0), self.offsets.committed(group, "orders", 1)

    def records(self) -> int:
        low, high = self.store.queues.bounds(GROUP_OFFSET_TOPIC, 0)
        return high - low


def test_a_start_commits_what_the_table_did_not_know() -> None:
    """All that was committed after it was saved, in the order in which it was, back too; and only that: what was
    committed without a record since stays as the table has it."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 3, ONE: 2})
    bench.save()
    bench.log.commit("g", {ZERO: 7})
    bench.log.commit("other", {ONE: 1})
    bench.log.commit("g", {ZERO: 5})
    bench.start_again()
    assert bench.committed() == (5, 2)
    assert bench.committed("other") == (None, 1)
    bench.log.commit("g", {ZERO: 6})
    bench.offsets.commit("g", "orders", 0, 4)  # by who needs no lease
    bench.save()
    bench.start_again()
    assert bench.committed() == (4, 2)


def test_a_start_without_a_table_commits_all_there_is() -> None:
    """It was lost, with the place up to which it knew the log."""
    bench = Bench()
    for offset in (1, 2, 3):
        bench.log.commit("g", {ZERO: offset})
    bench.start_again()
    assert bench.committed() == (3, None)


def test_what_changes_nothing_is_not_written() -> None:
    """A query that waits renews its leases several times a minute. Where a reset waits to be told, its offset stays."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 3})
    bench.log.commit("g", {ZERO: 3})
    bench.offsets.reset("g", "orders", 0, 1)
    bench.log.commit("g", {ZERO: 9})
    assert bench.records() == 1
    assert bench.committed() == (1, None)


def test_no_group_goes_behind_the_end_of_a_queue() -> None:
    """Neither when it says so nor at a start whose log has lost messages: it would skip those that come next."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 99})
    assert bench.committed() == (9, None)
    body = b'{"offsetTable":{"orders@g":{"0":99,"7":4}}}'
    record = encode_record(topic=GROUP_OFFSET_TOPIC, body=body, born_timestamp_ms=0)
    bench.store.append([Draft(GROUP_OFFSET_TOPIC, 0, record)])
    bench.start_again()
    assert bench.committed() == (9, None)
    assert bench.offsets.committed("g", "orders", 7) == 0


def test_what_was_committed_to_a_deleted_topic_is_left_out() -> None:
    """The next topic of its name has other messages."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 7})
    bench.store.deletions.delete("orders")
    bench.clock.advance(seconds=1)
    bench.send("orders", 0, *[b"y"] * 9)
    bench.start_again()
    assert bench.committed() == (None, None)


def test_a_place_behind_a_log_that_lost_its_tail_is_moved() -> None:
    """A start moves it to the end of the records; those written next are there for the start after."""
    bench = Bench()
    bench.store.flush()
    for offset in (1, 2, 3):
        bench.log.commit("g", {ZERO: offset})
    bench.save()
    bench.lose_power()
    bench.start()
    bench.save()
    assert (bench.records(), bench.offsets.committed(OFFSET_LOG_GROUP, GROUP_OFFSET_TOPIC, 0)) == (0, 0)
    bench.log.commit("g", {ZERO: 8})
    bench.start_again()
    assert bench.committed() == (8, None)


def test_many_queues_are_several_records() -> None:
    """A member may have leases of as many queues as a broker has; none is left out, and no record is too large."""
    bench = Bench(mapped_file_size_commit_log=1 << 20)
    queues = [MessageQueue("orders", "broker-a", number) for number in range(2_500)]
    bench.start(most=3_000)
    bench.log.commit("g", dict.fromkeys(queues, 0))
    assert bench.records() == 3
    bench.kill()
    bench.start(most=3_000)
    assert all(bench.offsets.committed("g", "orders", number) == 0 for number in range(2_500))


@pytest.mark.parametrize("body", [b"{", b'{"offsetTable":{"orders@g":{"0":"x"}}}', b'{"offsetTable":[]}', b"\2later"])
def test_a_start_does_not_pass_over_what_a_later_version_wrote(body: bytes) -> None:
    """Its checksum is right, and nobody here can read it: without it a group would go back to before a batch that is
    decided, and the start of the later version not read it any more. What to do is said."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 3})
    record = encode_record(topic=GROUP_OFFSET_TOPIC, body=body, born_timestamp_ms=0)
    bench.store.append([Draft(GROUP_OFFSET_TOPIC, 0, record)])
    with pytest.raises(DamagedFile, match="Record 1 of RMQ_SYS_GROUP_OFFSET_TOPIC .* later version") as refusal:
        bench.start_again()
    assert refusal.value.hint == WRITTEN_LATER
    assert bench.offsets.committed(OFFSET_LOG_GROUP, GROUP_OFFSET_TOPIC, 0) is None


def test_a_table_that_is_full_takes_no_more() -> None:
    """Who asks is told, with what had room written; a start goes on without what has none."""
    bench = Bench()
    bench.log.commit("g", {ZERO: 4, ONE: 5})
    bench.kill()
    with capture_logs() as logs:
        bench.start(most=1)
    assert bench.committed() == (4, None)
    assert "left out" in str(logs)
    with pytest.raises(Busy, match="may have 1"):
        bench.log.commit("g", {ZERO: 6, ONE: 5})
    bench.start_again()
    assert bench.committed() == (6, 5)


def test_what_cannot_be_written_is_in_the_table() -> None:
    """The disk is full: a group goes on all the same, and is saved with the table."""
    bench = Bench()
    bench.disk.fail_next("pwrite")
    with capture_logs() as logs:
        bench.log.commit("g", {ZERO: 4})
    assert "could not be logged" in str(logs)
    assert (bench.committed(), bench.records(), bench.log.is_safe) == ((4, None), 0, True)
    bench.log.commit("g", {ZERO: 5})
    bench.start_again()
    assert bench.committed() == (5, None)


def test_it_is_safe_when_disk_and_slaves_have_it() -> None:
    """Asked for once, up to the end of the newest record. A slave that is away is waited for no longer than senders
    wait; a disk that has failed is told."""
    bench = Bench()
    assert bench.log.is_safe
    bench.log.commit("g", {ZERO: 4})
    assert not bench.log.is_safe
    bench.failure = NotWritable("The disk has failed.")
    with pytest.raises(NotWritable):
        asyncio.run(bench.log.make_safe())
    assert not bench.log.is_safe
    bench.failure = FlushTimeout("No slave has it.")
    asyncio.run(bench.log.make_safe())
    assert bench.log.is_safe
    asyncio.run(bench.log.make_safe())
    assert bench.flushed_to == [bench.store.end_offset] * 2


class _Story(NamedTuple):
    """What happens to a broker: commits of 0 to 9, and what befalls it in between."""

    steps: list[int | str]
    seed: int


_STORIES = st.builds(
    _Story,
    st.lists(st.integers(0, 9) | st.sampled_from(["save", "safe", "kill", "power loss"]), max_size=25),
    st.integers(0, 1 << 16),
)


@given(_STORIES)
def test_no_start_forgets_what_was_safe(story: _Story) -> None:
    """After a kill the group is where it was; after a loss of power where it was when that was safe last, or where it
    came later, whether the table was saved before or after or never."""
    bench, possible = Bench(), [None]
    bench.store.flush()
    for step in story.steps:
        if isinstance(step, int):
            bench.log.commit("g", {ZERO: step})
            possible.append(step)
        elif step == "save":
            bench.save()
        elif step == "safe":
            asyncio.run(bench.log.make_safe())
            possible = possible[-1:]
        elif step == "kill":
            bench.start_again()
            assert bench.committed()[0] == possible[-1]
        else:
            bench.lose_power(story.seed)
            bench.start()
            assert bench.committed()[0] in possible
            possible = [bench.committed()[0]]
