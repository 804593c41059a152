"""A participant killed, without power or with a full disk, in any operation of half batch, vote and completion."""

from __future__ import annotations

import errno
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable, StoreError
from rmqspark.protocol.bodies.txn import HeldAttempt
from rmqspark.protocol.records.record import HEAD_BYTES, encode_record
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.txn.participant.completer import Completer, TornBatch
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.half_store import HalfStore

from .participant_bench import SMALL, ParticipantBench, Sent, T

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.faults

TINY = replace(SMALL, mapped_file_size_commit_log=2048)
VERSIONS = {
    0: [Sent("t", 0, [b"0a", b"0b", b"0c-longer"]), Sent("u", 0, [b"0d"]), Sent("t", 0, [b"0e", b"0f"])],
    1: [
        Sent("u", 0, [b"1a", b"1b"]),
        Sent("t", 0, [b"1c" * 20, b"1d" * 20]),  # as rows, and appended together with
        Sent("u", 0, [b"1e"]),
        Sent("t", 0, [b"1f", b"1g" * 30]),  # these
    ],
}
EXPECTED = {
    queue: [body for version in VERSIONS.values() for sent in version if sent.topic == queue for body in sent.bodies]
    for queue in ("t", "u")
}
OTHER = b"somebody else's"


class Driver:
    """Writes two versions as coordinator and Spark would, and looks at every step what is readable."""

    def __init__(self, bench: ParticipantBench) -> None:
        self.bench = bench
        self.decided: dict[int, Batch] = {}
        self.others = 0
        self.looks = 0

    def run(self, epoch: int = 1) -> None:
        """Goes on from wherever the last run came to: what is decided is completed, the rest written anew."""
        for version in VERSIONS:
            if version not in self.decided:
                self._write(Batch(T, epoch, version))
            self._complete(self.decided[version], durable=version == 1)

    def look(self) -> None:
        """Readers see whole half batches, each once, in order, and nothing that was not decided."""
        self.looks += 1
        for topic, expected in EXPECTED.items():
            seen = [body for body in self.bench.bodies(topic) if body != OTHER]
            assert seen == expected[: len(seen)]
            assert len(seen) in ends_of(topic, [version for version in VERSIONS if version in self.decided])

    def _write(self, batch: Batch) -> None:
        bench = self.bench
        bench.send(batch, Sent("t", 0, [b"twin"]), attempt=f"twin-{batch.epoch}")
        attempt = bench.send(batch, *VERSIONS[batch.version])
        self.look()
        assert bench.vote(batch, attempt, completed=batch.version - 1) == ""
        self.decided[batch.version] = batch

    def _complete(self, batch: Batch, *, durable: bool) -> None:
        self.bench.commit(batch, HeldAttempt(0, "a"), durable=durable, each_step=self._step)
        self.look()

    def _step(self) -> None:
        self.look()
        record = encode_record(topic="t", body=OTHER)
        self.bench.store.writer.append_parts("t", 0, record[:HEAD_BYTES], [bytes(record[HEAD_BYTES:])])

    def check(self) -> None:
        self.look()
        for topic, expected in EXPECTED.items():
            assert [body for body in self.bench.bodies(topic) if body != OTHER] == expected
        assert all(name.batch.version > 1 for name in self.bench.held())


def ends_of(topic: str, decided: list[int]) -> set[int]:
    """How many messages of a topic there may be: as many as whole half batches have."""
    sizes = [len(sent.bodies) for version in decided for sent in VERSIONS[version] if sent.topic == topic]
    return {sum(sizes[:count]) for count in range(len(sizes) + 1)}


