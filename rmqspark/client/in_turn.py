"""Changes to several things, one after the other, of which one may be refused: it is said with which it is done."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_MOST_NAMED: Final = 4


def in_turn(things: Iterable[T], do: Callable[[T], object], name: Callable[[T], str] = str) -> None:
    """Does it with each. Where that fails the rest is left alone, and the error says in its hint what is done."""
    done: list[T] = []
    for thing in things:
        try:
            do(thing)
        except RmqError as error:
            if done:
                error.hint = f"It is done for {_named(done, name)}, and for nothing behind. {error.hint}".strip()
            raise
        done.append(thing)


def _named(things: list[T], name: Callable[[T], str]) -> str:
    more = f" and {len(things) - _MOST_NAMED:,} more" if len(things) > _MOST_NAMED else ""
    return ", ".join(map(name, islice(things, _MOST_NAMED))) + more
