"""Compressed bodies: their reader inflates them, never the broker (spec: remoting, section 9)."""

from __future__ import annotations

from rmqspark.protocol.names import MAX_BODY_BYTES
from rmqspark.protocol.records.compression import decompress
from rmqspark.protocol.records.record import SysFlag

# A body that a producer compressed may have been larger than what this broker takes as it is.
MAX_INFLATED_BYTES = 4 * MAX_BODY_BYTES


def inflated(body: bytes, sys_flag: int) -> bytes:
    """The body as its sender gave it. RecordError for one that is broken, or larger than MAX_INFLATED_BYTES."""
    return decompress(body, sys_flag, MAX_INFLATED_BYTES) if sys_flag & SysFlag.COMPRESSED else body
