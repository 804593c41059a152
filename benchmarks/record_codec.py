"""What records cost in bulk: nanoseconds a record for reading, checking and writing whole buffers of them.

    python benchmarks/record_codec.py --body-bytes 100 --chunk-bytes 1000000

Once with records of one length, once with bodies and keys of differing lengths. Processor time, the best of several
runs: other work on the machine disturbs it little.
"""

from __future__ import annotations

import argparse
import time
import timeit
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.java_hash import java_hash_spans
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import encode_records, patch
from rmqspark.protocol.records.unique_keys import unique_keys

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
PREFIX = "7F0000011F9018B4AAC2"


def column(rows: list[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(rows), np.uint8), np.cumsum([0, *map(len, rows)]))


def best_ns(work: Callable[[], object], records: int, *, runs: int = 9, loops: int = 30) -> float:
    work()
    return min(timeit.repeat(work, timer=time.process_time, number=loops, repeat=runs)) / loops / records * 1e9


def decode_everything(buffer: np.ndarray, sizes: np.ndarray) -> None:
    batch = RecordBatch.from_sizes(buffer, sizes)
    _ = batch.queue_ids, batch.queue_offsets, batch.physical_offsets, batch.flags, batch.sys_flags
    _ = batch.born_timestamps_ms, batch.store_timestamps_ms, batch.reconsume_times
    _ = batch.bodies, batch.topics
    for name in (b"TAGS", b"KEYS", b"UNIQ_KEY"):
        batch.property_spans(name)


def measure(body_bytes: int, chunk_bytes: int, *, equal: bool) -> dict[str, float]:
    rows = max(1, chunk_bytes // (body_bytes + 165))
    lengths = (
        np.full(rows, body_bytes)
        if equal
        else np.random.default_rng(1).integers(body_bytes // 2, body_bytes * 3 // 2, rows)
    )
    bodies = column([bytes(length) for length in lengths.tolist()])
    singles = {
        "TAGS": column([b"tag%d" % (row % 7) for row in range(rows)]),
        "KEYS": column([b"order-%d" % (row + 10_000 * equal) for row in range(rows)]),
        "UNIQ_KEY": unique_keys(PREFIX, np.arange(rows)),
    }
    properties = build_properties(rows, singles)
    crcs = body_crcs(bodies.values, bodies.spans())
    out = np.empty(2 * chunk_bytes, np.uint8)

    def encode() -> tuple[np.ndarray, np.ndarray]:
        return encode_records(
            "TopicTest", 3, bodies, properties, born_timestamp_ms=1, born_host=HOST, crcs=crcs, out=out
        )

    buffer, sizes = (part.copy() for part in encode())
    batch = RecordBatch.from_sizes(buffer, sizes)
    tags = batch.property_spans(b"TAGS")

    def patch_all() -> None:
        patch(
            buffer,
            batch.positions,
            first_queue_offset=0,
            first_physical_offset=0,
            store_timestamp_ms=1,
            store_host=HOST,
        )

    works: dict[str, Callable[[], object]] = {
        "check, sizes given": lambda: RecordBatch.from_sizes(buffer, sizes).check(),
        "find sizes (scan)": lambda: RecordBatch.scan(buffer),
        "one field": lambda: batch.queue_offsets,
        "all fields, bodies, three properties": lambda: decode_everything(buffer, sizes),
        "maps of properties": lambda: RecordBatch.from_sizes(buffer, sizes).property_pairs(),
        "Java hash of tags": lambda: java_hash_spans(buffer, *tags),
        "body checksums": lambda: body_crcs(buffer, batch.bodies),
        "patch": patch_all,
        "encode": encode,
        "build three properties": lambda: build_properties(rows, singles),
        "unique ids": lambda: unique_keys(PREFIX, np.arange(rows)),
    }
    return {name: best_ns(work, rows) for name, work in works.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description="What records cost in bulk.")
    arguments.add_argument("--body-bytes", type=int, default=100)
    arguments.add_argument("--chunk-bytes", type=int, default=1_000_000)
    given = arguments.parse_args()
    equal, differing = (measure(given.body_bytes, given.chunk_bytes, equal=equal) for equal in (True, False))
    print(f"{'ns a record':40}{'equal':>10}{'differing':>12}")
    for name, cost in equal.items():
        print(f"{name:40}{cost:10.1f}{differing[name]:12.1f}")


if __name__ == "__main__":
    main()
