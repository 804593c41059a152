"""Who this client is to the cluster: the address it is seen at, RocketMQ's client id, and the ids of its messages."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol

from rmqspark.protocol.records.message_id import UniqueIds
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy

LOOPBACK = "127.0.0.1"
_clients = count()  # a forked process goes on counting, under a pid of its own


def local_ip(towards: str) -> str:
    """The address of this machine on the way to host:port `towards`: of IPv6 where no IPv4 leads there, 127.0.0.1 where
    nothing does.

    Connecting a datagram socket sends nothing; it only makes the system choose the interface.
    """
    place = parse_address(towards)
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, UnicodeError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    return LOOPBACK


def client_id(ip: str, clock: Clock, entropy: Entropy) -> str:
    """`ip@pid#time`, as RocketMQ's ClientConfig.buildMQClientId makes it (spec: semantics, section 10).

    Its time is in nanoseconds since the machine began. Ours is made of milliseconds, a number and chance, for two that
    have one id in a group would both read the same queues, and nobody the others. The number tells apart what a process
    makes at once; chance, containers that begin at once: all have pid 1, and on Docker's own networks one address.
    """
    return f"{ip}@{os.getpid()}#{clock.now_ms()}{next(_clients) % 1000:03d}{entropy.below(1_000_000):06d}"


class IdentifiedClient(Protocol):
    """What unique ids are made of; a `ClusterClient` has it."""

    ip: str
    clock: Clock
    entropy: Entropy


class MessageIds:
    """Unique ids for the messages of one producer, whichever thread sends, and in whichever process: one that was
    forked begins anew, or it would give the ids that its parent gives."""

    def __init__(self, client: IdentifiedClient) -> None:
        self._client = client
        self._clock = client.clock
        self._begin()

    def next(self) -> str:
        """A fresh id, 32 upper-case hex characters."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            return self._ids.next(self._clock.now_ms())

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._ids = UniqueIds(self._client.entropy.token(4), os.getpid(), self._client.ip)
        self._pid = os.getpid()
