"""What the message store costs: appending in bulk and one by one, reading, recovering.

    python benchmarks/store_paths.py --rows 4096 --body-bytes 100

Processor time of this process, the system's share included, the best of several runs; what the disk does later is not
in it. The files lie in a temporary directory and are gone afterwards. Messages come in shapes, by their properties:

    unique    UNIQ_KEY alone
    equal     TAGS, KEYS and UNIQ_KEY, values of one length
    tags      TAGS of four lengths, and UNIQ_KEY
    varied    TAGS and KEYS of several lengths, and UNIQ_KEY
    mixed     the same, every third message without KEYS
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_builder import EncodedRecords, encode_records
from rmqspark.protocol.records.unique_keys import unique_keys
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "TopicTest"
HOST = pack_host("127.0.0.1", 10911)
SHAPES = ("unique", "equal", "tags", "varied", "mixed")
EVERYTHING = 1 << 40
RUNS = 7


def column(values: list[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))


def messages(shape: str, rows: int, body_bytes: int, queue_id: int = 0, first: int = 0) -> EncodedRecords:
    """One bulk, in a buffer of its own."""
    numbers = range(first, first + rows)
    singles: dict[str, Column] = {}
    if shape == "equal":
        singles["TAGS"] = column([b"tag%d" % (number % 7) for number in numbers])
    elif shape != "unique":
        singles["TAGS"] = column([(b"order", b"refund", b"payment", b"x")[number % 4] for number in numbers])
    if shape not in ("unique", "tags"):
        smallest = 10_000_000 if shape == "equal" else 0
        absent = 3 if shape == "mixed" else EVERYTHING
        singles["KEYS"] = column(
            [b"" if number % absent == 2 else b"order-%d" % (smallest + number * 7919 % 100_003) for number in numbers]
        )
    singles["UNIQ_KEY"] = unique_keys("7F0000011F9018B4AAC2", np.arange(first, first + rows))
    properties = build_properties(rows, singles)
    bodies = column([bytes(body_bytes)] * rows)
    return encode_records(TOPIC, queue_id, bodies, properties, born_timestamp_ms=1, born_host=HOST)


def drafts(count: int, body_bytes: int) -> list[Draft]:
    """What single sends make: one tick."""
    made = []
    for number in range(count):
        key = f"7F0000011F9018B4AAC2{number:012X}"
        properties = encode_properties({"TAGS": "order", "UNIQ_KEY": key})
        record = encode_record(topic=TOPIC, queue_id=0, body=bytes(body_bytes), properties=properties, born_host=HOST)
        made.append(Draft(TOPIC, 0, record, 106006350, (key,)))
    return made


@contextmanager
def opened(*, index: bool) -> Iterator[tuple[MessageStore, str]]:
    """A new store, and where it is; closed and gone at the end."""
    with tempfile.TemporaryDirectory(prefix="rmqspark-bench-") as directory:
        store = open_again(directory, index=index)
        yield store, directory
        store.close()


def open_again(directory: str, *, index: bool) -> MessageStore:
    config = StoreConfig(message_index_enable=index, mapped_file_size_commit_log=1 << 28)
    files = PosixFileSystem(directory)
    return MessageStore.open(
        "store", config, files=files, clock=SystemClock(), entropy=SystemEntropy(), store_host=HOST
    )


def best_ns(work: Callable[[], object], messages_per_run: int) -> float:
    """Processor time a message, of the best run."""
    work()
    costs = []
    for _ in range(RUNS):
        started = time.process_time_ns()
        work()
        costs.append(time.process_time_ns() - started)
    return min(costs) / messages_per_run


def measure_bulk(shape: str, rows: int, body_bytes: int, *, index: bool) -> float:
    bulks = [messages(shape, rows, body_bytes, first=rows * number) for number in range(4)]
    with opened(index=index) as (store, _):

        def append_all() -> None:
            for bulk in bulks:
                store.append_bulk(TOPIC, 0, bulk.buffer, bulk.sizes)

        return best_ns(append_all, rows * len(bulks))


def measure_singles(tick: int, body_bytes: int) -> float:
    made, ticks = drafts(tick, body_bytes), max(1, 1024 // tick)
    with opened(index=True) as (store, _):

        def append_all() -> None:
            for _ in range(ticks):
                store.append(made)

        return best_ns(append_all, tick * ticks)


def measure_reads(rows: int, body_bytes: int) -> Iterator[tuple[str, float]]:
    for name, queues, bulk_rows in (("one queue", 1, rows), ("eight queues, message by message", 8, 1)):
        total = rows * 4
        with opened(index=False) as (store, _):
            for number in range(total // bulk_rows):
                bulk = messages("equal", bulk_rows, body_bytes, number % queues, number * bulk_rows)
                store.append_bulk(TOPIC, number % queues, bulk.buffer, bulk.sizes)

            def read_all(store: MessageStore = store, count: int = total // queues) -> None:
                store.read_bulk(TOPIC, 0, 0, EVERYTHING, max_count=count, max_bytes=EVERYTHING)

            def read_newest(store: MessageStore = store, newest: int = total // queues - 1) -> None:
                for _ in range(256):
                    store.read(TOPIC, 0, newest, max_count=32, max_bytes=EVERYTHING)

            yield f"read_bulk, {name}", best_ns(read_all, total // queues)
            yield f"read the newest message, {name}", best_ns(read_newest, 256)


def measure_recovery(rows: int, body_bytes: int, *, index: bool) -> float:
    """Opening after a kill, from the log's beginning: the checkpoint is gone."""
    costs = []
    with opened(index=index) as (store, directory):
        for number in range(8):
            bulk = messages("equal", rows, body_bytes, first=rows * number)
            store.append_bulk(TOPIC, 0, bulk.buffer, bulk.sizes)
        for _ in range(3):
            store.close()
            (Path(directory) / "store" / "abort").touch()
            (Path(directory) / "store" / "checkpoint").unlink()
            started = time.process_time_ns()
            store = open_again(directory, index=index)
            costs.append(time.process_time_ns() - started)
        store.close()
    return min(costs) / (rows * 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096, help="messages of a bulk")
    parser.add_argument("--body-bytes", type=int, default=100)
    given = parser.parse_args()
    print(f"{'ns a message':52}{'no index':>10}{'index':>10}")
    for shape in SHAPES:
        without, indexed = (measure_bulk(shape, given.rows, given.body_bytes, index=index) for index in (False, True))
        print(f"append_bulk, {shape:39}{without:10.0f}{indexed:10.0f}")
    for tick in (1, 8, 64, 512):
        print(f"append, {tick:3} a tick{'':45}{measure_singles(tick, given.body_bytes):10.0f}")
    for name, cost in measure_reads(given.rows, given.body_bytes):
        print(f"{name:52}{cost:10.0f}")
    without, indexed = (measure_recovery(given.rows, given.body_bytes, index=index) for index in (False, True))
    print(f"{'recovery of the whole log':52}{without:10.0f}{indexed:10.0f}")


if __name__ == "__main__":
    main()
