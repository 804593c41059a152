"""A log may end within the messages of a half batch: a slave's, and that of a broker that was killed. Who reads either
sees whole half batches all the same."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import rmqspark.store.whole_halves as whole_halves
from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.message_store import MessageStore
from rmqspark.store.whole_halves import WholeHalves
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.participant.half_batch import Batch

from .participant_bench import ParticipantBench, Sent, T, other_message, read_bodies
from .test_participant_crashes import EXPECTED, OTHER, TINY, VERSIONS, Driver, ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SYNC = replace(TINY, flush_disk_type="SYNC_FLUSH")
_after = WholeHalves.after
ENDS = {topic: ends_of(topic, list(VERSIONS)) for topic in EXPECTED}

pytestmark = pytest.mark.faults


class SlaveBench:
    """A slave's store on a memory disk. `ends` are how many messages of each topic its readers may see."""

    def __init__(self, config: object = TINY, ends: Mapping[str, set[int]] = ENDS) -> None:
        self.config = config
        self.files = MemoryFileSystem(clock=ManualClock())
        self.ends = ends
        self.start()

    def start(self) -> None:
        self.store = MessageStore.open(
            "store",
            self.config,  # type: ignore[arg-type]
            files=self.files,
            clock=ManualClock(),
            entropy=SystemEntropy(2),
        )
        self.store.replica.open_for_master()

    def restart(self, *, killed: bool) -> None:
        if killed:
            self.files.kill()
        else:
            self.store.close()
        self.start()
        self.look()

    def follow(self, log: bytes, *, to: int | None = None) -> None:
        """Record by record, and looks at each."""
        log = log[:to]
        while (begin := self.store.end_offset) < len(log):
            size = int.from_bytes(log[begin : begin + 4], "big")
            assert self.store.replica.append(log[begin : begin + size]) == size
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
        bench = ParticipantBench(self.config)  # type: ignore[arg-type]
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


def offline_bodies(bench: ParticipantBench, topic: str) -> list[bytes]:
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
def test_a_slave_shows_whole_half_batches_wherever_its_log_ends(config: object, killed: bool) -> None:
    """While it follows, when it comes back, and when it is made the master; and in the end all of them."""
    log = log_of(two_versions())
    places = record_ends(log)
    assert len(places) > 35
    for end in places:
        bench = SlaveBench(config)
        bench.follow(log, to=end)
        bench.restart(killed=killed)
        assert bench.store.end_offset == end
        bench.follow(log)
        assert {topic: bench.seen(topic) for topic in EXPECTED} == EXPECTED
        taken_back = SlaveBench(config)
        taken_back.follow(log, to=end)
        master = taken_back.promoted()
        for topic, ends in ENDS.items():
            assert len([body for body in master.bodies(topic) if body != OTHER]) in ends


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_so_do_the_files_of_a_killed_broker_and_its_slave_when_it_is_back(
    power: bool, amount: Callable[[int, int], int]
) -> None:
    """Wherever it was killed: what its next start brings is the rest."""
    cut_short = 0
    for count, after_bytes in itertools.product(range(1, 70, 3 // amount(1, 3)), (150, 700)):
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
    assert cut_short > 30


def _three_rows_torn(tags: str = "") -> tuple[ParticipantBench, bytes]:
    """A broker that was killed when it had two of the three messages of a half batch in its log, and that log."""
    batch, sent = Batch(T, 1, 0), Sent("t", 0, [b"a" * 40, b"b" * 40, b"c" * 40], tags)
    for write, after_bytes in itertools.product((2, 3, 4), range(200, 2400, 20)):
        bench = ParticipantBench()
        attempt = bench.send(batch, sent)
        assert bench.vote(batch, attempt) == ""
        bench.files.stop_at(write, after_bytes=after_bytes, counted=("pwrite",))
        with suppress(ProcessDied):
            bench.commit(batch, attempt)
        bench.files.kill()
        store = _open(bench)
        log = store.replica.read(0, store.end_offset)
        bench.files.kill()
        if _kinds(log).count(SysFlag.COMMITTED) == 2:
            return bench, log
    raise AssertionError


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


def test_a_tail_that_is_cut_off_takes_the_whole_half_batch_along() -> None:
    """Its master has lost the end of the log, within a half batch that the slave has: it sends that again."""
    log = log_of(two_versions())
    places = record_ends(log)
    for cut, end in itertools.combinations(places[-12:], 2):
        bench = SlaveBench()
        bench.follow(log, to=end)
        bench.store.replica.cut(cut)
        assert bench.store.end_offset <= cut
        bench.look()
        bench.follow(log)
        assert {topic: bench.seen(topic) for topic in EXPECTED} == EXPECTED


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
