"""How far groups have come: commits, resets, what a restart must remember."""

from __future__ import annotations

import pytest

from rmqspark.broker.offsets import ConsumerOffsets, GroupQueue
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable


def test_never_committed_is_unknown() -> None:
    """Neither 0 nor -1: a group that never committed an offset has none."""
    offsets = ConsumerOffsets()
    assert offsets.committed("g", "orders", 0) is None
    offsets.commit("g", "orders", 0, 0)
    assert offsets.committed("g", "orders", 0) == 0
    assert offsets.committed("g", "orders", 1) is None


def test_a_commit_may_go_back() -> None:
    """The last word counts, as in RocketMQ: consumers decide what they have consumed."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "orders", 0, 9)
    offsets.commit("g", "orders", 0, 4)
    assert offsets.committed("g", "orders", 0) == 4


def test_a_reset_holds_until_the_next_pull_knows() -> None:
    """Commits of consumers that have not heard of the reset yet are not stored; the pull hears of it once."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "orders", 0, 100)
    offsets.reset("g", "orders", 0, 10)
    assert offsets.committed("g", "orders", 0) == 10
    assert offsets.commit("g", "orders", 0, 101) is False
    assert offsets.committed("g", "orders", 0) == 10
    assert offsets.take_reset("g", "orders", 0) == 10
    assert offsets.take_reset("g", "orders", 0) is None
    assert offsets.commit("g", "orders", 0, 11) is True


def test_the_table_survives_in_rocketmqs_form() -> None:
    """Written and read again, in the dialect with bare number keys, the offsets are the same."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "orders", 0, 12)
    offsets.commit("g", "orders", 1, 9)
    offsets.commit("h", "%RETRY%g", 0, 3)
    text = offsets.table(1_700_000_000_000).encode()
    assert b'"orders@g":{0:12,1:9}' in text
    again = ConsumerOffsets()
    again.load(ConsumerOffsetTable.decode(text))
    assert sorted(again) == sorted(offsets)
    assert again.topics_of("g") == ["orders"]
    assert again.groups_of("%RETRY%g") == ["h"]


def test_there_are_so_many_offsets_at_most() -> None:
    """Groups times topics times queues is more than fits into memory. What is known moves on, and what goes makes
    room."""
    offsets = ConsumerOffsets(most=10)
    offsets.load(ConsumerOffsetTable({"t@g": {0: 1, 1: 1}}))
    offsets.follow(ConsumerOffsetTable({"t@g": {0: 2}, "t@h": {0: 1}}))
    refused = 0
    for number in range(100):
        offsets.note_pull(f"g{number}", "t", 0, 1)
        try:
            offsets.commit(f"g{number % 50}", "orders", number % 3, number)
        except Busy:
            refused += 1
    assert (len(list(offsets)), len(offsets._pulled), refused) == (10, 10, 92)
    for change in (offsets.commit, offsets.reset):
        change("g0", "orders", 0, 7)
        with pytest.raises(Busy, match="10 committed offsets"):
            change("fresh", "orders", 0, 7)
    assert offsets.groups_of("orders") == [f"g{number}" for number in range(8)]
    assert "fresh" not in str(offsets.resets.table())
    offsets.forget_group("g1")
    offsets.forget_topics(["t"])
    for number in range(3):
        offsets.commit("fresh", "orders", number, 7)
    with pytest.raises(Busy):
        offsets.commit("fresh", "orders", 3, 7)


def test_keys_that_are_no_group_of_a_topic_are_left_out() -> None:
    """A file with a broken key loses that key and nothing else."""
    offsets = ConsumerOffsets()
    offsets.load(ConsumerOffsetTable({"orders": {0: 1}, "@g": {0: 1}, "orders@g": {0: 1}}))
    assert [queue for queue, _ in offsets] == [GroupQueue("g", "orders", 0)]


def test_offsets_outside_a_shorter_log_are_moved_into_it() -> None:
    """After a lost tail a group must not skip what is stored next (reliability, G5)."""
    offsets = ConsumerOffsets()
    for queue_id, offset in enumerate((5, 50, 15)):
        offsets.commit("g", "orders", queue_id, offset)
    before = offsets.revision
    moved = offsets.clamp(lambda _topic, _queue_id: (10, 20))
    assert [offsets.committed("g", "orders", queue_id) for queue_id in range(3)] == [10, 20, 15]
    assert moved == [(GroupQueue("g", "orders", 0), 5), (GroupQueue("g", "orders", 1), 50)]
    assert offsets.revision > before


def test_what_is_deleted_is_forgotten() -> None:
    """A topic or group made anew under an old name starts without offsets, resets and pull offsets."""
    offsets = ConsumerOffsets()
    for topic in ("orders", "invoices"):
        offsets.reset("g", topic, 0, 7)
        offsets.note_pull("g", topic, 0, 8)
    offsets.forget_topics(["orders"])
    assert offsets.committed("g", "orders", 0) is None
    assert offsets.take_reset("g", "orders", 0) is None
    assert offsets.pull_offset("g", "orders", 0) is None
    assert offsets.committed("g", "invoices", 0) == 7
    offsets.forget_group("g")
    assert list(offsets) == []
    assert offsets.pull_offset("g", "invoices", 0) is None
