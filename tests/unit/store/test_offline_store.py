"""A store without a broker: what it has is what its broker would have after its next start."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import StoreError
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.queues.consume_queue import ENTRY

from .store_bench import StoreBench, draft

Content = dict[tuple[str, int], list[tuple[int, bytes]]]


def offline(bench: StoreBench, *, is_open: bool = False, is_damaged: bool = False) -> Content:
    """Queue offsets and bodies of everything, and a proof that looking changed nothing."""
    before = bench.content("commitlog") | bench.content("consumequeue") | bench.content("config")
    with OfflineStore(bench.files, is_open=is_open) as store:
        wanted = [Wanted(*queue, store.begin(queue), store.end(queue)) for queue in store.queues()]
        content: Content = {queue: [] for queue in store.queues()}
        limits = Limits(100, 1 << 20)
        for piece in read_ranges(
            store.view, wanted, limits, tails=store.tails, check_crc=True, pages_may_come_late=False
        ):
            if is_damaged and isinstance(piece, Unread):
                assert piece.end - piece.start == 1
                continue
            assert not isinstance(piece, Unread)
            raw = piece.buffer.tobytes()
            for at in piece.positions.tolist():
                record = decode_record(raw, at)
                content[record.topic, record.queue_id].append((record.queue_offset, record.body))
    after = bench.content("commitlog") | bench.content("consumequeue") | bench.content("config")
    assert before == after
    return content


def online(bench: StoreBench) -> Content:
    return {
        (topic, queue_id): bench.numbered_bodies(topic, queue_id, bench.store.queues.min_offset(topic, queue_id))
        for topic in bench.store.queues.topics()
        for queue_id in bench.store.queues.queue_ids(topic)
    }


def _with_messages(content: Content) -> Content:
    return {queue: messages for queue, messages in content.items() if messages}


def filled(rounds: int = 10) -> StoreBench:
    bench = StoreBench()
    for number in range(rounds):
        bench.clock.advance(ms=10)
        bench.send("t", number % 2, b"a%02d" % number, b"b%02d" % number)
        bench.send_bulk("u", 0, b"c%02d" % number)
    return bench


def test_a_closed_store() -> None:
    """All queues of all topics, from their first message to their last."""
    bench = filled()
    bench.store.close()
    found = offline(bench)
    bench.open()
    assert found == online(bench)
    assert len(found["t", 0]) == 10


def test_a_damaged_message_hides_none_of_those_behind_it() -> None:
    """It is on disk, and the queues do not reach as far yet."""
    bench = filled(2)
    bench.store.checkpoint()
    for number in range(20):
        bench.send("t", 0, b"d%02d" % number)
    bench.store.flush()
    bench.disk.kill()
    path, at = next((path, data.index(b"d05")) for path, data in bench.content("commitlog").items() if b"d05" in data)
    bench.flip_bit(path, at)
    found = offline(bench, is_damaged=True)
    bench.open()
    assert _with_messages(found) == _with_messages(online(bench))
    assert len(found["t", 0]) == 2 + 19


def test_a_store_that_a_broker_has_open() -> None:
    """What is in the files; the newest messages may be in the broker's memory alone, and are not looked for."""
    bench = filled()
    there = online(bench)
    found = offline(bench, is_open=True)
    assert all(messages == there[queue][: len(messages)] for queue, messages in found.items())
    bench.store.checkpoint()
    assert offline(bench, is_open=True) == there


