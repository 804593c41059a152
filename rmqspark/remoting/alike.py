"""Requests that are as long as each other, gathered over all connections of a server in one turn of its loop.

Where hundreds come in a turn, as sends do, most that is to be done for one is the same for all. Whoever can do it for
all of them is handed their bytes (`TakesTogether`), before any is decoded. It takes them all, or they are handled one
by one.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rmqspark.remoting.server_connection import ServerConnection

LEAST_TOGETHER = 96
"""Below, what has to be done once costs more than it saves."""


class Alike(NamedTuple):
    """Requests of one connection that came in one read, and nothing else in that; counted in its `under_way`."""

    word: int
    """The header word of each."""
    frame_bytes: int
    """The length of each."""
    total: int
    frames: bytes
    connection: ServerConnection


class TakesTogether(Protocol):
    """Whoever handles many requests at once."""

    words: Container[int]
    """The header words of requests that may be gathered."""

    def take_together(self, requests: Sequence[Alike]) -> bool:
        """Takes all these requests, as long as each other and with the same header word, in this order, and will
        answer them; or none of them."""


_shape_of = attrgetter("word", "frame_bytes")


def by_shape(requests: Sequence[Alike]) -> Iterator[list[Alike]]:
    """Those that may be handled together. No connection comes twice, so that none's order is lost."""
    for _, alike in groupby(sorted(requests, key=_shape_of), _shape_of):
        yield list(alike)
