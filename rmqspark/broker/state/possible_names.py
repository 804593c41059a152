"""Names in tables of topics and groups that nothing can have here.

RocketMQ's brokers have kept groups by whatever name a client came with, 4.x longer ones than 5, and files are edited by
hand. Such a name must not become a directory. But for one of them a broker that starts, or a slave that follows its
master, does not do without all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from rmqspark.errors import InvalidName
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

log = structlog.get_logger("rmqspark.broker")


class PossibleNames:
    """Those that `check` raises no InvalidName for; each other one is named in the log, once."""

    def __init__(self, check: Callable[[str], str]) -> None:
        self._check = check
        self._impossible = ToldOnce[str](log, "names that nothing can have")

    def of(self, told: Mapping[str, T]) -> dict[str, T]:
        """What a table from outside says, without what it says of others."""
        return {name: each for name, each in told.items() if self._is_possible(name)}

    def _is_possible(self, name: str) -> bool:
        try:
            self._check(name)
        except InvalidName as error:
            if self._impossible.is_news(name):
                log.warning("left out of a table, nothing can be called so", reason=str(error))
            return False
        return True
