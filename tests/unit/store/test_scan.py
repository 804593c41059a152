"""Going through a long log: batches grow with it, and are short again behind damage."""

from __future__ import annotations

import numpy as np
import pytest

from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record_builder import encode_records, patch
from rmqspark.store.log.segment import Segment, SegmentFiles
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.recovery.scan import Damage, LogScan, Records
from rmqspark.testing.memory_files import MemoryFileSystem

MIB = 1 << 20
ROWS, BODY_BYTES = 24_000, 1024  # some 27 MB, in one file


def filled_log() -> tuple[SegmentLog, np.ndarray]:
    """A log with many records, and where they begin."""
    bodies = Column.constant(b"x" * BODY_BYTES, ROWS)
    records, sizes = encode_records("t", 0, bodies, build_properties(ROWS, {}), born_timestamp_ms=1, born_host=bytes(8))
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    patch(
        records,
        positions,
        first_queue_offset=0,
        first_physical_offset=0,
        store_timestamp_ms=1,
        store_host=bytes(8),
    )
    files = MemoryFileSystem()
    log = SegmentLog(files, SegmentFiles(files, 4), "commitlog", 32 * MIB)
    log.write(records.data, 0)
    return log, positions


def scanned(log: SegmentLog, watermark: int) -> list[Records | Damage]:
    return list(LogScan(log, 0, watermark, check_crc=True).run())


def test_batches_grow_with_the_log_up_to_a_bound() -> None:
    log, positions = filled_log()
    found = scanned(log, 0)
    assert all(isinstance(each, Records) for each in found)
    batches = [(each.physical_offset, int(each.batch.sizes.sum())) for each in found if isinstance(each, Records)]
    starts = [offset for offset, _ in batches]
    ends = [offset + size for offset, size in batches]
    assert starts == [0, *ends[:-1]]
    assert set(starts) <= set(positions.tolist())
    lengths = [size for _, size in batches]
    assert lengths[0] <= MIB < lengths[1] <= 2 * MIB < lengths[2] <= 4 * MIB
    assert max(lengths) <= 16 * MIB
    assert len(batches) == 5


def test_damage_costs_the_record_it_is_in_and_batches_are_short_again() -> None:
    log, positions = filled_log()
    row = 20_000
    log.write(b"?", int(positions[row]) + 200)
    end = int(positions[-1] + positions[1])
    found = scanned(log, end)
    (damage,) = [each for each in found if isinstance(each, Damage)]
    assert damage == Damage(int(positions[row]), int(positions[row + 1]))
    behind = [each for each in found if isinstance(each, Records) and each.physical_offset >= damage.end]
    assert behind[0].physical_offset == damage.end
    before = [each for each in found if isinstance(each, Records) and each.physical_offset < damage.start]
    rows = sum(len(each.batch) for each in found if isinstance(each, Records))
    assert rows == ROWS - 1
    assert max(int(each.batch.sizes.sum()) for each in before) > 4 * MIB
    assert int(behind[0].batch.sizes.sum()) <= MIB


@pytest.mark.parametrize("watermark", [0, 32 * MIB])
def test_each_of_many_damaged_records_costs_little(watermark: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends false checksums, one in two, or a disk that rots, does not keep a broker from starting."""
    log, positions = filled_log()
    for row in range(10_000, 12_000, 2):
        log.write(b"?", int(positions[row]) + 200)
    read_bytes = 0
    read, read_into = Segment.read, Segment.read_into

    def counted_read(segment: Segment, at: int, size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += size
        return read(segment, at, size)

    def counted_read_into(segment: Segment, buffer: memoryview, at: int) -> None:
        nonlocal read_bytes
        read_bytes += len(buffer)
        read_into(segment, buffer, at)

    monkeypatch.setattr(Segment, "read", counted_read)
    monkeypatch.setattr(Segment, "read_into", counted_read_into)
    found = scanned(log, watermark)
    assert len([each for each in found if isinstance(each, Damage)]) == 1000 + (watermark > 0)
    assert sum(len(each.batch) for each in found if isinstance(each, Records)) == ROWS - 1000
    assert read_bytes < 150 * MIB
