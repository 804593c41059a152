"""The key index finds what was stored, and ends up the same whatever happened on the way."""

from __future__ import annotations

import errno
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, StoreError
from rmqspark.store.config import StoreConfig
from rmqspark.store.index import index_file
from rmqspark.store.index.index import MAX_FOUND, Index
from rmqspark.store.index.index_keys import key_hash, keys_of
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

TOPIC = "t"
FOREVER = (0, 1 << 62)
SMALL = StoreConfig(max_hash_slot_num=5, max_index_num=8)
ONE_FILE = StoreConfig(max_hash_slot_num=50, max_index_num=5000)


class Stored(NamedTuple):
    """A record of the log, as far as the index sees it."""

    physical_offset: int
    store_timestamp_ms: int
    keys: tuple[str, ...]


def log_of(*keys_of_records: tuple[str, ...], step_ms: int = 700) -> list[Stored]:
    return [
        Stored(number * 100, 1_700_000_000_000 + number * step_ms, keys) for number, keys in enumerate(keys_of_records)
    ]


def opened(
    files: MemoryFileSystem, config: StoreConfig = SMALL, *, clean: bool = True, log_end: int = 1 << 40
) -> Index:
    index = Index(files, config, ManualClock())
    index.load(clean=clean, log_end_offset=log_end)
    return index


def columns_of(records: list[Stored]) -> tuple[list[bytes], list[int], list[int]]:
    """Keys, physical offsets, store times."""
    rows = [(f"{TOPIC}#{key}".encode(), offset, stored_ms) for offset, stored_ms, keys in records for key in keys]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def feed(index: Index, records: list[Stored], *, in_bulk: bool = False) -> None:
    if in_bulk and any(record.keys for record in records):
        index.append_hashed(keys_of(*columns_of(records)))
        return
    for record in records:
        keys, physical_offsets, _ = columns_of([record])
        index.append(keys, physical_offsets, record.store_timestamp_ms)


def contents(files: MemoryFileSystem) -> list[bytes]:
    """Every index file's bytes, oldest first. Names tell when, not what."""
    if not files.exists("index"):
        return []
    handles = [files.open(f"index/{name}") for name in files.listdir("index")]
    return [handle.pread(handle.size(), 0) for handle in handles]


def built_in_one_go(records: list[Stored], config: StoreConfig = SMALL) -> list[bytes]:
    files = MemoryFileSystem()
    index = opened(files, config)
    feed(index, records, in_bulk=True)
    index.close()
    return contents(files)


def expected_offsets(records: list[Stored], key: str) -> list[int]:
    wanted = key_hash(TOPIC, key)
    return [r.physical_offset for r in records if any(key_hash(TOPIC, k) == wanted for k in r.keys)]


KEYS = st.sampled_from(["a", "b", "c", "d", "Aa", "BB", "é", "polygenelubricants"])  # Aa and BB have one hash
RECORDS = st.lists(st.lists(KEYS, max_size=3).map(tuple), max_size=30).map(lambda keys: log_of(*keys))


@given(RECORDS, st.booleans())
def test_every_key_is_found(records: list[Stored], in_bulk: bool) -> None:
    """Over several files and crowded slots, a key leads to all its messages, before and after a restart."""
    files = MemoryFileSystem()
    index = opened(files)
    feed(index, records, in_bulk=in_bulk)
    for _ in range(2):
        for key in {key for record in records for key in record.keys} | {"never"}:
            assert index.find(TOPIC, key, *FOREVER) == expected_offsets(records, key)[-MAX_FOUND:]
        index.close()
        index = opened(files)
    assert contents(files) == built_in_one_go(records)


def test_hash_collisions_are_left_to_the_reader() -> None:
    """Two keys of one hash lead to each other's messages; who asks compares the keys."""
    index = opened(MemoryFileSystem())
    feed(index, log_of(("Aa",), ("BB",)))
    assert index.find(TOPIC, "Aa", *FOREVER) == [0, 100]


