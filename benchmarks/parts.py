"""The parts of `make bench`, in their order: each measures, and shows what it measured as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import copies
import figures
import first_batch
import latency
import limits
import reads
import shares
import spark_scale
import startup
import stock_clients
import writes
from given import Given


@dataclass(frozen=True)
class Part:
    """`measure` gives what JSON can hold, and `table` is given the same."""

    title: str
    measure: Callable[[Given], Any]
    table: Callable[[Any], str]


def _starts(given: Given) -> list[dict[str, Any]]:
    return [asdict(figure) for figure in startup.measure(given.repeat)]


PARTS = {
    "read": Part("Spark reads a topic, batch", reads.measure, figures.comparisons),
    "stream": Part("Spark reads a topic, micro-batches of 500,000 rows", reads.measure_streams, figures.comparisons),
    "write": Part("Spark writes a topic, batch", writes.measure, figures.comparisons),
    "copy": Part("Topic → Spark → topic, a streaming query", copies.measure, figures.comparisons),
    "latency": Part("Latency of micro-batches at a steady rate", latency.measure, latency.table),
    "limits": Part("The limits, beside our paths", limits.measure, limits.table),
    "first-batch": Part(
        "A cold query's first batch", lambda given: first_batch.measure(given.repeat), first_batch.table
    ),
    "memory": Part("Memory over a large batch", copies.measure_memory, copies.memory_table),
    "scale": Part("Cost of a row, as queues, topics and the store grow", spark_scale.measure, spark_scale.table),
    "shares": Part("More brokers and executors, each with a share of a core", shares.measure, shares.table),
    "clients": Part("RocketMQ's own benchmark clients", stock_clients.measure, stock_clients.table),
    "start": Part("Starting", _starts, startup.table),
}
