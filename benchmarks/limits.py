"""What Spark, its bridge to Python and the machine allow at all, beside our paths.

The bridge is measured with a Python source that hands out one Arrow batch again and again, and a Python sink that drops
what it gets (spark_paths.py). The raw file holds the very records that a topic of these rows does: its path is one
process that has their bytes copied to it, and looks at none.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from figures import Usage, markdown, rate, result
from given import SMALL
from spark_paths import Bench, encoded_records, servers, session
from turns import Way, in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from given import Given

RAW = "ceiling: the raw file, one process"
# What is asked of our paths at 100 bytes, in rows a second (issue A).
ASKED = {"read body, queueId, queueOffset": 2_000_000, "read all columns": 900_000, "write": 1_500_000}
_READ_BYTES = 1 << 20


def measure(given: Given) -> list[dict[str, Any]]:
    """Every path in every turn, so that ours and its ceiling are paired."""
    with ExitStack() as stack:
        stack.enter_context(given.memory())
        namesrv = stack.enter_context(servers(None))
        bench = Bench(session(), namesrv, given.rows, SMALL, given.queues)
        bench.create_topics(given.repeat + 2)
        bench.fill()
        ways = [_way(bench, name, run) for name, run in bench.paths().items()]
        ways.append(stack.enter_context(_raw_file(given.rows)))
        return [result(figure) for figure in in_turns(ways, given.repeat, given.timeout)]


def _way(bench: Bench, name: str, run: Callable[[], None]) -> Way:
    """Reads are of the topic that was counted when it was filled, or of rows that nobody wrote."""
    return Way(name, bench.rows, lambda _: run(), lambda _: bench.count_last() if name == "write" else bench.rows)


@contextmanager
def _raw_file(rows: int) -> Iterator[Way]:
    records = encoded_records(1_000, SMALL)
    with tempfile.TemporaryFile(prefix="rmq-bench-", buffering=0) as file:
        for _ in range(-(-rows // 1_000)):
            file.write(records.buffer)
        chunk, read = memoryview(bytearray(_READ_BYTES)), [0]

        def run(_: str) -> None:
            file.seek(0)
            read[0] = 0
            while size := file.readinto(chunk):
                read[0] += size

        record_bytes = records.buffer.nbytes // 1_000
        yield Way(RAW, rows, run, lambda _: min(rows, read[0] // record_bytes))


def table(measured: list[dict[str, Any]]) -> str:
    rows = []
    for line in measured:
        asked = f"≥ {ASKED[line['path']] / 1e6:g} M" if line["path"] in ASKED else ""
        rows.append([line["path"], rate(line), asked, *(f"{line['us_a_row'][of]:.2f}" for of in Usage._fields)])
    return markdown(("path, 100 B", "rows/s", "asked for", "Spark's JVM, µs a row", "Python", "broker"), rows)
