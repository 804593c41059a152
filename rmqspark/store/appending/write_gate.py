"""Whether the store takes messages now, and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NotWritable, RmqError

if TYPE_CHECKING:
    from types import TracebackType


class WriteGate:
    """Shut for a while (a full disk), or for good: after a failed fsync nobody can say what is on disk, and calling it
    again would prove nothing (reliability, G6).

    As a context it is what an append happens in once the log has been written: what fails there unforeseen, for want
    of memory as a rule, leaves messages in the log that have no place in their queue, so it is shut for good.
    """

    def __init__(self) -> None:
        self._refusal: NotWritable | None = None
        self._for_good = False
        self._reservation: NotWritable | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, OSError | RmqError):
            reason = f"A message was stored by half: {type(error).__name__}."
            self.shut_for_good(reason, "Start the broker again: it finds what is there.")

    @property
    def is_open(self) -> bool:
        return self._refusal is None

    @property
    def refusal(self) -> str:
        """Why it is shut; "" while it is open."""
        return "" if self._refusal is None else self._refusal.message

    @property
    def has_failed(self) -> bool:
        """Whether it is shut for good."""
        return self._for_good

    def check(self, *, makes_room: bool = False, from_master: bool = False) -> None:
        """Raises NotWritable while the gate is shut; to what is written so that room can be made, only for good. In a
        slave's store it is shut to all but what comes from its master."""
        if self._reservation is not None and not from_master:
            raise NotWritable(self._reservation.message, hint=self._reservation.hint)
        if self._refusal is not None and (self._for_good or not makes_room):
            raise NotWritable(self._refusal.message, hint=self._refusal.hint)

    def reserve_for_master(self, reason: str, hint: str) -> None:
        """From now on nothing is written but what a master sent."""
        self._reservation = NotWritable(reason, hint=hint)

    def shut(self, reason: str, hint: str = "") -> None:
        """Refuses writes until `open`."""
        if not self._for_good:
            self._refusal = NotWritable(reason, hint=hint)

    def shut_for_good(self, reason: str, hint: str = "") -> None:
        """Refuses writes until the store is opened again."""
        self.shut(reason, hint)
        self._for_good = True

    def open(self) -> None:
        if not self._for_good:
            self._refusal = None
