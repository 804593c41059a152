"""Thousands of clients that lost their broker and all come back the moment it is there again."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.protocol.bodies.client import HeartbeatData, ProducerData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.headers.consume import HeartbeatRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.remoting.address import parse_address
from rmqspark.testing.fuzz.canary import TOPIC, Canary
from rmqspark.testing.fuzz.victim import Victim, waited_seconds
from rmqspark.testing.ports import reserved_port

from .crowd import room_for_sockets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="epoll, and ports that are kept"),
]
CLIENTS: Final = 1_000
CLIENTS_OF_A_SOAK: Final = 5_000
ALL_SERVED_S: Final = 10.0
_PATIENCE_S: Final = 120
_BODY: Final = b"back again"


class Herd:
    """`count` clients, each of which says who it is and sends a message, as soon as its connection is there."""

    def __init__(self, address: str, count: int) -> None:
        self.codes: Counter[int] = Counter()
        self._address = parse_address(address)
        self._count = count
        self._poll = select.epoll()
        self._clients: dict[int, tuple[socket.socket, FrameDecoder, bytes]] = {}

    def come_back(self) -> float:
        """Returns when all have both their answers: after how many seconds."""
        begin = time.monotonic()
        for number in range(self._count):
            self._call(_requests(number))
        while self._clients and time.monotonic() < begin + _PATIENCE_S:
            for descriptor, events in self._poll.poll(1):
                self._go_on(descriptor, events)
        took_s = time.monotonic() - begin
        for client, _, _ in self._clients.values():
            client.close()
        self._poll.close()
        return took_s

    def _call(self, requests: bytes) -> None:
        client = socket.socket()
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect(self._address)
        self._clients[client.fileno()] = client, FrameDecoder(), requests
        self._poll.register(client, select.EPOLLOUT)

    def _go_on(self, descriptor: int, events: int) -> None:
        client, decoder, requests = self._clients[descriptor]
        if events & select.EPOLLOUT:
            assert client.send(requests) == len(requests)
            self._poll.modify(client, select.EPOLLIN)
        else:
            chunk = client.recv(1 << 16)
            assert chunk, "a client was sent away"
            answers = [decode_command(split_frame(frame)) for frame in decoder.feed(chunk)]
            self.codes.update(answer.code for answer in answers)
            if any(answer.opaque == 2 for answer in answers):
                self._hang_up(client)

    def _hang_up(self, client: socket.socket) -> None:
        self._poll.unregister(client)
        del self._clients[client.fileno()]
        client.close()


def _requests(number: int) -> bytes:
    """A heartbeat and a send."""
    heartbeat = HeartbeatData(f"client-{number}", [ProducerData("herd")], []).encode()
    header = SendMessageRequestHeaderV2(
        a="herd", b=TOPIC, c="TBW102", d=4, e=0, f=0, g=1, h=0, i="", j=0, k=False, m=False
    )
    return b"".join(
        (
            *encode_request(RequestCode.HEART_BEAT, 1, HeartbeatRequestHeader(), heartbeat),
            *encode_request(RequestCode.SEND_MESSAGE_V2, 2, header, _BODY),
        )
    )


@pytest.mark.timeout(3_600)
def test_thousands_come_back_at_once(
    tmp_path: Path, amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """A broker is killed and started: 5,000 clients connect, register and send in the same moment, and all of them are
    served within ten seconds, but for those in which others have the processors."""
    count = min(amount(CLIENTS, CLIENTS_OF_A_SOAK), room_for_sockets())
    with reserved_port(-2) as port:
        flags = ("--broker-port", str(port), "--max-connections-per-address", str(2 * count))
        with Victim(tmp_path, *flags) as victim, Canary(victim.namesrv) as canary:
            canary.sing()
        (victim.store / "endpoints.json").unlink()  # of the one that was killed
        with Victim(tmp_path, *flags) as victim:
            cpu_s, waited_s = victim.cpu_seconds(), victim.waited_seconds() + waited_seconds()
            herd = Herd(victim.broker, count)
            took_s = herd.come_back()
            cpu_s, waited_s = victim.cpu_seconds() - cpu_s, victim.waited_seconds() + waited_seconds() - waited_s
            assert herd.codes == {ResponseCode.SUCCESS: 2 * count}
            assert victim.complaints() == []
    tell(
        f"{count} clients at once: all served after {took_s:.1f} s, {waited_s:.1f} s of waiting for a "
        f"processor in it; {1000 * cpu_s / count:.2f} ms of the broker each"
    )
    assert took_s - waited_s <= ALL_SERVED_S
