"""Which broker was last found to own each transactional id."""

from __future__ import annotations

from typing import Final

_MOST: Final = 1_000  # the longest unchanged are forgotten


class KnownCoordinators:
    """By transactional id, for all threads of a process. An owner that has changed is told by the one that is asked, or
    is away: then it is looked for anew."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def of(self, transactional_id: str) -> str | None:
        return self._owners.get(transactional_id)

    def note(self, transactional_id: str, broker_name: str) -> None:
        self._owners[transactional_id] = broker_name
        if len(self._owners) > _MOST:
            self._owners.pop(next(iter(self._owners)), None)

    def forget(self, transactional_id: str) -> None:
        self._owners.pop(transactional_id, None)
