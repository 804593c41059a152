"""A process killed, a machine without power, or a disk that refuses, at every operation of a store at work in turn."""

from __future__ import annotations

import itertools
from contextlib import suppress
from errno import EIO, ENOSPC
from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import NotWritable, StoreError
from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import CHANGES, ProcessDied
from rmqspark.testing.memory_files import MemoryFile

from .store_bench import SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

QUEUES = [("t", 0), ("t", 1), ("u", 0)]
STRIDE = 23  # a share of the operations; a soak takes every one
SOAK_SEEDS = 12  # ways that a power loss goes
modes = pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])


class Work:
    """Sends, flushes, a roll of every kind of file, an expiry and closings in a fixed order; knows what was sent,
    answered and promised to be on disk."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "flush_disk_type": mode}))
        self.sent: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in QUEUES}
        self.answered = dict.fromkeys(QUEUES, 0)
        self.promised = dict.fromkeys(QUEUES, 0)
        self.may_be_expired = False

    def steps(self) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = []
        for number in range(12):
            steps.append(lambda number=number: self.send(number))
            if number % 4 == 1:
                steps.append(self.flush)
            if number == 6:
                steps.append(self.checkpoint)
            if number == 8:
                steps.append(self.expire)
            if number == 9:
                steps.append(self.reopen)
        return steps

    def send(self, number: int) -> None:
        queue = QUEUES[number % 3]
        bodies = [b"%02d-%d" % (number, part) * (1 + number * 5 % 17) for part in range(1 + number % 4)]
        self.sent[queue] += bodies
        if number % 2:
            self.bench.send_bulk(*queue, *bodies)
        else:
            self.bench.send(*queue, *bodies)
        self.answered = {key: len(messages) for key, messages in self.sent.items()}

    def flush(self) -> None:
        self.bench.store.flush()
        self.promised = self.answered

    def checkpoint(self) -> None:
        self.bench.store.checkpoint()
        self.promised = self.answered

    def expire(self) -> None:
        self.checkpoint()
        self.bench.clock.advance(hours=73)
        self.may_be_expired = True
        while self.bench.store.expire(self.bench.clock.now_ms()).deleted:
            pass

    def reopen(self) -> None:
        self.bench.reopen()
        self.promised = self.answered

    def run(self) -> None:
        for step in self.steps():
            step()

    def run_on(self) -> None:
        """What is refused is left out; where more than that goes wrong, the process is started again."""
        for step in self.steps():
            try:
                step()
            except NotWritable:
                self.sent = {key: messages[: self.answered[key]] for key, messages in self.sent.items()}
            except (OSError, StoreError):
                self.bench.disk.heal()
                self.bench.kill()

    def check(self, at_least: dict[tuple[str, int], int]) -> None:
        """What is there is what was sent, in its place, and not less than was promised; and it goes on from there."""
        store = self.bench.store
        for queue, messages in self.sent.items():
            first, end = store.queues.min_offset(*queue), store.queues.max_offset(*queue)
            assert first == 0 or self.may_be_expired
            assert self.bench.numbered_bodies(*queue, first) == list(enumerate(messages))[first:end]
            assert end >= at_least[queue]
            self.bench.send(*queue, b"more")
            store.flush()
            assert self.bench.numbered_bodies(*queue, end) == [(end, b"more")]
            for body in messages[max(first, end - 1) : end]:
                assert any(body in record for record in store.query(queue[0], body.decode(), 0, 1 << 60, 64))
        assert store.damage == ()


@modes
@pytest.mark.parametrize("after_bytes", [0, 100, 600])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_every_crash_point(
    mode: str,
    after_bytes: int,
    power: bool,
    soaking: bool,
    amount: Callable[[int, int], int],
    tell: Callable[[str], None],
) -> None:
    """Killed, nothing that was answered is missing; without power, nothing that was flushed. Nothing is invented."""
    points, stride = 0, STRIDE // amount(1, STRIDE)
    for seed in range(amount(1, SOAK_SEEDS) if power else 1):
        for count in itertools.count(1, stride):
            work = Work(mode)
            work.bench.disk.stop_at(count, after_bytes=after_bytes)
            try:
                work.run()
            except ProcessDied:
                pass
            else:
                break
            points += 1
            if power:
                work.bench.lose_power(seed * 1000 + count * 7 + after_bytes if seed else None)
                work.check(work.promised)
            else:
                work.bench.kill()
                work.check(work.answered if mode == "ASYNC_FLUSH" else work.promised)
    if soaking:
        tell(f"{points} crash points of {mode}, {'power loss' if power else 'kill'}")
    assert points > 150 // stride


@modes
@pytest.mark.parametrize(("error", "after_bytes"), [(EIO, 0), (ENOSPC, 0), (ENOSPC, 100), (EIO, 600)])
def test_every_operation_refused(
    mode: str,
    error: int,
    after_bytes: int,
    soaking: bool,
    amount: Callable[[int, int], int],
    tell: Callable[[str], None],
) -> None:
    """Each operation fails once: what was refused is not there, what was answered is, also after a power loss."""
    points, stride = 0, STRIDE // amount(1, STRIDE)
    for count in itertools.count(1, stride):
        work = Work(mode)
        before = len(work.bench.disk.log)
        work.bench.disk.fail_at(count, OSError(error, "refused"), after_bytes=after_bytes)
        work.run_on()
        if count > sum(operation.name in CHANGES for operation in list(work.bench.disk.log)[before:]):
            break
        points += 1
        work.bench.disk.heal()
        with suppress(OSError, StoreError):
            work.flush()
        work.bench.lose_power(count)
        work.check(work.promised)
    if soaking:
        tell(f"{points} operations of {mode} refused, error {error}")
    assert points > 150 // stride


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_files_of_log_and_queues_never_get_shorter(power: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads them from another process meets no end that moves, whatever a recovery has to clear."""
    set_length, made, shortened = MemoryFile.truncate, set(), set()

    def watched(file: MemoryFile, size: int) -> None:
        if file.path.startswith(("commitlog/", "consumequeue/")):
            (shortened if size < file.size() else made).add(file.path)
        set_length(file, size)

    monkeypatch.setattr(MemoryFile, "truncate", watched)
    for count in itertools.count(1, STRIDE):
        work = Work("ASYNC_FLUSH")
        work.bench.disk.stop_at(count, after_bytes=100)
        try:
            work.run()
        except ProcessDied:
            (work.bench.lose_power if power else work.bench.kill)()
        else:
            break
    assert (shortened, len(made) > len(QUEUES)) == (set(), True)


@pytest.mark.parametrize("after_bytes", [0, 100])
def test_dying_while_opening_loses_nothing_and_says_nothing_else(after_bytes: int) -> None:
    """A store that was closed in order: wherever the next start is killed, readers' offsets stay what they were."""
    for count in itertools.count(1):
        work = Work("ASYNC_FLUSH")
        work.run()
        incarnation = work.bench.store.incarnation
        work.bench.store.close()
        work.bench.disk.stop_at(count, after_bytes=after_bytes)
        try:
            work.bench.open()
        except ProcessDied:
            pass
        else:
            break
        work.bench.kill()
        assert work.bench.store.incarnation == incarnation, f"killed at change {count}"
        work.check(work.answered)
    assert count > 3
