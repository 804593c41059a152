"""Requests gathered over all connections of a server in one turn of its loop.

Where hundreds come in a turn, as sends do, most that is to be done for one is the same for all. Whoever can do it for
all of them is handed their bytes (`TakesTogether`), before any is decoded. It takes them all, or they are handled one
by one.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rmqspark.remoting.request import Connection

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from numpy.typing import NDArray

LEAST_TOGETHER = 96
"""Below, what has to be done once costs more than it saves."""


class Gatherer(Connection, Protocol):
    """A connection whose requests may be gathered."""

    gathered: bool
    """Whether some of its requests wait for the end of the turn."""

    def work_off_alone(self, requests: Gathered) -> None:
        """Handles these requests of its own, one by one."""


class Gathered(NamedTuple):
    """Requests of one connection that came in one read, and nothing else in that; counted in its `under_way`."""

    word: int
    """The header word of each; 0 where they differ in it, or in length."""
    frame_bytes: int
    """The length of each; 0 in the same case."""
    sizes: Sequence[int]
    """The length of each, in any case; so many are they."""
    frames: bytes
    connection: Gatherer


class TakesTogether(Protocol):
    """Whoever handles many requests at once."""

    words: Container[int]
    """The header words of requests that may be gathered."""

    def take_together(self, requests: Sequence[Gathered]) -> bool:
        """Takes all these requests, in this order, and will answer them; or none of them. No connection comes twice."""


_shape_of = attrgetter("word", "frame_bytes")


def by_shape(requests: Sequence[Gathered]) -> Iterator[list[Gathered]]:
    """Those that are as long as each other and have the same header word, and then the others. No connection comes
    twice, so that none's order is lost."""
    for _, alike in groupby(sorted(requests, key=_shape_of, reverse=True), _shape_of):
        yield list(alike)


def are_alike(requests: Sequence[Gathered]) -> bool:
    """Whether all of them are as long as each other and have the same header word."""
    first = _shape_of(requests[0])
    return first != (0, 0) and all(_shape_of(gathered) == first for gathered in requests)


def hosts_of(requests: Sequence[Gathered]) -> NDArray[np.void] | None:
    """The address that each request has come from, as records have it; None where one of them is not IPv4."""
    hosts = [gathered.connection.ipv4_host for gathered in requests]
    if None in hosts:
        return None
    return np.repeat(np.array(hosts, "V8"), [len(gathered.sizes) for gathered in requests])


def answer_alike(requests: Sequence[Gathered], answers: bytes, answer_bytes: int) -> None:
    """Gives each connection its own of these answers, which are as long as each other and back to back."""
    begin = 0
    for gathered in requests:
        count = len(gathered.sizes)
        end = begin + count * answer_bytes
        gathered.connection.answer(answers[begin:end], count)
        begin = end


def answer_each(requests: Sequence[Gathered], answers: Sequence[bytes]) -> None:
    """Gives each connection its own of these answers, which are in the order of the requests."""
    begin = 0
    for gathered in requests:
        end = begin + len(gathered.sizes)
        gathered.connection.answer(b"".join(answers[begin:end]), end - begin)
        begin = end


def without_frames(requests: Sequence[Gathered]) -> list[Gathered]:
    """What answers need of requests that are done."""
    return [gathered._replace(frames=b"") for gathered in requests]


def close_unanswered(requests: Sequence[Gathered]) -> None:
    """Ends the connections of requests that are done, where memory ran out while they were answered: nobody can say who
    has been told."""
    for gathered in requests:
        gathered.connection.close("there is no memory for its answers")