def test_keys_of_one_hash_in_one_message_take_no_place_of_others() -> None:
    """Or what is newer would be left out for what an older file has."""
    index = opened(MemoryFileSystem())
    feed(index, log_of(*[("Aa", "BB")] * 10))
    assert index.find(TOPIC, "Aa", *FOREVER, 4) == [600, 700, 800, 900]
    assert index.find(TOPIC, "Aa", *FOREVER, 4, below=600) == [200, 300, 400, 500]


def test_the_newest_are_found_first_and_at_most_64() -> None:
    """Of many messages under one key the newest 64 are found, fewer if fewer are asked for."""
    index = opened(MemoryFileSystem(), ONE_FILE)
    feed(index, log_of(*[("k",)] * 100), in_bulk=True)
    assert index.find(TOPIC, "k", *FOREVER, 1000) == [number * 100 for number in range(36, 100)]
    assert index.find(TOPIC, "k", *FOREVER, 2) == [9800, 9900]
    assert index.find("other", "k", *FOREVER) == []
    assert index.find(TOPIC, "k", *FOREVER, 2, below=9_800) == [9_600, 9_700]
    assert index.find(TOPIC, "k", *FOREVER, below=100) == [0]
    assert index.find(TOPIC, "k", *FOREVER, below=0) == []


@given(RECORDS, st.integers(0, 3), st.integers(0, 35), st.integers(0, 35), st.integers(0, 3_500), st.integers(0, 9))
def test_a_long_chain_leads_to_the_same(
    records: list[Stored], hops: int, begin: int, end: int, below: int, most: int
) -> None:
    """Entries are looked for among all where a chain is too long to be followed."""
    index = opened(MemoryFileSystem(), StoreConfig(max_hash_slot_num=3, max_index_num=50))
    feed(index, records)
    begin_ms, end_ms = (1_700_000_000_000 + 700 * number for number in (begin, end))
    for key in ("a", "Aa", "never"):
        followed = index.find(TOPIC, key, begin_ms, end_ms, most, below)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index_file, "MOST_HOPS", hops)
            patch.setattr(index_file, "_SCANNED_ENTRIES", 4)
            assert index.find(TOPIC, key, begin_ms, end_ms, most, below) == followed


def test_a_key_of_very_many_messages_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read for each newer one took seconds a million, in which the broker served nobody."""
    index = opened(MemoryFileSystem(), ONE_FILE)
    feed(index, log_of(*[("k",)] * 4_900), in_bulk=True)
    reads = []
    entry_of = index_file.IndexFile._entry
    monkeypatch.setattr(index_file.IndexFile, "_entry", lambda self, at: reads.append(at) or entry_of(self, at))
    assert index.find(TOPIC, "k", *FOREVER, below=200) == [0, 100]
    assert index.find(TOPIC, "k", 0, 1_700_000_000_000) == [0, 100]  # the same second
    assert len(reads) < 2_200


@pytest.mark.parametrize(
    ("begin_s", "end_s", "found"),
    [(0, 9, [0, 1, 2, 3]), (1, 2, [1, 2]), (2, 2, [2]), (4, 9, []), (-5, -1, []), (3, 3, [3]), (-5, 0, [0])],
)
def test_lookup_within_a_time(begin_s: int, end_s: int, found: list[int]) -> None:
    """Times are those of storing, in whole seconds from the file's first message."""
    index = opened(MemoryFileSystem(), ONE_FILE)
    records = log_of(*[("k",)] * 4, step_ms=1000)
    feed(index, records)
    start_ms = records[0].store_timestamp_ms
    offsets = index.find(TOPIC, "k", start_ms + begin_s * 1000, start_ms + end_s * 1000)
    assert offsets == [number * 100 for number in found]


def test_lookup_within_a_time_goes_through_the_files_it_concerns() -> None:
    """Older files are searched as long as they begin after the time asked for, and the one before."""
    index = opened(MemoryFileSystem())
    records = log_of(*[("k",)] * 30, step_ms=1000)
    feed(index, records)
    start_ms = records[0].store_timestamp_ms
    for first, last in [(0, 29), (6, 8), (7, 7), (3, 15), (20, 29)]:
        found = index.find(TOPIC, "k", start_ms + first * 1000, start_ms + last * 1000)
        assert found == [number * 100 for number in range(first, last + 1)]


