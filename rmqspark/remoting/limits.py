"""How much a server gives to its clients before it has reason to trust them."""

from __future__ import annotations

from dataclasses import dataclass

from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.settings import check_bounds, setting

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Bounds of one RemotingServer. What exceeds one costs the connection that does it, and nobody else."""

    max_frame_bytes: int = setting(
        MAX_FRAME_BYTES, "longest frame taken; a longer one closes its connection", unit="bytes"
    )
    max_connections: int = setting(16_384, "connections at a time, all clients together")
    max_connections_per_address: int = setting(8_192, "connections at a time from one IP address")
    first_frame_timeout_ms: int = setting(10_000, "time a new connection has for its first whole frame", unit="ms")
    frame_timeout_ms: int = setting(30_000, "time a frame may take from its first byte to its last", unit="ms")
    idle_timeout_ms: int = setting(
        120_000, "silence after which a connection is closed (RocketMQ's serverChannelMaxIdleTimeSeconds)", unit="ms"
    )
    max_buffered_bytes: int = setting(
        512 * _MIB, "memory for incomplete frames, all connections together", unit="bytes"
    )
    max_newcomer_bytes: int = setting(
        64 * _MIB, "the same for connections that have not sent a whole frame yet", unit="bytes"
    )
    outgoing_high_bytes: int = setting(
        4 * _MIB, "unsent answers of a connection above which nothing more is read from it", unit="bytes"
    )
    outgoing_max_bytes: int = setting(
        64 * _MIB, "unsent answers of a connection above which it is closed as too slow", unit="bytes"
    )
    max_unsent_bytes: int = setting(
        512 * _MIB,
        "unsent answers of all connections together, above which those are closed that have waited longest",
        unit="bytes",
    )
    max_waiting_bytes: int = setting(
        512 * _MIB,
        "requests kept until somebody else has answered, a coordinator say, all connections together; more are "
        "answered SYSTEM_BUSY",
        unit="bytes",
    )
    max_requests_under_way: int = setting(
        16_384,
        "requests of a connection that wait for their answer; more are answered SYSTEM_BUSY. Oneway ones that wait are "
        "counted apart: while there are as many, nothing more is read from it",
    )
    max_calls_under_way: int = setting(64, "requests of ours to one client that wait for its answer")
    close_timeout_ms: int = setting(
        3_000, "time that requests under way have to end when the server closes", unit="ms", at_least=0
    )

    def __post_init__(self) -> None:
        check_bounds(self)
