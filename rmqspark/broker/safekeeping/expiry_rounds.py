"""Lets go of the log what has had its time, but nothing that a transaction still needs, also after a power loss.

A slave does not know what that is. It keeps what its master has, by whose looks that is kept, as long as its disk lets
it: made the master, it goes on from there.

What transactions need no more by events that are not on disk is needed until they are. So each round goes by an
earlier look at what they need, once the log is on disk up to where it ended then, and by all looks since: meanwhile
something may have been voted for. A disk that takes long delays what goes, and a queue that is damaged where something
waits keeps it all; neither delays the look at how full the disk is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqspark.errors import FlushTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.clock import Clock
    from rmqspark.store.expiry import ExpireReport
    from rmqspark.store.message_store import MessageStore

_ROUNDS_AT_ANY_HOUR: Final = 20


class Disk(Protocol):
    """What is asked of the flusher."""

    async def flushed(self, end_offset: int) -> None:
        """Returns when the log is on disk up to `end_offset`. Raises FlushTimeout."""


class _Look(NamedTuple):
    """What was needed when the log ended at `end_offset`, or is since if that is more; physical offsets."""

    end_offset: int
    needed_offset: int


class ExpiryRounds:
    """`needed_offset` says from which physical offset on transactions need the log, as things are now; `spared_offset`
    from which on a slave's master may have it still, None of a master."""

    def __init__(
        self,
        store: MessageStore,
        disk: Disk,
        needed_offset: Callable[[], int],
        clock: Clock,
        spared_offset: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._store = store
        self._disk = disk
        self._needed_offset = needed_offset
        self._clock = clock
        self._spared_offset = spared_offset
        self._look: _Look | None = None  # the one to go by next
        self._rounds_at_any_hour = 0

    def ignore_the_hour(self) -> None:
        """In the next rounds what has expired goes, whatever `delete_when` says."""
        self._rounds_at_any_hour = _ROUNDS_AT_ANY_HOUR

    async def run(self) -> ExpireReport:
        """One round. Raises OSError, NotWritable, DamagedFile; how full the disk is has been looked at by then."""
        self._store.look_at_disk(self._clock.now_ms())
        look = self._look_again()
        with suppress(FlushTimeout):
            await self._disk.flushed(look.end_offset)
        look = self._look_again()
        keep_from = 0
        if look.end_offset <= self._store.flushed_offset:
            keep_from, self._look = look.needed_offset, None
        at_any_hour = self._rounds_at_any_hour > 0
        self._rounds_at_any_hour -= at_any_hour
        return self._store.expire(
            self._clock.now_ms(), keep_from=keep_from, spare_from=self._spared_offset(), at_any_hour=at_any_hour
        )

    def _look_again(self) -> _Look:
        needed_offset = self._needed_offset()
        look = self._look or _Look(self._store.end_offset, needed_offset)
        self._look = look._replace(needed_offset=min(look.needed_offset, needed_offset))
        return self._look