def test_lookup_within_a_time_though_the_clock_was_set_back() -> None:
    """As RocketMQ's index: what came then counts as stored when its file begins, and hides nothing that came before."""
    index = opened(MemoryFileSystem(), ONE_FILE)
    start_ms = 1_700_000_000_000
    for number, minute in enumerate((0, 15, -44)):
        index.append([f"{TOPIC}#k".encode()], [number * 100], start_ms + minute * 60_000)
    assert index.find(TOPIC, "k", start_ms - 900_000, start_ms + 1_800_000) == [0, 100, 200]
    assert index.find(TOPIC, "k", start_ms - 2_700_000, start_ms - 1) == []


def test_what_was_fed_is_not_entered_again() -> None:
    """The dispatcher may repeat itself after a restart."""
    files = MemoryFileSystem()
    records = log_of(("a", "b"), ("a",), (), ("c",))
    index = opened(files)
    feed(index, records)
    feed(index, records)
    feed(index, records[1:], in_bulk=True)
    index.close()
    index = Index(files, SMALL, ManualClock())
    assert index.load(clean=True, log_end_offset=1000) == 300
    feed(index, records, in_bulk=True)
    index.close()
    assert contents(files) == built_in_one_go(records)


@pytest.mark.faults
@given(
    RECORDS,
    st.lists(st.sampled_from(["feed", "bulk", "flush", "kill", "crash", "restart"]), max_size=12),
    st.integers(0, 1 << 32),
)
def test_kill_and_power_loss_leave_no_trace(records: list[Stored], steps: list[str], seed: int) -> None:
    """After any mix of kills, power losses and restarts the files are byte for byte those of an undisturbed run,
    even where the log itself lost its end and went on differently."""
    entropy = SystemEntropy(seed)
    files = MemoryFileSystem()
    index, fed = opened(files), 0
    for step in steps:
        match step:
            case "feed" | "bulk":
                count = entropy.below(8)
                feed(index, records[fed : fed + count], in_bulk=step == "bulk")
                fed = min(len(records), fed + count)
                continue
            case "flush":
                index.flush()
                continue
            case "kill":
                files.kill()
            case "crash":
                files.crash(entropy)
            case "restart":
                index.close()
        is_clean = step == "restart"
        kept = len(records) if is_clean else entropy.below(len(records) + 1)
        tail = [record._replace(keys=(*record.keys, "z")) for record in records[kept:]]
        records = records[:kept] + tail
        index = Index(files, SMALL, ManualClock())
        feed_from = index.load(clean=is_clean, log_end_offset=kept * 100)
        assert feed_from <= fed * 100
        fed = feed_from // 100
    feed(index, records[fed:])
    for key in ("a", "é", "z"):
        assert index.find(TOPIC, key, *FOREVER) == expected_offsets(records, key)
    index.close()
    assert contents(files) == built_in_one_go(records)


