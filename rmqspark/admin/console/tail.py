"""The newest messages of a topic as they come: the newest first, so many of them, and how many came since. Pure but for
reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from rmqspark.admin.schemas.messages import MessageView

MOST_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class Tail:
    """`came` counts those that came with the newest look; `is_full`: older ones have gone from the list; `is_behind`:
    that look found nothing that was known, so that there may be some between that were not seen."""

    messages: tuple[MessageView, ...] = ()
    came: int = 0
    is_full: bool = False
    is_behind: bool = False

    def joined(self, newest: Sequence[MessageView], most: int = MOST_ROWS) -> Tail:
        """With these, the newest first, of which some may be known."""
        known = {_place(each) for each in self.messages}
        fresh = [each for each in newest if _place(each) not in known]
        both = (*fresh, *self.messages)
        is_behind = bool(self.messages) and len(fresh) == len(newest) > 0
        return Tail(both[:most], len(fresh), self.is_full or len(both) > most, is_behind)


class Tailing:
    """Joins what each look finds, also where one overtakes another on another thread."""

    def __init__(self, newest: Callable[[], Sequence[MessageView]]) -> None:
        self._newest = newest
        self._tail = Tail()
        self._lock = Lock()

    def look(self) -> Tail:
        newest = self._newest()
        with self._lock:
            self._tail = self._tail.joined(newest)
            return self._tail


def _place(message: MessageView) -> tuple[str, int, int]:
    return message.broker_name, message.queue_id, message.queue_offset
