"""When half batches begin their way to the disk, so that the vote's fsync finds little to do. Pure.

After so many bytes, then after twice as many, and so on: few fsyncs for a large batch. Of small ones too little would
be left for the vote to wait for, were the first not small; so each vote begins anew.
"""

from __future__ import annotations

from typing import Final

_FIRST_BYTES: Final = 512 << 10
_MOST_BYTES: Final = 16 << 20


class WriteBack:
    """Counts what was written and has not been told to go yet."""

    def __init__(self) -> None:
        self._bytes = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """A vote has waited for the disk."""
        self._due_at_bytes = _FIRST_BYTES

    def is_due(self, written_bytes: int) -> bool:
        """So much more was written: whether it is time, until the next."""
        self._bytes += written_bytes
        if self._bytes < self._due_at_bytes:
            return False
        self._bytes = 0
        self._due_at_bytes = min(2 * self._due_at_bytes, _MOST_BYTES)
        return True
