"""Compressed bodies: their reader inflates them, never the broker (spec: remoting, section 9).

What a sender says of a body need not be true: it may be no stream at all, cut short, or swell without end. Who may send
to a topic could so stop all who read it, at one message and for ever. Such a body is handed out as it is stored: it is
the sender's, and what it is good for is for those to find out whom it was sent to.
"""

from __future__ import annotations

import logging
from typing import Final

from rmqspark.errors import RecordError
from rmqspark.protocol.names import MAX_BODY_BYTES
from rmqspark.protocol.records.compression import decompress
from rmqspark.protocol.records.record import SysFlag

# A body that a producer compressed may have been larger than what this broker takes as it is.
MAX_INFLATED_BYTES: Final = 4 * MAX_BODY_BYTES

_log = logging.getLogger(__name__)


def inflated(body: bytes, sys_flag: int) -> bytes:
    """The body as its sender gave it; as it is stored, where it does not inflate to at most MAX_INFLATED_BYTES."""
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    try:
        return decompress(body, sys_flag, MAX_INFLATED_BYTES)
    except RecordError as error:
        _tell(sys_flag & SysFlag.COMPRESSION_MASK, error)
        return body


def _tell(kind: int, error: RecordError) -> None:
    """There may be very many: the first of each kind is told of."""
    if kind not in _told:
        _told.add(kind)
        _log.warning("%s Its body, and others like it, are handed out as they are stored.", error)


_told: Final[set[int]] = set()
