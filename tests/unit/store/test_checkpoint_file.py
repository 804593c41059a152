"""The checkpoint file: whatever is torn, it says what was written last or what it was to say next."""

from __future__ import annotations

from errno import EIO
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.store.checkpoint import CHECKPOINT_BYTES, PATH, Checkpoint, CheckpointFile
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem

_LONGEST_WRITE_BYTES = 200


class _Write(NamedTuple):
    """One whose `call`-th write to the file is cut off after so many bytes; 0: none is."""

    checkpoint: Checkpoint
    call: int = 0
    after_bytes: int = 0
    is_death: bool = True
    is_last: bool = True
    """Of its process, if it was refused."""


@st.composite
def _checkpoints(draw: st.DrawFn) -> Checkpoint:
    watermark = draw(st.sampled_from([0, 1, 255, 256, 0x0102_0304, 0x7F_FFFF]) | st.integers(0, 1 << 50))
    return Checkpoint(
        *draw(st.tuples(*[st.integers(0, 1 << 41)] * 3)),
        watermark=watermark,
        recovery_offset=draw(st.integers(0, watermark)),
        entries_total=draw(st.integers(0, 1 << 20)),
        is_sealed=True,
    )


_writes = st.builds(
    _Write, _checkpoints(), st.integers(0, 3), st.integers(0, _LONGEST_WRITE_BYTES), st.booleans(), st.booleans()
)


class _Disk:
    """A checkpoint file, and the process that has it open."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.file = CheckpointFile(self.disk)

    def reopen(self) -> Checkpoint:
        self.disk.kill()
        self.file = CheckpointFile(self.disk)
        return self.file.current

    def write(self, write: _Write) -> bool:
        """Whether it went well. A process that died in it has come back."""
        if write.call and write.is_death:
            self.disk.stop_at(write.call, after_bytes=write.after_bytes, counted={"pwrite"})
        elif write.call:
            self.disk.fail_at(write.call, OSError(EIO, "no"), after_bytes=write.after_bytes, counted={"pwrite"})
        try:
            self.file.write(write.checkpoint)
        except ProcessDied:
            self.reopen()
            return False
        except OSError:
            return False
        finally:
            self.disk.heal()
        return True

    def rocketmq_comes(self, confirmed: int, stored_ms: int = 1_700_000_000_000) -> None:
        """It changes the store times and confirmPhyOffset, and nothing else."""
        file = self.disk.open(PATH)
        file.pwrite(stored_ms.to_bytes(8, "big") * 3, 0)
        file.pwrite(confirmed.to_bytes(8, "big"), 32)
        file.close()


@given(writes=st.lists(_writes, min_size=1, max_size=8))
def test_a_torn_checkpoint_is_the_old_or_the_new_one(writes: list[_Write]) -> None:
    """Wherever writes are cut off, and however often: what counts is the last whole one, or one begun since."""
    bench, first = _Disk(), Checkpoint(1, 2, 3, watermark=90, recovery_offset=80, is_sealed=True)
    assert bench.write(_Write(first))
    possible = [first]
    for write in writes:
        possible = [write.checkpoint] if bench.write(write) else [*possible, write.checkpoint]
        if write.is_last:
            assert bench.reopen() in possible
            possible = [bench.file.current]


@given(writes=st.lists(_writes, max_size=4), ours=_writes, flip=st.integers(0, 7))
def test_what_rocketmq_wrote_is_not_taken_for_a_torn_one(writes: list[_Write], ours: _Write, flip: int) -> None:
    """Its file has the seal of ours and its copies, and does not count; nor do they once ours is cut off after it."""
    bench = _Disk()
    known = [Checkpoint(watermark=90, is_sealed=True), *(write.checkpoint for write in writes)]
    for write in [_Write(known[0]), *writes]:
        bench.write(write)
    taken = {checkpoint.watermark.to_bytes(8, "big")[flip] for checkpoint in known}
    bench.rocketmq_comes(next(byte for byte in range(256) if byte not in taken) << 8 * (7 - flip) & (1 << 63) - 1)
    assert not bench.reopen().is_sealed
    bench.write(ours)
    assert bench.reopen() == ours.checkpoint or not bench.file.current.is_sealed


def test_a_write_cut_off_after_rocketmq_does_not_bring_back_ours() -> None:
    """It ends where RocketMQ's last change is, and what is behind that was written before RocketMQ came."""
    bench, before = _Disk(), Checkpoint(watermark=90, entries_total=1, is_sealed=True)
    bench.write(_Write(before))
    bench.rocketmq_comes(1 << 56 | 90)
    assert not bench.reopen().is_sealed
    bench.write(_Write(before._replace(entries_total=2), call=1, after_bytes=33))
    assert not bench.file.current.is_sealed


def test_rocketmq_may_write_what_ours_wrote_before() -> None:
    """Where one record came between two checkpoints, it begins where the log ended at the first."""
    bench = _Disk()
    for watermark in (256, 512):
        bench.write(_Write(Checkpoint(7, 7, 7, watermark=watermark, recovery_offset=256, is_sealed=True)))
    bench.rocketmq_comes(256, stored_ms=7)
    assert not bench.reopen().is_sealed


@pytest.mark.parametrize("after_bytes", [0, 8, 40, 95, 100])
def test_a_checkpoint_torn_and_cut_off_by_a_power_loss(after_bytes: int) -> None:
    """All of it lies in one sector: a power loss takes all changes since the last sync, or none."""
    bench = _Disk()
    old, new = Checkpoint(watermark=255, is_sealed=True), Checkpoint(watermark=256, is_sealed=True)
    bench.write(_Write(old))
    bench.file.sync()
    bench.write(_Write(new, call=2, after_bytes=after_bytes))
    bench.disk.crash()
    assert CheckpointFile(bench.disk).current == old
    assert bench.disk.open(PATH).size() == CHECKPOINT_BYTES


@pytest.mark.parametrize("operation", ["truncate", "sync_directory"])
def test_what_could_not_be_opened_is_not_locked(operation: str) -> None:
    """Whoever made room for it opens it, in the same process, too."""
    disk = MemoryFileSystem()
    disk.fail_next(operation, OSError(EIO, "no"))
    with pytest.raises(OSError, match="no"):
        CheckpointFile(disk)
    disk.heal()
    assert CheckpointFile(disk).current == Checkpoint()
