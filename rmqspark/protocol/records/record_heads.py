"""A record's head as a NumPy type: the layout of `record.py`, said to NumPy. Shared by reading and writing in bulk."""

from __future__ import annotations

from typing import Final

import numpy as np

from rmqspark.protocol.records import record as layout

_FIELDS: Final = (
    ("size", ">i4", layout.SIZE_AT),
    ("magic", ">u4", layout.MAGIC_AT),
    ("body_crc", ">u4", layout.BODY_CRC_AT),
    ("queue_id", ">i4", layout.QUEUE_ID_AT),
    ("flag", ">i4", layout.FLAG_AT),
    ("queue_offset", ">i8", layout.QUEUE_OFFSET_AT),
    ("physical_offset", ">i8", layout.PHYSICAL_OFFSET_AT),
    ("sys_flag", ">i4", layout.SYS_FLAG_AT),
    ("born_timestamp", ">i8", layout.BORN_TIMESTAMP_AT),
    ("born_host", "V8", layout.BORN_HOST_AT),
    ("store_timestamp", ">i8", layout.STORE_TIMESTAMP_AT),
    ("store_host", "V8", layout.STORE_HOST_AT),
    ("reconsume_times", ">i4", layout.RECONSUME_TIMES_AT),
    ("prepared_offset", ">i8", layout.PREPARED_OFFSET_AT),
    ("body_length", ">i4", layout.BODY_LENGTH_AT),
)
HEAD: Final = np.dtype(
    {
        "names": [name for name, _, _ in _FIELDS],
        "formats": [form for _, form, _ in _FIELDS],
        "offsets": [at for _, _, at in _FIELDS],
        "itemsize": layout.HEAD_BYTES,
    }
)
"""A head with IPv4 hosts, 88 bytes."""

FIELD_AT: Final = {name: at for name, _, at in _FIELDS}
"""Where each field stands; IPv6 hosts move those behind them."""
