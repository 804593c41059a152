"""How far groups have come: commits, resets, what a restart must remember."""

from __future__ import annotations

import pytest

from rmqspark.broker.state.offsets import ConsumerOffsets, GroupQueue
from rmqspark.broker.state.resets import PendingResets
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
    table = ConsumerOffsetTable({"orders": {0: 1}, "@g": {0: 1}, "orders@": {0: 1}, "@": {0: 1}, "orders@g": {0: 1}})
    offsets.load(table)
    assert list(offsets) == [(GroupQueue("g", "orders", 0), 1)]
    slaves = ConsumerOffsets()
    for _ in range(2):
        slaves.follow(table)
    assert (list(slaves), slaves.revision) == (list(offsets), 1)


def test_resets_survive_a_restart_until_their_reader_knows() -> None:
    """Each change is to be noted; who stands elsewhere has not heard of the last one yet."""
    offsets = ConsumerOffsets()
    for group, queue_id, offset in (("g", 0, 5), ("g", 1, 6), ("h", 0, 7)):
        offsets.reset(group, "orders", queue_id, offset)
    resets = PendingResets()
    resets.load(offsets.resets.table())
    resets.load(ConsumerOffsetTable({"orders": {2: 1}, "@g": {2: 1}, "orders@": {2: 1}}))
    first, second = GroupQueue("g", "orders", 0), GroupQueue("g", "orders", 1)
    assert resets.of("g") == {first: 5, second: 6}
    changes = [
        (lambda: resets.settle(first, 4), False, {first: 5, second: 6}),
        (lambda: resets.settle(first, 5), True, {second: 6}),
        (lambda: resets.take(first), False, {second: 6}),
        (lambda: resets.take(second), True, {}),
        (lambda: resets.put(second, 8), True, {second: 8}),
    ]
    for change, is_change, left in changes:
        before = resets.revision
        change()
        assert (resets.revision > before, resets.of("g")) == (is_change, left)
    assert resets.table().offsetTable == {"orders@h": {0: 7}, "orders@g": {1: 8}}


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


def test_a_group_takes_over_where_another_one_is() -> None:
    """In all queues of a topic; it has a life of its own from then on."""
    offsets = ConsumerOffsets(most=5)
    for queue_id, offset in enumerate((5, 6)):
        offsets.commit("g", "orders", queue_id, offset)
    offsets.commit("h", "orders", 7, 1)
    offsets.commit("g", "invoices", 0, 9)
    before = offsets.revision
    offsets.clone("g", "h", "orders")
    assert offsets.revision > before
    offsets.commit("g", "orders", 0, 8)
    assert offsets.committed_queues("h", "orders") == {0: 5, 1: 6}
    with pytest.raises(Busy, match="may have 5"):
        offsets.clone("g", "i", "orders")
    before = offsets.revision
    for source, target in (("h", "h"), ("nobody", "h")):
        offsets.clone(source, target, "orders")
    assert (offsets.committed_queues("h", "orders"), offsets.revision) == ({0: 5, 1: 6}, before)
    assert offsets.committed("h", "invoices", 0) is None
    assert len(list(offsets)) == offsets._count == 5


def test_what_is_deleted_is_forgotten() -> None:
    """A topic or group made anew under an old name starts without offsets, resets and pull offsets."""
    offsets = ConsumerOffsets()
    for topic in ("orders", "invoices"):
        offsets.reset("g", topic, 0, 7)
        offsets.note_pull("g", topic, 0, 8)
    offsets.commit("h", "invoices", 0, 9)
    offsets.note_pull("h", "invoices", 0, 9)
    offsets.forget_topics(["orders"])
    assert offsets.committed("g", "orders", 0) is None
    assert offsets.take_reset("g", "orders", 0) is None
    assert offsets.pull_offset("g", "orders", 0) is None
    assert offsets.committed("g", "invoices", 0) == 7
    assert (offsets.has_reset("g", "invoices", 0), offsets.pull_offset("g", "invoices", 0)) == (True, 8)
    offsets.forget_group("g")
    assert list(offsets) == [(GroupQueue("h", "invoices", 0), 9)]
    assert offsets.pull_offset("g", "invoices", 0) is None
    assert offsets.pull_offset("h", "invoices", 0) == 9
