"""A flood on a broker that has little memory: it takes what it can, refuses the rest, and stays up."""

from __future__ import annotations

import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import RmqError
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.remoting.address import parse_address

from .load import QUEUES, TOPIC
from .memory_limit import limited, why_not
from .servers import UpProcess, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from rmqspark.model import MessageQueue, SendReceipt

WHY_NOT = why_not()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
SECONDS, SECONDS_OF_A_SOAK = 3, 300
_LIMIT_BYTES = 256 << 20
_MOST_RESIDENT_BYTES = 208 << 20
_MOST_STORED_BYTES = 1 << 30  # for disks have an end, too; readers go on
_FOR_LITTLE_MEMORY = ("--max-unsent-bytes", str(32 << 20), "--max-buffered-bytes", str(32 << 20))
"""As docs/operations.md has it: what waits for clients, and what has come of their frames, all together."""
_SENDERS, _AT_ONCE, _BODY_BYTES = 6, 32, 64 << 10
_GREEDY, _ASKED_AT_ONCE = 8, 200
_PLAIN = SendConfig(retry_times_when_send_failed=0, send_msg_timeout=60_000, compress_msg_body_over_howmuch=0)
_PATIENCE_S = 60


class Flood:
    """Senders that never wait for each other, and readers that ask for everything and take nothing."""

    def __init__(self, server: UpProcess) -> None:
        self.outcomes: Counter[str] = Counter()
        self.places: set[tuple[int, int]] = set()
        self._server = server
        self._ended = Event()

    def run(self, seconds: float) -> None:
        """For so long, and one more message when it is over."""
        with ExitStack() as stack, ThreadPoolExecutor(_SENDERS + _GREEDY) as threads:
            producers = [stack.enter_context(Producer(self._server.namesrv, config=_PLAIN)) for _ in range(_SENDERS)]
            for number, producer in enumerate(producers):  # finds its route while name server and disk are at leisure
                self._note(producer.send_async(_message(), queue=_queue(number)))
            running = [threads.submit(self._send, number, producer) for number, producer in enumerate(producers)]
            running += [threads.submit(self._ask) for _ in range(_GREEDY)]
            self._ended.wait(seconds)
            self._ended.set()
            for one in running:
                one.result(_PATIENCE_S)
            producers[0].send(Message(TOPIC, b"afterwards"))

    def _send(self, number: int, producer: Producer) -> None:
        while not self._ended.is_set() and self.outcomes["ok"] * _BODY_BYTES < _MOST_STORED_BYTES:
            for future in [producer.send_async(_message(), queue=_queue(number)) for _ in range(_AT_ONCE)]:
                self._note(future)

    def _note(self, future: Future[SendReceipt]) -> None:
        try:
            receipt = future.result()
        except RmqError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["ok"] += 1
            self.places.add((receipt.queue.queue_id, receipt.queue_offset))

    def _ask(self) -> None:
        most = 2**31 - 1
        header = BulkReadRequestHeader(TOPIC, 0, 0, 2**62, most, most)
        asked = b"".join(encode_request(RequestCode.RMQ_BULK_READ, 1, header)) * _ASKED_AT_ONCE
        while not self._ended.is_set():
            with socket.create_connection(parse_address(self._server.endpoints["brokers"][0])) as greedy:
                greedy.settimeout(0.5)
                with suppress(OSError):  # nothing is taken from it any more, or it was sent away
                    while not self._ended.is_set():
                        greedy.sendall(asked)


def _message() -> Message:
    return Message(TOPIC, bytes(_BODY_BYTES))


def _queue(sender: int) -> MessageQueue:
    return QUEUES[sender % len(QUEUES)]


@pytest.mark.timeout(3600)
def test_a_flood_in_little_memory(
    tmp_path: Path, amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """256 MiB for all, page cache included: nothing that was acknowledged is missing, and memory stays bounded."""
    with ExitStack() as stack:
        around = stack.enter_context(limited(_LIMIT_BYTES))
        server = stack.enter_context(UpProcess(tmp_path, around))
        server.start("--min-free-bytes", "1", *_FOR_LITTLE_MEMORY)
        server.create_topic(TOPIC, len(QUEUES))
        flood, begin = Flood(server), time.monotonic()
        flood.run(amount(SECONDS, SECONDS_OF_A_SOAK))
        seconds = time.monotonic() - begin
        assert server.is_alive, server.errors[-2000:]
        resident_bytes = peak_bytes(server.process.pid)
        with ClusterClient(server.namesrv, timeout_ms=1000 * _PATIENCE_S) as cluster:
            ends = {queue.queue_id: broker_of(cluster).max_offset(TOPIC, queue.queue_id) for queue in QUEUES}
        assert len(flood.places) == flood.outcomes["ok"]
        assert all(queue_offset < ends[queue_id] for queue_id, queue_offset in flood.places)
        assert "Traceback" not in server.errors
        assert server.stop() == 0
    tell(f"{seconds:.0f} s: {dict(flood.outcomes)}; at most {resident_bytes >> 20} MiB resident")
    assert resident_bytes <= _MOST_RESIDENT_BYTES


def peak_bytes(pid: int) -> int:
    """The most memory a process ever had (Linux)."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
