"""Bugs that Apache RocketMQ had in the store of a single broker, under their numbers: here they must not happen.

Each docstring begins with what failed there. docs/reliability.md has the table, and says where the others belong.
"""

from __future__ import annotations

import errno

import pytest

from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.errors import NotWritable
from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import QUEUE_FILE_ENTRIES, SMALL, StoreBench

pytestmark = pytest.mark.faults

NO_INDEX = StoreConfig(**{**SMALL.__dict__, "message_index_enable": False})
SYNC = StoreConfig(**{**NO_INDEX.__dict__, "flush_disk_type": "SYNC_FLUSH"})
LOG = "commitlog/00000000000000000000"


def numbered(first: int, end: int) -> list[bytes]:
    return [b"m%03d" % number for number in range(first, end)]


def is_found(bench: StoreBench, body: bytes) -> bool:
    return any(body in record for record in bench.store.query("t", body.decode(), 0, 1 << 60, 64))


def test_405_messages_in_the_log_but_in_no_queue() -> None:
    """Power went when messages were in the log, flushed, and not dispatched: nobody could read them afterwards."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *numbered(0, 3))
    bench.store.checkpoint()
    bench.send("t", 0, *numbered(3, 6))
    bench.store.flush()  # the log alone: of the queue's entries a power loss leaves nothing
    bench.lose_power()
    assert bench.bodies("t", 0) == numbered(0, 6)


def test_467_a_message_missed_after_an_abnormal_shutdown() -> None:
    """A message that was not dispatched at shutdown was skipped by recovery, and those after it had wrong offsets."""
    bench = StoreBench(NO_INDEX)
    first = [b"%d" % number for number in range(QUEUE_FILE_ENTRIES)]
    bench.send("t", 0, *first)
    bench.disk.stop_at(2, counted=["pwrite"])
    with pytest.raises(ProcessDied):
        bench.send("t", 0, b"undispatched")
    bench.kill()
    bench.send("t", 0, b"next")
    assert bench.numbered_bodies("t", 0, 0) == list(enumerate([*first, b"undispatched", b"next"]))


def test_495_queue_entries_left_from_before_the_first_crash() -> None:
    """Entries of a cut tail stayed behind a queue's end; the second crash took them for entries of new messages."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"kept.")
    bench.store.checkpoint()
    end = bench.store.end_offset
    bench.send("t", 0, *[b"gone%d" % number for number in range(6)])
    bench.disk.kill()
    bench.write_file(LOG, bytes(1024 - end), end)
    bench.open()
    for number in range(3):
        bench.send("u", 0, b"new-%d" % number)
        bench.kill()
        assert bench.bodies("t", 0) == [b"kept."]
    bench.send("t", 0, b"after")
    bench.kill()
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"kept."), (1, b"after")]


def test_1434_the_last_messages_of_a_file_before_a_roll() -> None:
    """Only the newest file was gone through: undispatched messages at the end of the one before it were lost."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *numbered(0, 7))
    bench.store.checkpoint()
    bench.send("t", 0, *numbered(7, 12))  # two for the first file, the rest in the second
    bench.store.flush()
    assert bench.store.end_offset > 1024
    bench.lose_power()
    assert bench.bodies("t", 0) == numbered(0, 12)


@pytest.mark.parametrize("number", [3129, 5235, 2706])
def test_a_failed_flush_is_no_flush(number: int) -> None:
    """#3129, #5235, #2706: the flushed position advanced although the fsync failed, and the send was answered OK."""
    bench = StoreBench(SYNC)
    bench.disk.fail_next("fsync", OSError(errno.EIO, f"issue {number}"))
    bench.send("t", 0, b"unflushed")
    with pytest.raises(OSError, match=str(number)):
        bench.store.flush()
    assert (bench.store.flushed_offset, bench.bodies("t", 0)) == (0, [])
    with pytest.raises(NotWritable):
        bench.send("t", 0, b"more")


def test_3129_pages_that_a_failed_flush_passed_over() -> None:
    """The next flush succeeded, for the kernel called those pages clean: after a restart they are written again."""
    bench = StoreBench(SYNC)
    bench.send("t", 0, b"unflushed")
    bench.disk.fail_next("fsync")
    with pytest.raises(OSError, match="planned"):
        bench.store.flush()
    bench.kill()
    assert bench.bodies("t", 0) == [b"unflushed"]  # readable now, so it must be on disk
    bench.lose_power()
    assert bench.bodies("t", 0) == [b"unflushed"]


