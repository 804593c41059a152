"""Reading the files of a store beside its broker: everything it vouches for is right, everything else is named."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.record import decode_record
from rmqspark.store.direct.lanes import Lane, in_log_order
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.direct.view import StoreView, identity_of
from rmqspark.store.queues.consume_queue import ENTRY, NO_MESSAGE_SIZE

from .store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.records.record_batch import RecordBatch

ALL = Limits(1_000, 1 << 20)
TRUSTING = {"check_crc": False, "pages_may_come_late": False}
LOG = "commitlog/00000000000000000000"


def read(
    bench: StoreBench, *wanted: Wanted, limits: Limits = ALL, tags: Sequence[str] | None = None
) -> list[tuple[int, int, bytes] | Unread]:
    """Queue id, queue offset and body of each message that the files vouch for, in order, and what is unread."""
    codes = None if tags is None else frozenset(map(tags_code, tags))
    found: list[tuple[int, int, bytes] | Unread] = []
    with StoreView(bench.files) as view:
        late = view.pages_may_come_late
        for piece in read_ranges(view, wanted, limits, codes, check_crc=late, pages_may_come_late=late):
            found += [piece] if isinstance(piece, Unread) else messages(piece)
    return found


def messages(records: RecordBatch) -> list[tuple[int, int, bytes]]:
    raw = records.buffer.tobytes()
    decoded = [decode_record(raw, at) for at in records.positions.tolist()]
    return [(record.queue_id, record.queue_offset, record.body) for record in decoded]


def closed(bench: StoreBench) -> StoreBench:
    bench.store.close()
    return bench


def several(count: int = 12) -> StoreBench:
    """Two queues of one topic and one of another that take turns in the log, over several files."""
    bench = StoreBench()
    for number in range(count):
        bench.send("t", 0, b"a%03d" % number, tags="even" if number % 2 == 0 else "odd")
        bench.send("t", 1, b"b%03d" % number, b"c%03d" % number)
        bench.send("u", 0, b"other%d" % number)
    return bench


def test_queues_are_read_together_in_the_order_of_the_log() -> None:
    """Three queues that take turns come in their turns, each one whole."""
    found = read(closed(several()), Wanted("t", 0, 0, 12), Wanted("t", 1, 0, 24), Wanted("u", 0, 0, 12))
    expected = [
        message
        for n in range(12)
        for message in (
            (0, n, b"a%03d" % n),
            (1, 2 * n, b"b%03d" % n),
            (1, 2 * n + 1, b"c%03d" % n),
            (0, n, b"other%d" % n),
        )
    ]
    assert found == expected


@given(
    sends=st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 2), st.integers(1, 9)), max_size=25),
    cuts=st.tuples(st.integers(0, 10), st.integers(0, 10)),
    limits=st.builds(Limits, st.integers(1, 30), st.integers(1, 2_000)),
    is_closed=st.booleans(),
)
def test_whatever_was_sent_is_read_once(
    sends: list[tuple[str, int, int]], cuts: tuple[int, int], limits: Limits, is_closed: bool
) -> None:
    """Any part of any queues, in pieces of any size, beside a broker or after it; only what it holds in memory is
    unread."""
    bench = StoreBench()
    sent: dict[tuple[str, int], list[bytes]] = {}
    for number, (topic, queue_id, count) in enumerate(sends):
        bodies = [b"%d.%d" % (number, each) for each in range(count)]
        sent.setdefault((topic, queue_id), []).extend(bodies)
        bench.send(topic, queue_id, *bodies)
    if is_closed:
        bench.store.close()
    if not sends:
        return
    wanted = [
        Wanted(topic, queue_id, min(cuts[0], len(bodies)), max(len(bodies) - cuts[1], min(cuts[0], len(bodies))))
        for (topic, queue_id), bodies in sent.items()
    ]
    got: dict[tuple[str, int], dict[int, bytes]] = {}
    with StoreView(bench.files) as view:
        for piece in read_ranges(view, wanted, limits, **TRUSTING):
            if isinstance(piece, Unread):
                assert not is_closed
                topic, queue_id, _, end, _ = wanted[piece.number]
                assert piece.end == end
                newer = {offset: sent[topic, queue_id][offset] for offset in range(piece.start, piece.end)}
                got.setdefault((topic, queue_id), {}).update(newer)
                continue
            raw, names = piece.buffer.tobytes(), piece.topics
            topics = [raw[at:end].decode() for at, end in zip(names.starts, names.ends, strict=True)]
            for topic, (queue_id, offset, body) in zip(topics, messages(piece), strict=True):
                assert offset not in got.setdefault((topic, queue_id), {})
                assert offset > max(got[topic, queue_id], default=-1)
                got[topic, queue_id][offset] = body
    for topic, queue_id, start, end, _ in wanted:
        bodies = sent[topic, queue_id]
        assert got.get((topic, queue_id), {}) == {offset: bodies[offset] for offset in range(start, end)}


def test_what_the_broker_holds_in_memory_is_unread() -> None:
    """Entries that wait to be written are named as one range at the end, and are there once they are written."""
    bench = StoreBench()
    bench.send("t", 0, b"first")  # begins the file: written at once
    bench.send("t", 0, b"second", b"third")
    assert read(bench, Wanted("t", 0, 0, 3)) == [(0, 0, b"first"), Unread(0, 1, 3)]
    bench.store.checkpoint()
    assert read(bench, Wanted("t", 0, 1, 3)) == [(0, 1, b"second"), (0, 2, b"third")]


def test_messages_whose_tags_are_in_rocketmqs_extension_are_read() -> None:
    """Their entries say where their tags code is; the reader looks at the tags themselves."""
    bench = closed(several())
    file = bench.files.open("consumequeue/t/0/00000000000000000000")
    file.pwrite((-(1 << 63)).to_bytes(8, "big", signed=True), 2 * ENTRY.size + 12)
    file.close()
    found = read(bench, Wanted("t", 0, 0, 12), tags=["odd"])
    assert [offset for _, offset, _ in found] == [1, 2, 3, 5, 7, 9, 11]  # type: ignore[misc]


def test_tags_are_filtered_by_hash() -> None:
    """Only records whose queue entry has the hash of a wanted tag are read."""
    found = read(closed(several()), Wanted("t", 0, 0, 12), tags=["odd"])
    assert [offset for _, offset, _ in found] == [1, 3, 5, 7, 9, 11]  # type: ignore[misc]
    assert read(closed(several()), Wanted("t", 0, 0, 12), tags=["neither"]) == []


@pytest.mark.parametrize("limits", [Limits(1, 1 << 20), Limits(7, 1 << 20), Limits(1_000, 1), Limits(1_000, 300)])
def test_pieces_are_as_small_as_asked(limits: Limits) -> None:
    """Rows and bytes of a piece are bounded; a message larger than the bound comes alone."""
    bench = closed(several())
    whole = read(bench, Wanted("t", 0, 0, 12), Wanted("t", 1, 0, 24))
    assert read(bench, Wanted("t", 0, 0, 12), Wanted("t", 1, 0, 24), limits=limits) == whole
    with StoreView(bench.files) as view:
        pieces = list(read_ranges(view, [Wanted("t", 1, 0, 24)], limits, **TRUSTING))
    assert all(not isinstance(piece, Unread) and len(piece) <= limits.max_rows for piece in pieces)


def test_a_queue_that_is_not_there_is_unread() -> None:
    """Neither a queue without files nor one that the topic never had is made up."""
    assert read(closed(several()), Wanted("t", 7, 0, 3), Wanted("nowhere", 0, 5, 9)) == [
        Unread(0, 0, 3),
        Unread(1, 5, 9),
    ]


def test_a_topic_made_anew_under_the_reader_is_unread() -> None:
    """The reader has the queues' files from before or from after; what lies behind the deletion is not what it wanted.
    A clock that was put back changes nothing."""
    bench = several()
    bench.store.deletions.delete("t")
    before_ms = bench.store.deletions.deleted_ms("t")
    bench.send("t", 0, b"second")
    bench.clock.set_now_ms(before_ms - 3_600_000)
    bench.store.deletions.delete("t")
    bench.send("t", 0, b"third")
    closed(bench)
    assert read(bench, Wanted("t", 0, 0, 1, 0), Wanted("u", 0, 0, 1, 0)) == [(0, 0, b"other0"), Unread(0, 0, 1)]
    assert read(bench, Wanted("t", 0, 0, 1, before_ms)) == [Unread(0, 0, 1)]
    assert read(bench, Wanted("t", 0, 0, 1, before_ms + 1)) == read(bench, Wanted("t", 0, 0, 1)) == [(0, 0, b"third")]


def test_an_old_copy_of_the_store_does_not_give_the_last_topics_messages() -> None:
    """It has the id of the store, and may lie where its broker says that the store is, on another machine: what it has
    of a topic that was made anew since is the last one's."""
    copy = closed(several())
    assert read(copy, Wanted("t", 0, 0, 1, 1), Wanted("u", 0, 0, 1, 0)) == [Unread(0, 0, 1), (0, 0, b"other0")]
    bench = several()
    bench.store.deletions.delete("t")
    deleted_ms = bench.store.deletions.deleted_ms("t")
    bench.send("t", 0, b"second")
    copy = closed(bench)
    assert read(copy, Wanted("t", 0, 0, 1, deleted_ms + 1)) == [Unread(0, 0, 1)]


