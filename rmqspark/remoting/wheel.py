"""One timer for all connections of a server.

The idea: a connection's deadline moves with every byte it sends, but only the passing of time can make it due. So
traffic never touches the wheel; it only notes the current tick in the connection. The wheel visits a connection when
the deadline it knew of has come, and the connection says then whether it is due or when to come again. A visit per
connection and deadline is all the work there is, however busy the connection.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """What a wheel can carry."""

    def check(self, now: int) -> int | None:
        """Does what is due at tick `now`; the tick at which to be checked again, or None for never."""


T = TypeVar("T", bound=Timed)


class TimerWheel(Generic[T]):
    """Items in a ring of slots, one for each tick. A deadline beyond the ring is visited early and put off."""

    def __init__(self, slots: int = 256) -> None:
        self._slots: list[dict[T, None]] = [{} for _ in range(slots)]
        self.now = 0
        """The current tick."""

    def add(self, item: T, at: int) -> None:
        """Carries an item until tick `at`, at the earliest the next one."""
        latest = self.now + len(self._slots) - 1
        self._slots[min(max(at, self.now + 1), latest) % len(self._slots)][item] = None

    def advance(self) -> None:
        """Moves on by one tick and checks what has come due. Raises what a check does; whoever was not checked for that
        is with the next tick."""
        self.now += 1
        slot = self.now % len(self._slots)
        due, self._slots[slot] = list(self._slots[slot]), {}
        for number, item in enumerate(due):
            try:
                again = item.check(self.now)
            except BaseException:
                for unchecked in due[number:]:
                    self.add(unchecked, self.now + 1)
                raise
            if again is not None:
                self.add(item, again)