def test_3868_8007_keys_of_an_index_file_that_was_not_flushed() -> None:
    """After a kill the newest index file was deleted, and its keys, older ones too, led nowhere any more."""
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "max_index_num": 1000}))
    bench.send("t", 0, *numbered(0, 40))
    bench.store.checkpoint()
    bench.send("t", 0, *numbered(40, 60))
    for again in (bench.kill, bench.lose_power):
        bench.store.flush()
        again()
        assert all(is_found(bench, body) for body in numbered(0, 60))


def test_4771_a_group_ahead_of_a_log_that_lost_its_tail() -> None:
    """A committed offset beyond the end of the queue made a group skip the messages that were stored next."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *numbered(0, 2))
    bench.store.flush()
    bench.send("t", 0, *numbered(2, 6))
    offsets = ConsumerOffsets()
    offsets.commit("g", "t", 0, bench.store.queues.max_offset("t", 0))
    before = bench.store.incarnation
    bench.lose_power()
    offsets.clamp(bench.store.queues.bounds)
    bench.send("t", 0, b"next")
    assert bench.numbered_bodies("t", 0, offsets.committed("g", "t", 0) or 0) == [(2, b"next")]
    assert bench.store.incarnation == before + 1


def test_7355_the_newest_file_of_a_queue_is_gone() -> None:
    """A queue that lacked its last file was continued behind a gap, with entries in wrong places."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *numbered(0, 12))
    bench.store.checkpoint()
    bench.disk.kill()
    bench.files.unlink("consumequeue/t/0/00000000000000000200")
    bench.open()
    bench.send("t", 0, *numbered(12, 14))
    assert bench.numbered_bodies("t", 0, 0) == list(enumerate(numbered(0, 14)))


def test_8239_nothing_is_read_before_it_is_on_disk() -> None:
    """With SYNC_FLUSH a reader could be ahead of the disk; after a crash its offset stood for another message."""
    bench = StoreBench(SYNC)
    bench.send("t", 0, b"one")
    assert (bench.store.queues.max_offset("t", 0), bench.bodies("t", 0)) == (0, [])
    bench.store.flush()
    assert bench.bodies("t", 0) == [b"one"]


def test_9728_a_queue_whose_newest_file_is_empty() -> None:
    """An empty file at the end of a queue, the messages of which were lost, kept the broker from starting."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *numbered(0, 5))
    bench.store.checkpoint()
    bench.disk.kill()
    bench.files.open("consumequeue/t/0/00000000000000000100", create=True).truncate(0)
    bench.open()
    bench.send("t", 0, b"m005")
    assert bench.bodies("t", 0) == numbered(0, 6)


def test_10017_old_records_in_reused_bytes() -> None:
    """Records of an earlier life of a file passed every check but that of their physical offset, which nobody made."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"same1", b"same2", b"same3")
    size = bench.store.end_offset // 3
    stale = bench.read_file(LOG)[size : 3 * size]
    bench.disk.kill()
    bench.write_file(LOG, stale, 3 * size)
    bench.open()
    assert bench.bodies("t", 0) == [b"same1", b"same2", b"same3"]


def test_10417_a_queue_that_lost_all_its_messages() -> None:
    """A queue that was cut to nothing kept its old first offset, above its last one."""
    bench = StoreBench(NO_INDEX)
    bench.send("other", 0, *numbered(0, 2))
    bench.store.checkpoint()
    bench.send("t", 0, *numbered(2, 9))
    bench.lose_power()
    assert bench.store.queues.bounds("t", 0) == (0, 0)
    bench.send("t", 0, b"again")
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"again")]


@pytest.mark.parametrize("seed", [None, *range(40)])
def test_10666_discarded_records_of_the_same_size(seed: int | None) -> None:
    """What a crash had cut off came back at the next one, when new records ended where old ones began."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"kept.")
    bench.store.flush()
    bench.send("t", 0, *[b"old-%d" % number for number in range(6)])
    bench.lose_power(seed)
    survived = bench.bodies("t", 0)
    bench.send("t", 0, b"new-1")
    bench.store.flush()
    bench.lose_power(seed)
    assert bench.bodies("t", 0) == [*survived, b"new-1"]


def test_10288_8405_a_topic_deleted_while_its_messages_wait_for_a_flush() -> None:
    """Deleting a topic unmapped files that the dispatcher was writing to, which ended the process."""
    bench = StoreBench(SYNC)
    bench.send("t", 0, b"one")
    bench.send("u", 0, b"two")
    plan = bench.store.flusher.begin(thorough=True)
    assert plan is not None
    bench.store.deletions.delete("t")
    plan.run()
    bench.store.flusher.finish(plan)
    assert (bench.store.queues.topics(), bench.bodies("u", 0)) == (["u"], [b"two"])