@pytest.mark.faults
def test_death_in_any_operation() -> None:
    """A process that dies in the middle of any write, flush, roll or recovery costs nothing but feeding again."""
    records = log_of(*[("a", "b"), ("c",), ("a", "b", "c"), ("d",)] * 5)
    wanted = built_in_one_go(records)

    def live(files: MemoryFileSystem, *, clean: bool) -> None:
        index = Index(files, SMALL, ManualClock())
        feed_from = index.load(clean=clean, log_end_offset=len(records) * 100)
        for number, record in enumerate(records[feed_from // 100 :]):
            feed(index, [record])
            if number % 2:
                index.flush()
        index.close()

    for power_loss in (False, True):
        for died_at in range(1, 1000):
            files = MemoryFileSystem()
            files.stop_at(died_at, after_bytes=died_at % 30)
            try:
                live(files, clean=True)
            except ProcessDied:
                _restart(files, power_loss, died_at)
                files.stop_at(1 + died_at % 7, after_bytes=13)
                with pytest.raises(ProcessDied):
                    live(files, clean=False)
                _restart(files, power_loss, died_at + 1)
                live(files, clean=False)
                assert contents(files) == wanted
            else:
                break
        assert died_at > 50


def _restart(files: MemoryFileSystem, power_loss: bool, seed: int) -> None:
    if power_loss:
        files.crash(SystemEntropy(seed))
    else:
        files.kill()


@pytest.mark.faults
def test_a_disk_that_refuses_once_loses_no_key() -> None:
    """Whichever write fails, the next call carries on where it stopped, and nothing is entered twice."""
    records = log_of(*[("a", "b", "c"), ("d",)] * 8)
    wanted = built_in_one_go(records)
    for failing in range(1, 1000):
        files = MemoryFileSystem()
        index = opened(files)
        files.fail_at(failing, OSError(errno.ENOSPC, "full"), after_bytes=7)
        failures = 0
        for start in range(0, len(records), 3):
            for _ in range(2):
                try:
                    feed(index, records[start : start + 3], in_bulk=True)
                except OSError:
                    failures += 1
        try:
            index.close()
        except OSError:
            failures += 1
            index.close()
        assert contents(files) == wanted
        assert failures <= 1
        if not failures:
            break
    assert failing > 10


@pytest.mark.faults
def test_a_query_works_on_a_full_disk() -> None:
    """What is in the index is found although newer keys cannot be written."""
    files = MemoryFileSystem()
    index = opened(files)
    feed(index, log_of(("a",)))
    index.flush()
    index.append([b"t#a"], [100], 1_700_000_000_700)
    files.fail_next("pwrite", OSError(errno.ENOSPC, "full"))
    assert index.find(TOPIC, "a", *FOREVER) == [0]
    assert index.find(TOPIC, "a", *FOREVER) == [0, 100]


@pytest.mark.faults
@given(st.integers(0, 200), st.binary(min_size=1, max_size=40), st.integers(0, 2))
def test_damage_ends_in_an_index_that_answers(at: int, garbage: bytes, file_number: int) -> None:
    """Whatever is written over a part of a file, after an unclean start lookups end, and lead into the log. (Of what
    an entry says only the order is checked; whoever reads the message sees whether one begins there.)"""
    files = MemoryFileSystem()
    records = log_of(*[("a", "b")] * 9)
    index = opened(files)
    feed(index, records)
    index.close()
    file = files.open(f"index/{files.listdir('index')[file_number]}")
    file.pwrite(garbage, min(at, file.size() - len(garbage)))
    index = Index(files, SMALL, ManualClock())
    fed = index.load(clean=False, log_end_offset=len(records) * 100)
    feed(index, [record for record in records if record.physical_offset >= fed])
    index.append([b"t#a"], [900], records[-1].store_timestamp_ms)
    found = index.find(TOPIC, "a", 0, 1 << 70)
    assert 900 in found
    assert all(0 <= physical_offset <= 900 for physical_offset in found)


@pytest.mark.faults
def test_a_chain_that_bites_its_tail_ends() -> None:
    """A damaged file that is taken for clean cannot keep a lookup going for ever."""
    files = MemoryFileSystem()
    index = opened(files)
    feed(index, log_of(*[("k",)] * 3))
    index.close()
    file = files.open(f"index/{files.listdir('index')[0]}")
    file.pwrite((3).to_bytes(4), 40 + 5 * 4 + 1 * 20 + 16)  # entry 1 follows entry 3
    assert opened(files).find(TOPIC, "k", *FOREVER) == [0, 100, 200]


def test_recovery_reads_only_what_is_not_sealed() -> None:
    """Files that the checkpoint vouches for are not read again after a kill."""
    files = MemoryFileSystem()
    index = opened(files)
    records = log_of(*[("k",)] * 20)
    feed(index, records)
    index.flush()
    sealed_ms = index.sealed_timestamp_ms
    assert sealed_ms == records[13].store_timestamp_ms
    files.kill()
    before = len(files.log)
    index = Index(files, SMALL, ManualClock())
    assert index.load(clean=False, log_end_offset=2000, checkpoint_timestamp_ms=sealed_ms) == 1900
    names = files.listdir("index")
    replayed = {operation.path[6:] for operation in list(files.log)[before:] if operation.name in ("pwrite", "fsync")}
    assert replayed == {names[-1]}


def test_expired_files_are_deleted_but_the_newest() -> None:
    """A file goes when the log has expired beyond its last message."""
    files = MemoryFileSystem()
    index = opened(files)
    feed(index, log_of(*[("k",)] * 20))
    index.flush()
    first, second, third = (f"index/{name}" for name in files.listdir("index"))
    assert index.expire(600) == []
    assert index.expire(601) == [first]
    assert index.expire(1 << 40) == [second]
    assert [f"index/{name}" for name in files.listdir("index")] == [third]
    assert index.find(TOPIC, "k", *FOREVER) == [1400, 1500, 1600, 1700, 1800, 1900]


def test_another_store_s_sizes_are_refused() -> None:
    """Files made with larger settings are not taken for damaged ones."""
    files = MemoryFileSystem()
    index = opened(files, ONE_FILE)
    feed(index, log_of(("a",)))
    index.close()
    with pytest.raises(StoreError, match="max_hash_slot_num"):
        opened(files, SMALL)


@pytest.mark.parametrize(("slots", "entries"), [(0, 8), (5, 1), (5, 0), (-1, 8), (5, 1 << 31)])
def test_sizes_that_cannot_be_are_refused(slots: int, entries: int) -> None:
    """An index without room for a single key is an error in the settings, not an endless row of files."""
    with pytest.raises(InvalidArgument, match="max_hash_slot_num is|max_index_num is"):
        StoreConfig(max_hash_slot_num=slots, max_index_num=entries)


def test_names_ascend_when_the_clock_does_not() -> None:
    """Files rolled within one millisecond, or with the clock set back, keep their order."""
    files, clock = MemoryFileSystem(), ManualClock()
    index = Index(files, SMALL, clock)
    index.load(clean=True, log_end_offset=0)
    for number, record in enumerate(log_of(*[("k",)] * 28)):
        clock.set_now_ms(1_700_000_000_000 - number)
        feed(index, [record])
        index.drain()
    names = files.listdir("index")
    assert names == ["20231114221320000", "20231114221320001", "20231114221320002", "20231114221320003"]
    assert index.find(TOPIC, "k", *FOREVER) == [number * 100 for number in range(28)]


def test_a_clean_start_reads_next_to_nothing() -> None:
    """Opening a large index that was closed in order costs neither time nor memory."""
    files = MemoryFileSystem()
    index = opened(files, StoreConfig())
    feed(index, log_of(*[("k",)] * 20))
    index.close()
    before = len(files.log)
    index = opened(files, StoreConfig())
    assert len(files.log) - before < 6
    assert len(index.find(TOPIC, "k", *FOREVER)) == 20


def test_slots_are_the_same_in_parts_and_in_one_go() -> None:
    """Of a large slot table only what changed is written, and all of it."""
    config = StoreConfig(max_hash_slot_num=200_000, max_index_num=5000)
    records = log_of(*[(f"key {number}",) for number in range(2000)])
    files = MemoryFileSystem()
    for end in (1, 2, 5, 40, 2000):
        index = opened(files, config)
        feed(index, records[:end], in_bulk=True)
        index.close()
        assert contents(files) == built_in_one_go(records[:end], config)


@given(st.lists(st.text("aü#", max_size=3) | st.text("ab", min_size=4, max_size=4), max_size=6))
@example(["t#01", "t#02"])
@example(["t#ü", "t#03"])
def test_single_keys_are_hashed_alike_of_whatever_lengths(keys: list[str]) -> None:
    """As Java hashes each: ids that are all of one length too, which are hashed as a table."""
    hashed = keys_of([f"t#{key}".encode() for key in keys], range(len(keys)), [0] * len(keys))
    assert hashed.hashes.tolist() == [key_hash("t", key) for key in keys]


def test_hashes_are_absolute() -> None:
    """The one hash without an absolute value becomes 0, as in RocketMQ."""
    lowest = "t#polygenelubricants"
    hashed = keys_of([lowest.encode(), b"polygenelubricants", b"t#order"], [0, 1, 2], [0, 0, 0])
    assert hashed.hashes.tolist()[1] == 0
    assert (hashed.hashes >= 0).all()
    assert hashed.hashes.dtype == np.int32
