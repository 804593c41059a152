"""Who this client is to the cluster: the address it is seen at, and RocketMQ's client id."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.clock import Clock

LOOPBACK = "127.0.0.1"


def local_ip(towards: str) -> str:
    """The IPv4 address of this machine on the way to host:port `towards`, 127.0.0.1 if there is none.

    Connecting a datagram socket sends nothing; it only makes the system choose the interface.
    """
    host, _, port = towards.rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK


def client_id(ip: str, clock: Clock) -> str:
    """`ip@pid#time`, as RocketMQ's ClientConfig.buildMQClientId makes it (spec: semantics, section 10)."""
    return f"{ip}@{os.getpid()}#{clock.now_ms()}{clock.monotonic_ms() % 1_000_000:06d}"
