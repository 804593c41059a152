"""What a message costs when a store grows, when topics multiply, and what a restart after SIGKILL takes.

    python benchmarks/scale.py --messages 100000 1000000 5000000 20000000 --topics 1 10 100 1000

Server processor time per message (system's share included), so that what else the machine does matters little. Stores
are filled with bulk sends of 128-byte bodies with unique ids; then 100,000 single sends over 64 connections, 4 deep,
and up to 2 million messages read by one PullConsumer from the middle of the store are measured: a consumer of many
queues reads up to 64 MB ahead, which must be little beside what it hands out. At 5 million messages the
broker is killed with SIGKILL, and timed from its start to the first acknowledged send. Prints each figure when it is
there, and in the end two tables and JSON. Topics have names as long as each other; `send_ragged_us` is of as many
others with names of four lengths. The whole takes about three minutes on two quiet cores, and 7 GB of disk in the
directory for temporary files (TMPDIR).
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spark_paths import endpoint
from zlib_ng.zlib_ng import crc32

from rmqspark.cli.bench.cpu import ServerCpu
from rmqspark.cli.bench.frames import SendFrame
from rmqspark.cli.bench.load import Lane, SendLoad
from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record_builder import encode_records
from rmqspark.protocol.records.unique_keys import unique_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BODY_BYTES = 128
BULK_ROWS = 4096
CONNECTIONS, DEPTH = 64, 4
SENDS, READS = 100_000, 2_000_000
RESTART_AT = 5_000_000
FIRST_OPAQUE = 10_000  # clients count their requests: those of one that has run for a while have as many digits each


class Servers:
    """`rmq up` over a store, and what is measured of it."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.start()

    def start(self) -> None:
        endpoints = self._store / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        ports = ["--namesrv-port", "0", "--broker-port", "0", "--no-admin"]
        command = [sys.executable, "-m", "rmqspark", "up", "--store", str(self._store), *ports]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.namesrv = endpoint(endpoints, self.process)
        self.broker = json.loads(endpoints.read_text())["brokers"][0]
        self.cpu = ServerCpu([self.broker])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(60)

    def cpu_seconds(self) -> float:
        return self.cpu.seconds() or 0.0

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def servers() -> Iterator[Servers]:
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as store:
        running = Servers(Path(store))
        try:
            yield running
        finally:
            running.stop()


def create_topics(namesrv: str, topics: Sequence[str], queues: int) -> None:
    with AdminClient(namesrv) as admin:
        for topic in topics:
            admin.create_topic(topic, queues)


