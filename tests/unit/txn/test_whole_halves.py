"""A log may end within the messages of a half batch: a slave's, and that of a broker that was killed. Who reads either
sees whole half batches all the same."""

from __future__ import annotations

import errno
import itertools
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import rmqspark.store.recovery.whole_halves as whole_halves
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable, RmqError, StoreError
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import QUEUE_OFFSET_AT, SysFlag, decode_record, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.store.recovery.whole_halves import WholeHalves
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.participant.completer import TornBatch
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.half_store import HalfStore

from .participant_bench import ParticipantBench, Sent, T, other_message, read_bodies
from .test_participant_crashes import EXPECTED, OTHER, TINY, VERSIONS, Driver, ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqspark.store.config import StoreConfig

SYNC = replace(TINY, flush_disk_type="SYNC_FLUSH")
_after = WholeHalves.after
ENDS = {topic: ends_of(topic, list(VERSIONS)) for topic in EXPECTED}

pytestmark = pytest.mark.faults


class SlaveBench:
    """A slave's store on a memory disk. `ends` are how many messages of each topic its readers may see."""

    def __init__(self, config: StoreConfig = TINY, ends: Mapping[str, set[int]] = ENDS) -> None:
        self.config = config
        self.files = MemoryFileSystem(clock=ManualClock())
        self.ends = ends
        self.start()

    def start(self) -> None:
        self.store = MessageStore.open(
            "store", self.config, files=self.files, clock=ManualClock(), entropy=SystemEntropy(2)
        )
        self.store.replica.open_for_master()

    def end(self, *, killed: bool) -> None:
        if killed:
            self.files.kill()
        else:
            self.store.close()

    def restart(self, *, killed: bool) -> None:
        self.end(killed=killed)
        self.start()
        self.look()

    def follow(self, log: bytes, *, to: int | None = None, piece_bytes: int = 1) -> None:
        """Piece by piece, or record by record, and looks at each."""
        log = log[:to]
        while (begin := self.store.end_offset) < len(log):
            size = max(piece_bytes, int.from_bytes(log[begin : begin + 4], "big"))
            assert self.store.replica.append(log[begin : begin + size])
            self.look()
            self.store.flush()
            self.look()

    def seen(self, topic: str) -> list[bytes]:
        return [body for body in read_bodies(self.store, topic) if body != OTHER]

    def look(self) -> None:
        for topic, ends in self.ends.items():
            assert len(self.seen(topic)) in ends, topic

    def promoted(self) -> ParticipantBench:
        """Its broker is started as a master, on what this slave has."""
        bench = ParticipantBench(self.config)
        bench.files = self.files
        bench.kill()
        return bench


def log_of(bench: ParticipantBench) -> bytes:
    return bench.store.replica.read(0, bench.store.end_offset)


def record_ends(log: bytes) -> list[int]:
    ends = [0]
    while ends[-1] < len(log):
        ends.append(ends[-1] + int.from_bytes(log[ends[-1] : ends[-1] + 4], "big"))
    return ends


def two_versions() -> ParticipantBench:
    bench = ParticipantBench(TINY)
    Driver(bench).run()
    return bench


def over_three_files() -> ParticipantBench:
    """Half batches so large that their messages fill a file of the log."""
    bench = ParticipantBench(TINY)
    bodies = [b"%02d" % number * 5 for number in range(24)]
    batch = Batch(T, 1, 0)
    attempt = bench.send(batch, Sent("t", 0, bodies[:12]), Sent("u", 0, [b"u1", b"u2"]), Sent("t", 0, bodies[12:]))
    assert bench.vote(batch, attempt) == ""
    bench.commit(batch, attempt)
    return bench


LONG_ENDS = {"t": {0, 12, 24}, "u": {0, 2}}


def offline_bodies(bench: ParticipantBench | SlaveBench, topic: str) -> list[bytes]:
    """What is there for who reads the files without a broker."""
    with OfflineStore(bench.files.within("store"), is_open=False) as store:
        if (topic, 0) not in store.queues():
            return []
        wanted = [Wanted(topic, 0, store.begin((topic, 0)), store.end((topic, 0)))]
        found = []
        for piece in read_ranges(
            store.view, wanted, Limits(100, 1 << 20), tails=store.tails, check_crc=True, pages_may_come_late=False
        ):
            assert not isinstance(piece, Unread)
            raw = piece.buffer.tobytes()
            found += [decode_record(raw, at).body for at in piece.positions.tolist()]
        return [body for body in found if body != OTHER]


