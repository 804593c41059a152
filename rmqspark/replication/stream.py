"""What master and slave say to each other, as bytes (spec: storage, section 12).

The slave says how far it has come: 8 bytes, a place in the log. The first of these says where the master is to begin,
0 for a log that is empty. The master sends transfers: where the bytes that follow belong (8), how many (4), and the
bytes. One without any is a heartbeat. Transfers follow each other in the log without a gap, and know nothing of
records. RocketMQ: DefaultHAConnection, DefaultHAClient.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import FrameError
from rmqspark.remoting.tls.session import TLS_HANDSHAKE
from rmqspark.replication.hello import GREETING

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSFER_HEAD: Final = Struct(
    ">q"  # physical offset of the bytes that follow
    "i"  # how many they are
)
REPORT: Final = Struct(">q")  # physical offset
TLS_IS_OFF: Final = "The slave speaks TLS, and there is none here (tls_server_cert_path, ha_tls_enable)."
MOST_TRANSFER_BYTES: Final = (4 << 20) - TRANSFER_HEAD.size  # what RocketMQ's slave takes at a time


class Transfer(NamedTuple):
    """`data` are the bytes of the log from `offset` on; none in a heartbeat."""

    offset: int
    data: bytes


def transfer_head(offset: int, size: int) -> bytes:
    """What goes before so many bytes of the log; with 0, a heartbeat."""
    return TRANSFER_HEAD.pack(offset, size)


def report(offset: int) -> bytes:
    """A slave's word that it has everything below `offset`."""
    return REPORT.pack(offset)


class TransferDecoder:
    """Turns chunks of bytes from a master into transfers. Holds no more than one that is not whole yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[Transfer]:
        """The transfers that are whole now. Raises FrameError for one that no master sends."""
        self._buffer += chunk
        at, transfers = 0, []
        for transfer in self._whole():
            transfers.append(transfer)
            at += TRANSFER_HEAD.size + len(transfer.data)
        del self._buffer[:at]
        return transfers

    def _whole(self) -> Iterator[Transfer]:
        at, end = 0, len(self._buffer)
        while at + TRANSFER_HEAD.size <= end:
            offset, size = TRANSFER_HEAD.unpack_from(self._buffer, at)
            if offset < 0 or not 0 <= size <= MOST_TRANSFER_BYTES:
                raise FrameError(f"A master sends {size} bytes of the log for {offset}.")
            at += TRANSFER_HEAD.size
            if at + size > end:
                return
            yield Transfer(offset, bytes(memoryview(self._buffer)[at : at + size]))
            at += size


class ReportDecoder:
    """Turns chunks of bytes from a slave into its reports."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> list[int]:
        """The reports that are whole now, oldest first. Raises FrameError for one that is negative."""
        self._buffer += chunk
        whole = len(self._buffer) // REPORT.size * REPORT.size
        reports = [offset for (offset,) in REPORT.iter_unpack(self._buffer[:whole])]
        self._buffer = self._buffer[whole:]
        for offset in reports:
            if offset < 0 or offset >> 56 == TLS_HANDSHAKE:
                raise FrameError(_no_report(offset))
        return reports


def _no_report(offset: int) -> str:
    if offset >> 56 == TLS_HANDSHAKE:
        return TLS_IS_OFF
    if REPORT.pack(offset) == GREETING:
        return "The slave wants to say who it is, and nobody is asked for it here (ha_authentication_enabled)."
    return f"A slave reports {offset}."
