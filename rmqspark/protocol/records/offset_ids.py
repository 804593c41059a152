"""The broker's ids of many messages at once; `message_id.py` has what they are, and makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.records.message_id import IPV4_HOST_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions

_ID: Final = np.dtype([("host", f"V{IPV4_HOST_BYTES}"), ("physical_offset", ">i8")])


def offset_msg_ids(hosts: bytes | NDArray[np.void], physical_offsets: Positions) -> str:
    """The broker's ids of the records at these offsets, commas between. `hosts` is a host field of 8 bytes, or has one
    for each record."""
    ids = np.empty(len(physical_offsets), _ID)
    ids["host"] = hosts
    ids["physical_offset"] = physical_offsets
    return ids.tobytes().hex(",", _ID.itemsize).upper()
