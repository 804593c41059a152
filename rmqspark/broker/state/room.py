"""How many topics and groups a broker may have: what is created by name must not grow without bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NoPermission

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def require_room(kind: str, present: Collection[str], wanted: Iterable[str], most: int, setting: str) -> None:
    """Raises NoPermission where there may not be so many more; those that are there already are none."""
    new = set(wanted).difference(present)
    if new and len(present) + len(new) > most:
        raise NoPermission(
            f"This broker has {len(present)} {kind}; {most} are the most it may have.",
            hint=f"Delete some, or raise {setting}.",
        )
