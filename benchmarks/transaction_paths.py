"""What half batches cost the store: holding them, and making messages of them.

    python benchmarks/transaction_paths.py --rows 5000 --body-bytes 100

Processor time of this process, the best of several runs, beside that of a plain bulk send of the same messages. System
calls (the copies into and out of the page cache) are told apart, for they depend on how full that is. `hold` is what a
HALF request costs behind its header: checksum, checks, one write. `complete` is a transaction of eight half batches:
read, patch, write, queue entries (and keys, with the index). Shapes as in store_paths.py.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from store_paths import SHAPES, TOPIC, messages, opened
from zlib_ng.zlib_ng import crc32

from rmqspark.clock import SystemClock
from rmqspark.protocol.bulk.bulk_body import records_in
from rmqspark.store.appending.bulk_check import check_bulk
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_batch import Batch, HalfBatch, HalfName
from rmqspark.txn.participant.half_store import HalfStore
from rmqspark.txn.participant.participant import Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.store.message_store import MessageStore

HALVES = 8
RUNS = 25
CALLS = ("pwrite", "pwritev", "pread", "preadv")
MAX_BODY_BYTES = 4 << 20


class Cost(NamedTuple):
    """Nanoseconds a message."""

    own: float
    in_calls: float


class Meter:
    """Processor time of a piece of work, that spent in system calls on files apart."""

    def __init__(self) -> None:
        self.best: dict[str, tuple[int, int]] = {}
        self._in_calls = 0
        for name in CALLS:
            setattr(os, name, self._metered(getattr(os, name)))

    def run(self, name: str, work: Callable[[], None]) -> None:
        self._in_calls, started = 0, time.thread_time_ns()
        work()
        own = time.thread_time_ns() - started - self._in_calls
        best = self.best.get(name, (own, self._in_calls))
        self.best[name] = min(best[0], own), min(best[1], self._in_calls)

    def cost(self, name: str, rows: int) -> Cost:
        own, in_calls = self.best[name]
        return Cost(own / rows, in_calls / rows)

    def _metered(self, call: Callable[..., object]) -> Callable[..., object]:
        def metered(*arguments: object) -> object:
            started = time.thread_time_ns()
            result = call(*arguments)
            self._in_calls += time.thread_time_ns() - started
            return result

        return metered


class Writing:
    """One store, and the three ways of writing the same bulk into it eight times."""

    def __init__(self, store: MessageStore, bulk: EncodedRecords) -> None:
        self._store = store
        self._bulk = bulk
        self._rows = len(bulk.sizes)
        is_even = bool((bulk.sizes == bulk.sizes[0]).all())
        self._record_size = int(bulk.sizes[0]) if is_even else 0
        ahead = b"" if is_even else bulk.sizes.astype(">i4").tobytes()
        self._body = memoryview(bytearray(ahead + bulk.buffer.tobytes()))
        self._participant = Participant(max_halves=1 << 30, max_bytes=1 << 60)
        self._halves = HalfStore(store, SystemClock())
        self._completer = Completer(
            self._participant, self._halves, check_target=lambda _topic, _queue_id: None, broker_name="broker-a"
        )
        self.version = 0

    def bulk_send(self) -> None:
        for _ in range(HALVES):
            self._store.append_bulk(TOPIC, 0, self._bulk.buffer, self._bulk.sizes)

    def hold(self) -> None:
        for sequence in range(HALVES):
            half = HalfBatch(
                HalfName(self._batch, 0, "a", sequence),
                TOPIC,
                0,
                self._rows,
                self._record_size,
                len(self._body),
                crc32(self._body),
            )
            self._participant.find(half)
            self._participant.admit(half)
            records = records_in(self._body, self._rows, self._record_size)
            check_bulk(records, TOPIC, 0, MAX_BODY_BYTES)
            half = half._replace(has_tags=records.has_any_property((b"TAGS",)))
            self._participant.hold(self._halves.put(half, self._body))

    def complete(self) -> None:
        completion = self._completer.begin(self._batch, [(0, "a")])
        for _ in self._completer.steps(completion):
            pass
        self._completer.end(completion)

    @property
    def _batch(self) -> Batch:
        return Batch("spark-1", 1, self.version)


def measure(meter: Meter, shape: str, rows: int, body_bytes: int, *, index: bool) -> dict[str, Cost]:
    meter.best = {}
    with opened(index=index) as (store, _):
        writing = Writing(store, messages(shape, rows, body_bytes))
        for writing.version in range(RUNS):
            meter.run("bulk send", writing.bulk_send)
            meter.run("hold", writing.hold)
            meter.run("complete", writing.complete)
    return {name: meter.cost(name, rows * HALVES) for name in meter.best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000, help="messages of a half batch")
    parser.add_argument("--body-bytes", type=int, default=100)
    given = parser.parse_args()
    meter = Meter()
    print(f"{'ns a message (+ in system calls)':34}{'no index':>16}{'index':>16}")
    for shape in SHAPES:
        costs = [measure(meter, shape, given.rows, given.body_bytes, index=index) for index in (False, True)]
        for name in costs[0]:
            columns = "".join(f"{cost[name].own:9.0f} + {cost[name].in_calls:4.0f}" for cost in costs)
            print(f"{name + ', ' + shape:34}{columns}")


if __name__ == "__main__":
    main()