@given(
    rounds=st.integers(0, 12),
    checkpoint_at=st.integers(0, 12),
    seed=st.none() | st.integers(0, 1 << 16),
    torn=st.none() | st.integers(0, 300),
)
def test_after_a_crash_it_has_what_recovery_finds(
    rounds: int, checkpoint_at: int, seed: int | None, torn: int | None
) -> None:
    """A kill leaves messages that are in no queue's file, a power loss any mixture: both see the same."""
    bench = StoreBench()
    for number in range(rounds):
        bench.send("t", number % 2, b"a%d" % number, b"b%d" % number)
        bench.send_bulk("u", 0, b"c%d" % number, b"d%d" % number)
        bench.store.append([draft("t", 0, b"half", sys_flag=SysFlag.PREPARED)])
        if number == checkpoint_at:
            bench.store.checkpoint()
    if torn is not None:
        bench.disk.fail_next("pwrite", after_bytes=torn)
        with suppress(Exception):
            bench.send_bulk("u", 0, b"never", b"ever")
    if seed is None:
        bench.disk.kill()
    else:
        bench.disk.crash(bench.chance(seed))
    found = offline(bench)
    bench.open()
    assert _with_messages(found) == _with_messages(online(bench))


def test_what_a_stock_broker_had_no_time_for_is_found_in_the_log() -> None:
    """Without a checkpoint of ours, as in a store of RocketMQ's that was killed: from the newest queued message on."""
    bench = filled()
    bench.store.checkpoint()
    there = online(bench)
    bench.disk.kill()
    bench.write_file("checkpoint", bytes(4096))
    place, newest = "consumequeue/u/0/" + f"{100:020d}", there["u", 0][-1]
    bench.write_file(place, bytes(20), 4 * 20)
    assert newest[0] == 9
    assert offline(bench) == there


def test_entries_that_rocketmq_left_behind_the_end_are_no_messages() -> None:
    """It cuts a queue without clearing it; those entries lead to no record."""
    bench = filled()
    bench.store.close()
    there = offline(bench)
    stale = ENTRY.pack(900, 100, 0) + ENTRY.pack(5000, 120, 0)
    queue_file = f"{len(there['t', 0]) * 20 // 100 * 100:020d}"
    path = f"consumequeue/t/0/{queue_file}"
    if not bench.files.exists(path):
        bench.files.open(path, create=True).close()
    bench.write_file(path, stale, len(there["t", 0]) * 20 % 100)
    assert offline(bench) == there


def test_what_has_expired_is_not_there() -> None:
    """Queues begin where the log does."""
    bench = filled(30)
    bench.clock.advance(hours=80)
    bench.store.checkpoint()
    bench.store.expire(bench.clock.now_ms())
    bench.send("t", 0, b"new")
    there = online(bench)
    bench.store.close()
    assert offline(bench) == there
    assert there["t", 0][0][0] > 0


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_times_lead_to_offsets_as_in_the_broker(how: str) -> None:
    """The first message stored then or later, in queues and in what they lack."""
    bench = filled()
    begun = bench.store.queues.earliest_store_time("t", 0)
    times = [begun - 1, begun, begun + 35, begun + 80, begun + 95, begun + 1000]
    queues = [("t", 0), ("t", 1), ("u", 0)]
    expected = [bench.store.queues.offset_by_time(*queue, time) for time in times for queue in queues]
    if how == "closed":
        bench.store.close()
    else:
        bench.disk.kill()
    with OfflineStore(bench.files, is_open=False) as store:
        assert [store.offset_at(queue, time) for time in times for queue in queues] == expected


def test_a_file_that_is_far_from_all_others_is_no_queues() -> None:
    """What is between them would be gone through."""
    bench = filled()
    bench.store.close()
    far = 60 << 60
    bench.files.open(f"consumequeue/t/1/{far:020d}", create=True).truncate(60)
    with pytest.raises(StoreError, match=r"The files in consumequeue/t/1 cannot be made out"):
        OfflineStore(bench.files, is_open=False)


def test_queues_that_contradict_each_other_are_an_error() -> None:
    """None is left out in silence."""
    bench = filled()
    bench.store.close()
    bench.files.open("consumequeue/t/1/00000000000000000060", create=True).close()
    with pytest.raises(StoreError, match=r"The files in consumequeue/./. cannot be made out"):
        OfflineStore(bench.files, is_open=False)