def test_files_that_expired_are_unread() -> None:
    """A part of the log that retention took is named, in its place, and what is there is read."""
    bench = closed(several())
    bench.files.unlink(LOG)
    gone, *rest = read(bench, Wanted("t", 0, 0, 12))
    assert isinstance(gone, Unread)
    assert (gone.start, rest[0]) == (0, (0, gone.end, b"a%03d" % gone.end))
    assert len(rest) == 12 - gone.end
    bench.files.unlink("consumequeue/t/0/00000000000000000000")
    assert read(bench, Wanted("t", 0, 0, 12)) == [Unread(0, 0, 12)]


@pytest.mark.parametrize(
    "at",
    [0, 4, 12, 20, 28, 84, 88 + 4],
    ids=["size", "magic", "queue id", "queue offset", "physical offset", "body length", "topic length"],
)
def test_a_record_that_is_not_its_entrys_is_unread(at: int) -> None:
    """Whatever of it does not fit: the one message is named, those around it are read."""
    bench = closed(several())
    place = ENTRY.unpack_from(bench.read_file("consumequeue/t/0/00000000000000000000"), 2 * 20)[0]
    base = place - place % bench.config.mapped_file_size_commit_log
    bench.flip_bit(f"commitlog/{base:020d}", place + at - base, 6)
    found = read(bench, Wanted("t", 0, 0, 5))
    assert found == [(0, 0, b"a000"), (0, 1, b"a001"), Unread(0, 2, 3), (0, 3, b"a003"), (0, 4, b"a004")]


