"""What a slave did not believe of what its master sent.

On its way a bit may flip, but not the same one twice: what comes a second time as it came the first is what the master
has.
"""

from __future__ import annotations

from typing import Final

from rmqspark.errors import RecordError

MOST_BYTES: Final = 32 << 20  # no record is longer


class Doubtful(RecordError):
    """Whether a record came damaged, or is so with the master, a second look at the same place tells, at once."""


class Doubt:
    """About the bytes of a log from one place on, the newest that there was."""

    def __init__(self) -> None:
        self._begin, self._kept = -1, b""

    def is_about(self, physical_offset: int) -> bool:
        """Whether that place has been doubted already."""
        return physical_offset == self._begin

    def about(self, why: RecordError, physical_offset: int, data: bytes) -> RecordError:
        """Keeps what has come from there on, and returns what is to be raised: a look is worth it at once where there
        is more to compare than before."""
        is_worth_it = physical_offset != self._begin or len(self._kept) < len(data) <= MOST_BYTES
        self._begin, self._kept = physical_offset, data[:MOST_BYTES]
        return Doubtful(why.message, hint=why.hint) if is_worth_it else why

    def reaches(self, physical_offset: int) -> bool:
        """Whether something is kept of what lies there."""
        return self._begin <= physical_offset < self._begin + len(self._kept)

    def confirms(self, physical_offset: int, data: bytes) -> bool:
        """Whether all of `data` came before as it comes now."""
        at = physical_offset - self._begin
        return at >= 0 and self._kept[at : at + len(data)] == data

    def settle(self, physical_offset: int) -> None:
        """Lets go of what is kept, where all of it is in front of this place."""
        if physical_offset >= self._begin + len(self._kept):
            self._begin, self._kept = -1, b""
