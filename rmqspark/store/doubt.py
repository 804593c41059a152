"""What a slave did not believe of what its master sent.

On its way a bit may flip, but not the same one twice: what comes a second time as it came the first is what the master
has.
"""

from __future__ import annotations

from typing import Final

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import as_bytes

MOST_BYTES: Final = 32 << 20  # no record is longer


class Doubtful(RecordError):
    """Whether a record came damaged, or is so with the master, a second look at the same place tells, at once."""


class Doubt:
    """About the bytes of a log from one place on, the newest that there was."""

    def __init__(self) -> None:
        self._begin, self._kept = -1, b""

    def about(self, why: RecordError, physical_offset: int, data: bytes) -> RecordError:
        """Keeps what has come from there on, and returns what is to be raised."""
        is_first = physical_offset != self._begin
        self._begin, self._kept = physical_offset, data[:MOST_BYTES]
        return Doubtful(why.message, hint=why.hint) if is_first else why

    def confirmed_bytes(self, physical_offset: int, data: bytes) -> int:
        """How many bytes of `data`, from its first on, came before as they come now."""
        at = physical_offset - self._begin
        if not 0 <= at < len(self._kept):
            return 0
        count = min(len(data), len(self._kept) - at)
        differs = as_bytes(data)[:count] != as_bytes(self._kept)[at : at + count]
        return int(differs.argmax()) if differs.any() else count

    def settle(self, physical_offset: int) -> None:
        """Lets go of what is kept, where all of it is in front of this place."""
        if physical_offset >= self._begin + len(self._kept):
            self._begin, self._kept = -1, b""