def test_a_record_of_another_topic_is_unread() -> None:
    """A queue entry that leads to a message of another topic with the same numbers does not give it away."""
    bench = closed(several())
    other = ENTRY.pack(*ENTRY.unpack_from(bench.read_file("consumequeue/u/0/00000000000000000000"), 20))
    bench.write_file("consumequeue/t/0/00000000000000000000", other, 20)
    assert read(bench, Wanted("t", 0, 1, 2)) == [Unread(0, 1, 2)]
    assert read(bench, Wanted("t", 0, 1, 2), Wanted("u", 0, 1, 2))[0] == Unread(0, 1, 2)


@pytest.mark.parametrize(
    "entry",
    [(0, 0, 0), (-1, 200, 0), (1 << 62, 1 << 30, 0), (0, 90, 0), (1000, 500, 0), (0, -5, 0)],
    ids=["zeros", "negative place", "huge", "too short", "across files", "negative size"],
)
def test_an_entry_that_cannot_be_ends_what_is_believed_of_its_queue(entry: tuple[int, int, int]) -> None:
    """Nothing is allocated by it; the queue is left to the broker from there on, others are not."""
    bench = closed(several())
    bench.write_file("consumequeue/t/0/00000000000000000000", ENTRY.pack(*entry), 3 * 20)
    found = read(bench, Wanted("t", 0, 0, 12), Wanted("u", 0, 0, 12))
    assert found[-1] == Unread(0, 3, 12)
    assert len(found) == 3 + 12 + 1