@pytest.mark.parametrize(("mode", "after_bytes"), [("ASYNC_FLUSH", 0), ("ASYNC_FLUSH", 700), ("SYNC_FLUSH", 150)])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_every_crash_point(
    mode: str, after_bytes: int, power: bool, amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """Wherever the process ends, readers see whole half batches then and later, and in the end each message once."""
    looks = crashes = 0
    for count in itertools.count(1, 4 // amount(1, 4)):
        bench = ParticipantBench(replace(TINY, flush_disk_type=mode))
        driver = Driver(bench)
        bench.files.stop_at(count, after_bytes=after_bytes)
        try:
            driver.run()
        except ProcessDied:
            crashes += 1
        else:
            break
        _restart(bench, power=power, seed=count * 7 + after_bytes)
        driver.look()
        driver.run(epoch=2)
        driver.check()
        _restart(bench, power=power, seed=count)
        driver.check()
        looks += driver.looks
    assert count > 60
    tell(f"{crashes} crashes, {looks} looks of readers")


@pytest.mark.parametrize(
    ("part", "switched_off"),
    [
        pytest.param("HalfStore.rows_present", lambda *_: {}, id="the scan for messages that are there"),
        pytest.param("Completer._mend", lambda *_: None, id="completing before anybody reads"),
    ],
)
def test_crashes_find_what_is_switched_off(
    part: str, switched_off: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any one of the steps of a recovery, some crash shows a part of a half batch, or a message twice."""
    owner, _, name = part.partition(".")
    monkeypatch.setattr({"HalfStore": HalfStore, "Completer": Completer}[owner], name, switched_off)
    for count, after_bytes in itertools.product(range(20, 90), (150, 700)):
        bench = ParticipantBench(TINY)
        driver = Driver(bench)
        bench.files.stop_at(count, after_bytes=after_bytes)
        with pytest.raises(ProcessDied):
            driver.run()
        _restart(bench, power=False, seed=0)
        try:
            driver.look()
            driver.run(epoch=2)
            driver.check()
        except AssertionError:
            return
    pytest.fail("no crash showed it")


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_crash_while_recovering(power: bool, amount: Callable[[int, int], int], tell: Callable[[str], None]) -> None:
    """A recovery that is cut short is made up for by the next one."""
    crashes = 0
    for first in range(30, 75, 9 // amount(1, 4)):
        for second in itertools.count(1, 6 // amount(1, 6)):
            bench = ParticipantBench(TINY)
            driver = Driver(bench)
            bench.files.stop_at(first, after_bytes=150)
            with pytest.raises(ProcessDied):
                driver.run()
            _end(bench, power=power, seed=first)
            bench.files.stop_at(second, after_bytes=90)
            try:
                bench.start()
            except ProcessDied:
                crashes += 1
            else:
                break
            _restart(bench, power=power, seed=second)
            driver.look()
            driver.run(epoch=2)
            driver.check()
    assert crashes > 10
    tell(f"{crashes} crashes")


@pytest.mark.parametrize(("mode", "after_bytes"), [("ASYNC_FLUSH", 0), ("ASYNC_FLUSH", 150), ("SYNC_FLUSH", 150)])
def test_every_failed_write(mode: str, after_bytes: int, amount: Callable[[int, int], int]) -> None:
    """A disk that takes no more leaves nothing half-done; when there is room again the same request goes through."""
    failures = 0
    for count in range(1, 70, 3 // amount(1, 3)):
        bench = ParticipantBench(replace(TINY, flush_disk_type=mode))
        driver = Driver(bench)
        bench.files.fail_at(count, OSError(errno.ENOSPC, "full"), after_bytes=after_bytes, counted=("pwrite",))
        try:
            driver.run()
        except (NotWritable, OSError):
            driver.look()
            failures += 1
        bench.files.heal()
        driver.run(epoch=2)
        driver.check()
        bench.kill()
        driver.check()
    assert failures > 8


def test_no_room_to_mend() -> None:
    """A broker that finds the messages of a half batch torn, and no room for the rest, does not serve them."""
    batch, sent = Batch(T, 1, 0), Sent("t", 0, [letter * 1000 for letter in (b"a", b"b", b"c")])
    torn = 0
    for write in itertools.count(1):
        bench = ParticipantBench()
        attempt = bench.send(batch, sent)
        bench.vote(batch, attempt)
        bench.files.stop_at(2, after_bytes=1500, counted=("pwrite",))  # the second one writes the messages
        with pytest.raises(ProcessDied):
            bench.commit(batch, attempt)
        bench.files.kill()
        bench.files.fail_at(write, OSError(errno.ENOSPC, "full"), counted=("pwrite",))
        try:
            bench.start()
        except TornBatch as error:
            torn += "t/0 ends in the middle of a batch" in str(error)
        except StoreError:
            pass  # the store could not even be opened
        else:
            assert bench.bodies("t") in ([], list(sent.bodies))
            if write > 40:
                break
        bench.files.heal()
        bench.kill()
        assert bench.bodies("t") == list(sent.bodies)
    assert torn == 1


def test_full_disk_is_noticed_before_anything_is_done() -> None:
    """Where the disk has no room for a transaction, none of it is begun."""
    bench = ParticipantBench(TINY)
    attempt = bench.send(Batch(T, 1, 0), *VERSIONS[0])
    bench.vote(Batch(T, 1, 0), attempt)
    bench.files.set_budget(0)
    end = bench.store.end_offset
    with pytest.raises(NotWritable, match="are needed"):
        bench.commit(Batch(T, 1, 0), attempt)
    assert bench.store.end_offset == end
    bench.files.set_budget(None)
    bench.commit(Batch(T, 1, 0), attempt)
    assert len(bench.bodies("t")) == 5


@pytest.mark.parametrize("restarts", [False, True], ids=["again", "at a start"])
def test_what_is_appended_takes_no_room_again(restarts: bool) -> None:
    """A disk that filled up in the middle of a large batch has to have room for the rest of it, and not for all, before
    that goes on; nor do topics matter any more that have their rows."""
    bench, batch = ParticipantBench(replace(SMALL, mapped_file_size_commit_log=1 << 20)), Batch(T, 1, 0)
    attempt = bench.send(batch, Sent("t", 0, [b"t" * 1000] * 100), Sent("u", 0, [b"u"]))
    bench.vote(batch, attempt)
    bench.files.fail_at(3, OSError(errno.ENOSPC, "full"), counted=("pwrite",))  # event, first messages, these
    with pytest.raises(NotWritable):
        bench.commit(batch, attempt)
    bench.files.heal()
    assert (len(bench.bodies("t")), bench.bodies("u")) == (100, [])
    bench.targets = {"u"}
    if restarts:
        bench.kill()
    else:
        usage = bench.files.disk_usage()
        bench.files.set_budget(usage.total_bytes - usage.free_bytes + 50_000)
        bench.commit(batch, attempt)
    assert (len(bench.bodies("t")), bench.bodies("u"), bench.held()) == (100, [b"u"], [])


def _end(bench: ParticipantBench, *, power: bool, seed: int) -> None:
    if power:
        bench.files.crash(SystemEntropy(seed))
    else:
        bench.files.kill()


def _restart(bench: ParticipantBench, *, power: bool, seed: int) -> None:
    _end(bench, power=power, seed=seed)
    bench.start()
