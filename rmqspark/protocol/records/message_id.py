"""The two ids of a message, and the host fields they are made of (spec: storage, section 10).

- The *offset id* is the broker's: store host and physical offset in hex, 32 characters (56 with an IPv6 host).
- The *unique id* (property UNIQ_KEY) is the sender's, from RocketMQ's MessageClientIDSetter, 32 hex characters:

      ip4 (4 bytes) | pid (2) | loader hash (4) | milliseconds since the month began (4) | counter (2)

  The first ten bytes belong to the process. The last six are one number here: the millisecond in its upper 32 bits,
  the counter below. It never stands still and never goes back within a month, so a range of it can be given away in
  one piece for a bulk of messages.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import Final

from rmqspark.errors import InvalidArgument

ZERO_HOST: Final = bytes(8)
NO_IP: Final = "0.0.0.0"
"""Stands in records and ids of a broker that has no IPv4 address to name."""
IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
UNIQUE_ID_CHARACTERS: Final = 32
UNIQUE_PREFIX_CHARACTERS: Final = 20

MAX_SEQUENCE: Final = (1 << 48) - 1
"""The highest number of a unique id."""

_COUNTER_BITS: Final = 16


def pack_host(ip: str, port: int) -> bytes:
    """The host field of a record: address and 32-bit port, 8 bytes (IPv4, also when mapped into IPv6) or 20 (IPv6)."""
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        raise InvalidArgument(f"{ip!r} is not an IP address.") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.packed + port.to_bytes(4, "big")


def pack_ipv4_host(ip: str, port: int) -> bytes | None:
    """The same for what may be no IPv4 address, or none at all: None then."""
    try:
        host = pack_host(ip, port)
    except InvalidArgument:
        return None
    return host if len(host) == IPV4_HOST_BYTES else None


def unpack_host(host: bytes) -> tuple[str, int]:
    """Address and port of a host field. Raises InvalidArgument unless it is 8 or 20 bytes long."""
    if len(host) not in (IPV4_HOST_BYTES, IPV6_HOST_BYTES):
        raise InvalidArgument(f"A host field has 8 or 20 bytes, not {len(host)}.")
    return str(ipaddress.ip_address(host[:-4])), int.from_bytes(host[-4:], "big")


def offset_msg_id(host: bytes, physical_offset: int) -> str:
    """The broker's id of the record at `physical_offset` of the store that listens at `host` (a host field)."""
    return (host + physical_offset.to_bytes(8, "big")).hex().upper()


def parse_offset_msg_id(msg_id: str) -> tuple[bytes, int]:
    """Host field and physical offset. Raises InvalidArgument for anything else, unique ids among them.

    A unique id has the same length; it shows by a port that no socket has. RocketMQ's admin tools rely on that too.
    """
    try:
        raw = bytes.fromhex(msg_id)
    except ValueError:
        raw = b""
    host, offset = raw[:-8], int.from_bytes(raw[-8:], "big", signed=True)
    if len(msg_id) != 2 * len(raw) or len(host) not in (IPV4_HOST_BYTES, IPV6_HOST_BYTES):
        raise InvalidArgument(f"{msg_id!r} is not a message id: 32 or 56 hex digits are.")
    if int.from_bytes(host[-4:], "big") > 0xFFFF or offset < 0:
        raise InvalidArgument(
            f"{msg_id!r} does not say where a message is stored.", hint="If it is a unique id, query the topic for it."
        )
    return host, offset


class UniqueIds:
    """Hands out the unique ids of one process.

    `entropy_bytes` (4) stands in for the identity hash of a class loader: it tells apart processes that share address
    and pid. The month is counted in UTC, where RocketMQ takes the local zone; readers only compare ids.
    Belongs to one thread, or to a caller with a lock of its own.
    """

    def __init__(self, entropy_bytes: bytes, pid: int, ip: str) -> None:
        address = pack_host(ip, 0)[:-4]
        if len(entropy_bytes) != 4:
            raise InvalidArgument(f"A unique id takes 4 bytes of entropy, not {len(entropy_bytes)}.")
        # An IPv6 address would make the id 56 characters long; its last four bytes tell processes apart as well.
        self.prefix: Final = (address[-4:] + (pid & 0xFFFF).to_bytes(2, "big") + entropy_bytes).hex().upper()
        self._month_start_ms = 0
        self._month_end_ms = 0
        self._next = 0

    def next(self, now_ms: int) -> str:
        """A fresh id, 32 upper-case hex characters."""
        return unique_id(self.prefix, self.reserve(now_ms, 1))

    def reserve(self, now_ms: int, count: int) -> int:
        """Takes `count` consecutive sequence numbers and returns the first; `unique_keys` turns them into ids."""
        if now_ms >= self._month_end_ms:
            self._month_start_ms, self._month_end_ms = _month_around(now_ms)
            self._next = 0
        elapsed_ms = max(0, now_ms - self._month_start_ms)
        first = max(self._next, elapsed_ms << _COUNTER_BITS)
        self._next = first + count
        return first


def unique_id(prefix: str, sequence: int) -> str:
    """The id of one sequence number (48 bits) under a 20-character prefix."""
    return f"{prefix}{sequence & MAX_SEQUENCE:012X}"


def _month_around(now_ms: int) -> tuple[int, int]:
    start = datetime.fromtimestamp(now_ms // 1000, UTC).replace(day=1, hour=0, minute=0, second=0)
    years, month = divmod(start.month, 12)
    end = start.replace(year=start.year + years, month=month + 1)
    return int(start.timestamp()) * 1000, int(end.timestamp()) * 1000