@pytest.mark.parametrize("config", [TINY, SYNC], ids=["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize(
    ("made", "ends"),
    [pytest.param(two_versions, ENDS, id="two versions"), pytest.param(over_three_files, LONG_ENDS, id="three files")],
)
def test_a_slave_shows_whole_half_batches_wherever_its_log_ends(
    made: Callable[[], ParticipantBench],
    ends: Mapping[str, set[int]],
    config: object,
    killed: bool,
    amount: Callable[[int, int], int],
) -> None:
    """While it follows, when it comes back, and when it is made the master; and in the end all of them. So do its
    files, for who reads them without a broker."""
    original = made()
    log, expected = log_of(original), {topic: [b for b in original.bodies(topic) if b != OTHER] for topic in ends}
    places = record_ends(log)
    assert len(places) > 35
    for end in places[:: 3 // amount(1, 3)]:
        bench = SlaveBench(config, ends)
        bench.follow(log, to=end)
        for topic in ends:
            assert len(bench.seen(topic)) in ends[topic]
        for _ in range(2):
            bench.restart(killed=killed)
            assert bench.store.end_offset == end
        bench.follow(log)
        assert {topic: bench.seen(topic) for topic in ends} == expected
        left = SlaveBench(config, ends)
        left.follow(log, to=end)
        left.end(killed=killed)
        for topic in ends:
            assert len(offline_bodies(left, topic)) in ends[topic]
        master = left.promoted()
        for topic in ends:
            assert len([body for body in master.bodies(topic) if body != OTHER]) in ends[topic]


@pytest.mark.parametrize("piece_bytes", [300, 700, 1500, 4000, 1 << 20])
def test_however_much_comes_at_once(piece_bytes: int, amount: Callable[[int, int], int]) -> None:
    """Half batches with their first messages, last ones with what follows, and many whole ones."""
    for made, ends in ((two_versions, ENDS), (over_three_files, LONG_ENDS)):
        log = log_of(made())
        for end in record_ends(log)[:: 3 // amount(1, 3)]:
            bench = SlaveBench(TINY, ends)
            bench.follow(log, to=end, piece_bytes=piece_bytes)
            bench.follow(log, piece_bytes=piece_bytes)
            assert all(len(bench.seen(topic)) == max(ends[topic]) for topic in ends)


def test_a_slave_that_began_later_shows_no_half_batch_before_its_end() -> None:
    """It has files of the log since then, not the half batches that came before: it cannot know how many messages they
    have, and waits for what follows them."""
    log = log_of(over_three_files())
    begins = range(TINY.mapped_file_size_commit_log, len(log), TINY.mapped_file_size_commit_log)
    assert len(begins) > 2
    for begin in begins:
        bench = SlaveBench(TINY, {})
        bench.store.replica.begin_at(begin)
        while bench.store.end_offset < len(log):
            at = bench.store.end_offset
            bench.store.replica.append(log[at : at + int.from_bytes(log[at : at + 4], "big")])
            assert all(bench.store.queues.max_offset(topic, 0) in LONG_ENDS[topic] for topic in LONG_ENDS)
        assert bench.store.queues.max_offset("t", 0) == 24


@pytest.mark.parametrize(
    "properties", [{Property.PRODUCER_GROUP: "g"}, {Property.REAL_TOPIC: "t"}], ids=["transaction", "delivery"]
)
def test_it_does_not_wait_for_what_follows_other_messages(properties: dict[str, str]) -> None:
    """Those of ordinary transactions, and deliveries of delayed ones, name what came before, too."""
    bench = SlaveBench(TINY, {})
    bench.store.replica.begin_at(2048)
    record = encode_record(
        topic="t",
        body=b"m",
        properties=encode_properties(properties),
        sys_flag=SysFlag.COMMITTED,
        physical_offset=2048,
        prepared_transaction_offset=77,
    )
    bench.store.replica.append(bytes(record))
    assert bench.seen("t") == [b"m"]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_so_do_the_files_of_a_killed_broker_and_its_slave_when_it_is_back(
    power: bool, amount: Callable[[int, int], int]
) -> None:
    """Wherever it was killed: what its next start brings is the rest."""
    cut_short = 0
    for count, after_bytes in itertools.product(range(1, 70, 6 // amount(1, 6)), (150, 700)):
        bench = ParticipantBench(TINY)
        driver, slave = Driver(bench), SlaveBench()
        bench.files.stop_at(count, after_bytes=after_bytes)
        try:
            driver.run()
        except ProcessDied:
            cut_short += 1
        if power:
            bench.files.crash(SystemEntropy(count))
        else:
            bench.files.kill()
        for topic, ends in ENDS.items():
            found = offline_bodies(bench, topic)
            assert found == EXPECTED[topic][: len(found)]
            assert len(found) in ends
        bench.start()
        driver.run(epoch=2)
        slave.follow(log_of(bench))
        assert {topic: slave.seen(topic) for topic in EXPECTED} == EXPECTED
    assert cut_short > 15


def _three_rows_torn(tags: str = "", before: int = 0) -> tuple[ParticipantBench, bytes]:
    """A broker that was killed when it had two of the three messages of a half batch in its log, and that log. So many
    messages are in the queue `before`."""
    bench = _killed(tags, before, *_moment(tags, before))
    log = _log_left(bench)
    assert _kinds(log).count(SysFlag.COMMITTED) == 2
    return bench, log


@cache
def _moment(tags: str, before: int) -> tuple[int, int]:
    """At which write, and after how many bytes of it."""
    moments = itertools.product((2, 3, 4), range(200, 2400, 20))
    return next(
        moment for moment in moments if _kinds(_log_left(_killed(tags, before, *moment))).count(SysFlag.COMMITTED) == 2
    )


def _killed(tags: str, before: int, write: int, after_bytes: int) -> ParticipantBench:
    bench, batch = ParticipantBench(), Batch(T, 1, 0)
    for _ in range(before):
        bench.store.writer.append_parts("t", 0, *other_message())
    attempt = bench.send(batch, Sent("t", 0, [b"a" * 40, b"b" * 40, b"c" * 40], tags))
    assert bench.vote(batch, attempt) == ""
    bench.files.stop_at(write, after_bytes=after_bytes, counted=("pwrite",))
    with suppress(ProcessDied):
        bench.commit(batch, attempt)
    bench.files.kill()
    return bench


def _log_left(bench: ParticipantBench) -> bytes:
    store = _open(bench)
    log = store.replica.read(0, store.end_offset)
    bench.files.kill()
    return log


def _open(bench: ParticipantBench) -> MessageStore:
    """Its store alone, recovered: a broker is killed before it completes the half batch, or has no room for that."""
    return MessageStore.open("store", bench.config, files=bench.files, clock=bench.clock, entropy=SystemEntropy(1))


def _kinds(log: bytes) -> list[int]:
    return [kind & SysFlag.TRANSACTION_MASK for kind in RecordBatch.scan(log).sys_flags.tolist()]


@pytest.mark.parametrize("tags", ["", "\0" * 600], ids=["plain", "vouched for"])
def test_the_rest_follows_at_once_when_the_master_is_back(tags: str) -> None:
    """Nothing but a voucher comes between, so a slave that has seen the log end there shows them together."""
    bench, torn = _three_rows_torn(tags)
    assert offline_bodies(bench, "t") == []
    slave = SlaveBench(bench.config, {"t": {0, 3}})
    slave.follow(torn)
    bench.start()
    log = log_of(bench)
    assert log.startswith(torn)
    assert (SysFlag.ROLLED_BACK in _kinds(log[len(torn) :])) == bool(tags)
    slave.follow(log)
    assert len(slave.seen("t")) == len(bench.bodies("t")) == 3


def test_where_something_else_follows_there_is_no_rest() -> None:
    """Nobody waits for messages that do not come: what is behind them is shown, and they are."""
    bench, torn = _three_rows_torn()
    slave = SlaveBench(bench.config, {"t": {0, 3}})
    slave.follow(torn)
    store = _open(bench)
    head, tail = other_message()
    store.writer.append_parts("t", 0, head, tail)
    slave.follow(store.replica.read(0, store.end_offset))
    assert slave.seen("t") == [b"a" * 40, b"b" * 40, b"other"]


@pytest.mark.parametrize(
    ("made", "ends"),
    [pytest.param(two_versions, ENDS, id="two versions"), pytest.param(over_three_files, LONG_ENDS, id="three files")],
)
def test_a_tail_that_is_cut_off_takes_the_whole_half_batch_along(
    made: Callable[[], ParticipantBench], ends: Mapping[str, set[int]], amount: Callable[[int, int], int]
) -> None:
    """Its master has lost the end of the log, within a half batch that the slave has: it sends that again."""
    log = log_of(made())
    places = record_ends(log)
    for cut, end in itertools.islice(itertools.combinations(places[1:], 2), 0, None, 13 // amount(1, 13)):
        bench = SlaveBench(TINY, ends)
        bench.store.replica.append(log[:end])
        bench.store.replica.cut(cut)
        assert bench.store.end_offset <= cut
        bench.look()
        bench.follow(log, piece_bytes=700)
        assert all(len(bench.seen(topic)) == max(ends[topic]) for topic in ends)


def test_a_disk_that_is_full_while_it_is_mended() -> None:
    """At whichever write, voucher or not: the three messages are there once, or the broker does not start."""
    refused = 0
    for tags, write, closed in itertools.product(("", "\0" * 600), range(1, 16), (True, False)):
        bench, _ = _three_rows_torn(tags)
        bench.files.fail_at(write, OSError(errno.ENOSPC, "full"), counted=("pwrite",))
        try:
            bench.start()
        except TornBatch:
            refused += 1
            bench.files.heal()
            if closed:
                bench.store.close()
        except StoreError:
            pass  # it could not even be opened
        bench.files.heal()
        bench.files.kill()
        assert len(offline_bodies(bench, "t")) in (0, 3)
        bench.start()
        assert bench.bodies("t") == [b"a" * 40, b"b" * 40, b"c" * 40]
    assert refused > 2


@pytest.mark.parametrize("closed", [True, False])
def test_the_voucher_of_a_message_that_was_refused_moves_nothing(closed: bool) -> None:
    """The first that is appended after a start is somebody else's voucher, and its message finds the disk full: the
    messages at the end of the log wait on, over the next start too."""
    bench, _ = _three_rows_torn()
    store = _open(bench)
    odd = encode_record(topic="x", body=b"x", properties=encode_properties({"K": "\0" * 700}))
    bench.files.fail_at(2, OSError(errno.ENOSPC, "full"), counted=("pwrite",))
    with pytest.raises(NotWritable):
        store.append([Draft("x", 0, odd)])
    bench.files.heal()
    assert store.end_offset > store.figures().readable_physical_offset
    if closed:
        store.close()
    else:
        store.checkpoint()
        bench.files.kill()
    bench.start()
    assert bench.bodies("t") == [b"a" * 40, b"b" * 40, b"c" * 40]


def test_a_queue_that_finds_no_room_for_its_next_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a slave nor on its master, whose start mends it: nothing of the half batch is readable until there is
    room for all of it."""
    seen = set()
    for before in range(7, 11):  # a file has ten entries
        master, torn = _three_rows_torn(before=before)
        slave = SlaveBench(master.config, {"t": {*range(before + 1), before + 3}})
        slave.follow(torn)
        with monkeypatch.context() as meanwhile, suppress(RmqError):
            meanwhile.setattr(HalfStore, "rows_present", _filling(master.files))
            master.start()
        seen.add(len(read_bodies(master.store, "t")) - before)
        master.kill()
        _fill(slave.files)
        with suppress(RmqError):
            slave.follow(log_of(master))
        seen.add(len(slave.seen("t")) - before)
        slave.files.heal()
        slave.follow(log_of(master))
        assert len(slave.seen("t")) == len(read_bodies(master.store, "t")) == before + 3
    assert seen == {0, 3}


def _filling(files: MemoryFileSystem) -> Callable[..., object]:
    """Its disk is full when a broker looks for what is there of a completion."""
    rows_present = HalfStore.rows_present

    def filling(*arguments: Any) -> object:
        _fill(files)
        return rows_present(*arguments)

    return filling


def _fill(files: MemoryFileSystem) -> None:
    """No file can be made any more."""
    for _ in range(100):
        files.fail_next("create", OSError(errno.ENOSPC, "full"))


@pytest.mark.parametrize("row", [-1, -2], ids=["last", "first"])
@pytest.mark.parametrize("says", [4, 8, 11, 12, 13, 14, 15, 28, 1 << 61])
def test_a_place_in_the_queue_that_is_wrong_loses_no_other_message(row: int, says: int) -> None:
    """A record's head is under no checksum. Where one bit of it is another, the start goes through, and all other
    messages are there: the rest of the half batch, and what others send then."""
    bench, torn = _three_rows_torn(before=12)
    place = int(RecordBatch.scan(torn).positions[row]) + QUEUE_OFFSET_AT
    file = bench.files.within("store").open("commitlog/" + "0" * 20)
    file.pwrite(says.to_bytes(8, "big"), place)
    file.close()
    bench.start()
    for _ in range(4):
        bench.store.writer.append_parts("t", 0, *other_message())
    assert bench.store.queues.next_offset("t", 0) == bench.store.queues.max_offset("t", 0)
    found = _bodies_that_are_there(bench.store, "t")
    assert found.count(b"other") == 16
    assert b"c" * 40 in found
    if row == -1:
        assert b"a" * 40 in found
    elif not 12 < says < 1 << 60:  # else the second one claims a place before the first one's
        assert b"b" * 40 in found


def _bodies_that_are_there(store: MessageStore, topic: str) -> list[bytes]:
    offsets = range(store.queues.max_offset(topic, 0))
    places = [place for offset in offsets if (place := store.queues.locate(topic, 0, offset)) is not None]
    return [decode_record(store.read_range(*place)).body for place in places]


def test_a_cut_over_a_file_that_is_missing_comes_to_an_end() -> None:
    """Nothing before a gap in the log has to do with what is behind it."""
    log = log_of(over_three_files())
    bench = SlaveBench(TINY, {})
    bench.store.replica.append(log)
    bench.store.close()
    bench.files.within("store").unlink(f"commitlog/{4096:020}")
    bench.start()
    scans = len(bench.files.log)
    bench.store.replica.cut(record_ends(log)[16])
    assert len(bench.files.log) - scans < 2_000


def test_an_orderly_stop_is_one_whatever_is_kept_back() -> None:
    """Nobody is told, after the machine has been started anew, that anything might be lost."""
    bench, torn = _three_rows_torn()
    slave = SlaveBench(bench.config, {"t": {0, 3}})
    slave.follow(torn)
    incarnation = slave.store.incarnation
    slave.store.close()
    slave.files.crash(SystemEntropy(3))
    slave.start()
    assert slave.store.incarnation == incarnation
    bench.start()
    slave.follow(log_of(bench))
    assert len(slave.seen("t")) == 3


def test_a_count_that_is_wrong_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what calls itself a half batch of a thousand million messages no more is kept back than one may have."""
    _, torn = _three_rows_torn()
    monkeypatch.setattr(WholeHalves, "_rows_of", lambda *_: 1_000_000_000)
    monkeypatch.setattr(whole_halves, "_MOST_KEPT_BYTES", 300)
    slave = SlaveBench(TINY, {"t": {0, 2}})
    slave.follow(torn)
    assert len(slave.seen("t")) == 2


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(lambda _, records: ((records,), None), id="everything is shown at once"),
        pytest.param(lambda halves, records: (_after(halves, records)[0], None), id="what was kept back is forgotten"),
    ],
)
def test_these_tests_find_it(shown: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that shows what it has, or loses what it kept back."""
    monkeypatch.setattr(WholeHalves, "after", shown)
    with pytest.raises(AssertionError):
        SlaveBench().follow(log_of(two_versions()))
