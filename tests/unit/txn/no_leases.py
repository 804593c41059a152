"""A broker on which no group is shared, as a coordinator knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.client import LeasedQueue


class NoLeases:
    def keep(
        self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue], coordinator: str
    ) -> list[LeasedQueue]:
        """Nobody has one."""
        return []

    async def make_safe(self) -> None:
        """Nothing was committed."""
