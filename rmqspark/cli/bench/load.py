"""A load generator: many connections on one thread, each with a fixed number of sends under way.

Sockets (`wire`) and epoll around requests that are encoded already (`frames`). Answers are told apart by their frames
and looked at only as far as "stored" begins. Where several sends of a connection are under way, an answer is taken for
that of the oldest, so latencies of a server that answers out of order are those of the sends as a whole, not of each.
"""

from __future__ import annotations

import selectors
from array import array
from collections import deque
from struct import Struct
from time import perf_counter_ns, process_time
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.cli.bench.wire import TIMEOUT_S, wire_to
from rmqspark.errors import ConnectionLost, RequestTimeout

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from rmqspark.cli.bench.frames import SendFrame
    from rmqspark.errors import RmqError
    from rmqspark.remoting.access import Tls

_LENGTH: Final = Struct(">I").unpack_from
_HEADER_AT: Final = 8  # behind the length of the frame and its own
_STORED: Final = b'{"code":0,'


class LoadResult(NamedTuple):
    """What a load came to: messages stored or read, how long it took, how long each request that was not refused, or
    poll that gave some; our own time on a processor; refusals, and what one of them says; bytes of bodies read."""

    messages: int
    seconds: float
    latencies_ns: array[int]
    cpu_seconds: float
    refused: int = 0
    refusal: RmqError | None = None
    body_bytes: int = 0


class Lane:
    """One connection and its requests, as many of them as may be under way."""

    def __init__(self, address: str, frames: Sequence[SendFrame], tls: Tls | None = None) -> None:
        self.address = address
        self._frames = deque(frames)
        self._sent_ns: deque[int] = deque()
        self._rest = b""
        self._refusal = b""
        self._wire = wire_to(address, tls)

    def send(self, requests: int, number: int) -> None:
        """Sends so many more requests, numbered from `number` on."""
        frames, parts = self._frames, []
        for request in range(number, number + requests):
            parts.append(frames[0].numbered(request))
            frames.rotate(-1)
        self._sent_ns.extend([perf_counter_ns()] * requests)
        try:
            self._wire.send(parts[0] if requests == 1 else b"".join(parts))
        except OSError as error:
            raise self._broken(error) from error

    def receive(self, latencies_ns: array[int]) -> tuple[int, int]:
        """Takes what has come; returns the number of answers, and how many of them are refusals: what is not done has
        no time that it took."""
        try:
            chunk = self._wire.receive()
        except OSError as error:
            raise self._broken(error) from error
        if chunk is None:
            raise ConnectionLost(f"{self.address} closed a connection.", address=self.address)
        now_ns = perf_counter_ns()
        data = self._rest + chunk if self._rest else chunk
        at = answers = refusals = 0
        total = len(data)
        while at + 4 <= total and (end := at + 4 + _LENGTH(data, at)[0]) <= total:
            sent_ns = self._sent_ns.popleft()
            if data.startswith(_STORED, at + _HEADER_AT):
                latencies_ns.append(now_ns - sent_ns)
            else:
                refusals += 1
                self._refusal = data[at + 4 : end]
            answers += 1
            at = end
        self._rest = data[at:]
        return answers, refusals

    @property
    def refusal(self) -> RmqError | None:
        """What the last answer that is one stands for."""
        if not self._refusal:
            return None
        from rmqspark.protocol.commands.command import decode_command, split_frame
        from rmqspark.protocol.faults import from_response

        command = decode_command(split_frame(self._refusal))
        return from_response(command.code, command.remark)

    @property
    def socket(self) -> socket.socket:
        return self._wire.socket

    @property
    def under_way(self) -> int:
        return len(self._sent_ns)

    def close(self) -> None:
        self._wire.close()

    def _broken(self, error: OSError) -> ConnectionLost:
        """The system does not say whose connection broke; and a pipe that is broken is no reader of ours that left."""
        return ConnectionLost(f"A connection to {self.address} broke: {error.strerror or error}.", address=self.address)


class SendLoad:
    """Lanes kept busy until it is enough."""

    def __init__(self, lanes: Sequence[Lane], messages_per_request: int) -> None:
        self._lanes = lanes
        self._per_request = messages_per_request
        self._number = 0
        self._selector = selectors.DefaultSelector()
        for lane in lanes:
            self._selector.register(lane.socket, selectors.EVENT_READ, lane)

    def run(self, depth: int, is_enough: Callable[[int, int], bool]) -> LoadResult:
        """Keeps `depth` requests under way on each lane until `is_enough(messages, nanoseconds)`; then waits for those
        that are. Raises RequestTimeout where no answer comes for ten seconds."""
        latencies_ns = array("q")
        began_ns, began_cpu = perf_counter_ns(), process_time()
        answered = refused = 0
        for lane in self._lanes:
            self._send(lane, depth)
        is_ending = False
        while True:
            ready = self._selector.select(TIMEOUT_S)
            if not ready:
                raise RequestTimeout(f"No answer to any send for {TIMEOUT_S} s.")
            is_ending = is_ending or is_enough(answered * self._per_request, perf_counter_ns() - began_ns)
            for key, _ in ready:
                answers, refusals = key.data.receive(latencies_ns)
                answered += answers
                refused += refusals
                if answers and not is_ending:
                    self._send(key.data, answers)
            if is_ending and not any(lane.under_way for lane in self._lanes):
                break
        seconds = (perf_counter_ns() - began_ns) / 1e9
        stored = (answered - refused) * self._per_request
        refusal = next((said for lane in self._lanes if (said := lane.refusal)), None)
        return LoadResult(stored, seconds, latencies_ns, process_time() - began_cpu, refused, refusal)

    def close(self) -> None:
        self._selector.close()
        for lane in self._lanes:
            lane.close()

    def _send(self, lane: Lane, requests: int) -> None:
        lane.send(requests, self._number)
        self._number += requests