def test_entries_without_a_message_are_unread() -> None:
    """Their messages were lost in a damaged log: the broker has none to give either, and it is asked what has become of
    them. Which tags they had nobody knows, so under tags they are stepped over, as the broker does."""
    bench = closed(several())
    bench.write_file("consumequeue/t/0/00000000000000000000", ENTRY.pack(0, NO_MESSAGE_SIZE, 0) * 2, 0)
    assert read(bench, Wanted("t", 0, 0, 3)) == [(0, 2, b"a002"), Unread(0, 0, 2)]
    assert not any(isinstance(found, Unread) for found in read(bench, Wanted("t", 0, 0, 3), tags=["paid"]))


@pytest.mark.parametrize("in_body", [True, False])
def test_pages_that_have_not_come_yet_are_noticed(in_body: bool) -> None:
    """Over a shared file system zeros may stand where bytes will be: checksum and properties tell. On the broker's own
    machine there is no such thing, and nothing is checked for it."""
    bench = StoreBench()
    bench.send("t", 0, b"a" * 40, b"b" * 40)
    bench.store.checkpoint()
    content = bench.read_file(LOG)
    at = content.index(b"b" * 40) if in_body else content.rindex(b"UNIQ_KEY")
    bench.write_file(LOG, bytes(4), at)
    with StoreView(bench.files) as view:
        assert not view.pages_may_come_late
    bench.write_file("abort", b"1\nanother machine\nASYNC_FLUSH\n")
    with StoreView(bench.files) as view:
        assert view.pages_may_come_late
    assert read(bench, Wanted("t", 0, 0, 2)) == [(0, 0, b"a" * 40), Unread(0, 1, 2)]


@given(seed=st.integers(0, 1 << 16), torn=st.integers(0, 400))
def test_after_a_kill_nothing_wrong_is_believed(seed: int, torn: int) -> None:
    """Whatever a broken write left in the log and a power loss in the queues: what is read was sent."""
    bench = several(6)
    bench.store.flush()
    bench.send("t", 0, b"late1", b"late2")
    bench.disk.fail_next("pwrite", after_bytes=torn)
    with suppress(Exception):
        bench.send_bulk("t", 0, b"never1", b"never2")
    bench.disk.crash(bench.chance(seed))
    sent = [b"a%03d" % n for n in range(6)] + [b"late1", b"late2"]
    found = read(bench, Wanted("t", 0, 0, 10))
    offsets = [message[1] for message in found if not isinstance(message, Unread)]
    assert all(sent[message[1]] == message[2] for message in found if not isinstance(message, Unread))
    missing = [offset for piece in found if isinstance(piece, Unread) for offset in range(piece.start, piece.end)]
    assert sorted(offsets + missing) == list(range(10))


def test_the_identity_is_what_the_broker_says() -> None:
    """Of a store of ours; anything else has none."""
    bench = several(1)
    assert identity_of(bench.files) == (bench.store.store_id, bench.store.incarnation, bench.store.opening)
    bench.write_file("rmqspark.json", b"?")
    assert identity_of(bench.files) is None
    assert identity_of(bench.files.within("nowhere")) is None


def test_a_long_range_is_looked_at_window_by_window() -> None:
    """However long the ranges are, so many entries of each are in memory and no more."""
    bench = StoreBench()
    for number in range(40):
        bench.send_bulk("t", number % 2, *(b"%d.%d" % (number, each) for each in range(30)))
    bench.store.close()
    with StoreView(bench.files) as view:
        lanes = [Lane(n, view.queue("t", n), 0, 600, None) for n in range(2)]
        blocks = list(in_log_order(lanes, window=128, segment_bytes=view.log.segment_bytes))
    assert max(map(len, blocks)) <= 128
    places = np.concatenate([block.physical_offsets for block in blocks])
    assert len(places) == 1200
    assert (np.diff(places) > 0).all()
