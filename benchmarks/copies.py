"""Topic → topic as a streaming query, exactly-once, beside Kafka's connector; and what a large batch takes of memory.

Both are parts of topic_to_topic.py, at the sizes of `make bench`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from figures import Comparison, markdown
from given import LARGE, SMALL
from sides import settings
from spark_paths import session
from topic_to_topic import MANY_PROGRESSES, Bench

if TYPE_CHECKING:
    from given import Given

# In times the rows a second of Kafka's connector, at-least-once, by bytes of a body (issue D).
ASKED = {SMALL: 1.8, LARGE: 2.5}


def measure(given: Given) -> list[dict[str, Any]]:
    """`Trigger.AvailableNow` over all rows of a topic."""
    lines = []
    for size in (SMALL, LARGE):
        with given.memory():
            peer, *ours = _bench(given, size).pipeline_figures()
        lines += [
            Comparison(each.path, size, each, peer, ASKED[size] if "exactly-once" in each.path else None)
            for each in ours
        ]
    return [line.as_json() for line in lines]


def measure_memory(given: Given) -> list[dict[str, Any]]:
    """Peaks of broker and workers over one batch, and over one of a tenth of that."""
    found: list[dict[str, Any]] = _bench(given, SMALL).memory()["results"]
    return found


def memory_table(measured: list[dict[str, Any]]) -> str:
    rows = [
        [f"{way} {line['rows']:,} rows in one batch", *(f"{line[peaks][of] >> 20} MiB" for of in ("broker", "worker"))]
        for line in measured
        for way, peaks in (("write", "peak_bytes"), ("read", "peak_bytes_read"))
    ]
    return markdown(("peak memory", "broker", "largest Python worker"), rows)


def _bench(given: Given, size: int) -> Bench:
    asked = Namespace(
        rows=given.rows_of(size),
        body_bytes=size,
        queues=given.queues,
        repeat=given.repeat,
        timeout=given.timeout,
        memory_rows=given.memory_rows,
    )
    return Bench(session({**settings("kafka"), **MANY_PROGRESSES}), asked)