def fill(namesrv: str, queues: Sequence[MessageQueue], first: int, count: int) -> None:
    """Stores messages number `first` to `first + count - 1`, in bulks, queue after queue."""
    bodies = Column.constant(b"x" * BODY_BYTES, BULK_ROWS)
    with ClusterClient(namesrv) as client:
        for number in range(first, first + count, BULK_ROWS):
            queue = queues[number // BULK_ROWS % len(queues)]
            rows = min(BULK_ROWS, first + count - number)
            keys = unique_keys("7F0000011F9018B4AAC2", np.arange(number, number + rows))
            part = Column(bodies.values, bodies.offsets[: rows + 1])
            properties = build_properties(rows, {"UNIQ_KEY": keys})
            records = encode_records(
                queue.topic, queue.queue_id, part, properties, born_timestamp_ms=number, born_host=bytes(8)
            )
            broker, size = client.broker(queue.broker_name), int(records.sizes[0])
            sending = broker.bulk_send(
                queue.topic, queue.queue_id, [records.buffer.data], rows, size, crc32(records.buffer)
            )
            sending.result()


def send_cost_us(running: Servers, queues: Sequence[MessageQueue]) -> float:
    """Server time of one of 100,000 single sends, spread over these queues."""
    each = max(DEPTH, -(-len(queues) // CONNECTIONS))
    stamp, now_ms = time.monotonic_ns() & 0xFFFFFFFFFFFF, time.time_ns() // 1_000_000
    lanes = []
    for number in range(CONNECTIONS):
        mine = [queues[(number * each + at) % len(queues)] for at in range(each)]
        run = f"{stamp:012X}{number:08X}"
        frames = [SendFrame(queue, FIRST_OPAQUE + at, 1, BODY_BYTES, run, now_ms) for at, queue in enumerate(mine)]
        lanes.append(Lane(running.broker, frames))
    load = SendLoad(lanes, 1)
    try:
        load.run(DEPTH, lambda messages, _: messages >= SENDS // 10)
        before = running.cpu_seconds()
        done = load.run(DEPTH, lambda messages, _: messages >= SENDS)
        return (running.cpu_seconds() - before) / done.messages * 1e6
    finally:
        load.close()


def read_cost_us(running: Servers, queues: Sequence[MessageQueue]) -> float:
    """Server time of one of 2 million messages (or as many as there are) read from the middle of the queues."""
    with ClusterClient(running.namesrv) as client, PullConsumer(running.namesrv) as consumer:
        consumer.assign(queues)
        for queue in queues:
            end = client.broker(queue.broker_name).max_offset(queue.topic, queue.queue_id)
            consumer.seek(queue, end // 2)
        before, messages = running.cpu_seconds(), 0
        while messages < READS and (batch := consumer.poll(timeout_ms=200)):
            messages += len(batch)
        return (running.cpu_seconds() - before) / messages * 1e6


def restart_seconds(running: Servers, topic: str) -> float:
    """From the start of a broker whose last life ended by SIGKILL to its first acknowledged send."""
    running.stop(signal.SIGKILL)
    begun = time.perf_counter()
    running.start()
    with Producer(running.namesrv) as producer:
        producer.send(Message(topic, b"first"))
    return time.perf_counter() - begun


def by_store_size(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    with servers() as running:
        create_topics(running.namesrv, ["grown"], 8)
        with AdminClient(running.namesrv) as admin:
            queues = admin.queues("grown")
        stored = 0
        for size in sorted(sizes):
            fill(running.namesrv, queues, stored, size - stored)
            stored = size
            result: dict[str, Any] = {"messages": size, "resident_mb": round(running.resident_mb())}
            if size == RESTART_AT:
                result["restart_seconds"] = round(restart_seconds(running, "grown"), 2)
            result["read_us"] = round(read_cost_us(running, queues), 2)
            result["send_us"] = round(send_cost_us(running, queues), 2)
            yield result


def by_topics(counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    for count in counts:
        with servers() as running:
            queues = new_queues(running, [f"topic-{number:06}" for number in range(count)])
            fill(running.namesrv, queues, 0, 1_000 * BULK_ROWS)
            result = {
                "topics": count,
                "read_us": round(read_cost_us(running, queues), 2),
                "send_us": round(send_cost_us(running, queues), 2),
            }
            if count > 1:
                ragged = new_queues(running, [f"topic-{number:0{7 + number % 4}}" for number in range(count)])
                fill(running.namesrv, ragged, 0, count * BULK_ROWS)
                result["send_ragged_us"] = round(send_cost_us(running, ragged), 2)
            yield {**result, "resident_mb": round(running.resident_mb())}


def new_queues(running: Servers, topics: Sequence[str]) -> list[MessageQueue]:
    """One of each of these topics, which are new."""
    create_topics(running.namesrv, topics, 1)
    return [MessageQueue(topic, "broker-a", 0) for topic in topics]


def table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown, a row a size."""
    names = list(dict.fromkeys(name for result in results for name in result))
    rows = [[f"{result[name]:,}" if name in result else "" for name in names] for result in results]
    lines = [[f"`{name}`" for name in names], ["---:"] * len(names), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="*", default=[100_000, 1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--topics", type=int, nargs="*", default=[1, 10, 100, 1_000])
    arguments = parser.parse_args()
    series = []
    for measured in (by_store_size(arguments.messages), by_topics(arguments.topics)):
        series.append([])
        for result in measured:
            print("  ".join(f"{name} {value:,}" for name, value in result.items()), flush=True)
            series[-1].append(result)
    for results in filter(None, series):
        print(table(results))
    print(json.dumps([result for results in series for result in results]))


if __name__ == "__main__":
    main()
