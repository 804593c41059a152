"""The broker's ids of many messages at once; `message_id.py` has what they are, and makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.protocol.records.message_id import IPV4_HOST_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions

_ID: Final = np.dtype([("host", f"V{IPV4_HOST_BYTES}"), ("physical_offset", ">i8")])
_ID_CHARACTERS: Final = 2 * _ID.itemsize + 1  # with the comma


def offset_msg_ids(hosts: bytes | NDArray[np.void], physical_offsets: Positions) -> str:
    """The broker's ids of the records at these offsets, commas between. `hosts` is a host field of 8 bytes, or has one
    for each record."""
    ids = np.empty(len(physical_offsets), _ID)
    ids["host"] = hosts
    ids["physical_offset"] = physical_offsets
    return ids.tobytes().hex(",", _ID.itemsize).upper()


class StoredTogether:
    """Records that were stored together, and their ids: those of all are made when some are asked for, which for many
    batches costs a third of what making those of each does."""

    def __init__(self, physical_offsets: Positions) -> None:
        self.physical_offsets = physical_offsets
        self._host = b""
        self._ids = b""

    def ids(self, host: bytes) -> bytes:
        """Of all, commas between."""
        if self._host != host:
            self._host, self._ids = host, offset_msg_ids(host, self.physical_offsets).encode()
        return self._ids


class StoredRun(NamedTuple):
    """Some of them, one behind the other: `length` of them from the one at `first` on."""

    together: StoredTogether
    first: int
    length: int

    @classmethod
    def of(cls, physical_offsets: Positions) -> StoredRun:
        """Records that nothing else was stored with."""
        return cls(StoredTogether(physical_offsets), 0, len(physical_offsets))

    @property
    def physical_offsets(self) -> Positions:
        return self.together.physical_offsets[self.first : self.first + self.length]

    def ids(self, host: bytes) -> bytes:
        """Their ids, commas between."""
        begin = self.first * _ID_CHARACTERS
        return self.together.ids(host)[begin : begin + self.length * _ID_CHARACTERS - 1]
