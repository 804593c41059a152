"""Whether a slave's log is still its master's: decided before anything is appended. Pure.

A slave that was away may have a tail that its master lost in a power loss, and other messages may lie there now.
RocketMQ appends behind it and never looks. Here the slave asks for its last bytes once more and compares them
(`TailComparison`). Where they differ the tail is cut off at the begin of a record, but only where it is proven that
the two logs were one before: else a wider window is compared, and at last the slave refuses to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_WINDOW_BYTES: Final = 64 << 10
WINDOW_FACTOR: Final = 8
MOST_COMPARED_BYTES: Final = 64 << 20
"""What is compared, and cut off, at most."""


class TailDiffers(RmqError):
    """The master's log is another from physical offset `at` on, or ends there. `at` is `compared_from` where nothing is
    proven to be the same."""

    def __init__(self, at: int, compared_from: int, *, is_end: bool) -> None:
        how = "ends at" if is_end else "differs from"
        super().__init__(f"The master's log {how} {at}, where this slave's goes on.")
        self.at = at
        self.compared_from = compared_from


class LogsDiverged(RmqError):
    """The master's log is not what this slave has a copy of, and nothing is done about it here."""


class Window:
    """How much of the tail is compared with the next connection: more each time that it was not enough."""

    def __init__(self) -> None:
        self._bytes = FIRST_WINDOW_BYTES

    def start(self, log_start: int, log_end: int) -> int:
        """Where comparing begins, and what the slave reports first; 0 only for a log that is empty."""
        if log_end == log_start:
            return log_end
        return max(log_end - self._bytes, log_start, 1)

    def widen(self, log_start: int, log_end: int) -> bool:
        """Whether there is more to compare, and it may be."""
        is_all = self.start(log_start, log_end) == max(log_start, 1)
        if is_all or self._bytes >= MOST_COMPARED_BYTES:
            return False
        self._bytes = min(self._bytes * WINDOW_FACTOR, MOST_COMPARED_BYTES)
        return True

    def reset(self) -> None:
        """The tail was the master's."""
        self._bytes = FIRST_WINDOW_BYTES


class TailComparison:
    """Holds what the master sends, from `position` on, against what the slave has, up to `end`.

    `read` gives bytes of the slave's log by offset and size.
    """

    def __init__(self, position: int, end: int, read: Callable[[int, int], bytes]) -> None:
        self.position = position
        self._begin = position
        self._end = end
        self._read = read
        self._heartbeats = 0  # since bytes came

    @property
    def is_over(self) -> bool:
        """Whether all of the tail is the master's."""
        return self.position >= self._end

    def begin_later(self, position: int) -> None:
        """The master's log begins here: what was before has expired there. Nothing has been compared yet. Raises
        LogsDiverged where it begins behind the slave's, which then has not one byte of it to go on from."""
        if position >= self._end:
            raise LogsDiverged(
                f"The master's log begins at {position}, this slave's ends at {self._end}: "
                "what comes between has expired.",
                hint="Empty this slave's store, and it is copied anew.",
            )
        self._begin = self.position = position

    def take(self, data: bytes) -> bytes:
        """Compares the bytes at `position`; returns those that lie behind the slave's end. Raises TailDiffers."""
        self._heartbeats = 0
        size = min(len(data), self._end - self.position)
        if size <= 0:
            return data
        mine = self._read(self.position, size)
        if mine != data[:size]:
            first = next(at for at in range(size) if mine[at] != data[at])
            raise TailDiffers(self.position + first, self._begin, is_end=False)
        self.position += size
        return data[size:]

    def heartbeat(self) -> None:
        """The master has nothing more to send, if it says so twice: RocketMQ's says it once when it was away for a
        while itself. Raises TailDiffers where the slave has more."""
        self._heartbeats += 1
        if not self.is_over and self._heartbeats > 1:
            raise TailDiffers(self.position, self._begin, is_end=True)


def place_to_cut(differs_at: int, compared_from: int, log_end: int, record_begin: Callable[[int], int]) -> int | None:
    """Where the tail may be cut off; None where that is not proven to be safe: nothing before the record that differs
    was the same, or too much would go. That the record begins as another does proves nothing: many do."""
    begin = record_begin(differs_at)
    if begin <= compared_from or log_end - begin > MOST_COMPARED_BYTES:
        return None
    return begin
