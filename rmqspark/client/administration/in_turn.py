"""Changes to several things, one after the other, of which one may be refused: it is said with which it is done."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from rmqspark.errors import RmqError
from rmqspark.words import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

_MOST_NAMED: Final = 4


def in_turn(things: Iterable[T], do: Callable[[T], object], name: Callable[[T], str] = str) -> None:
    """Does it with each. Where that fails the rest is left alone, and the error says what is done."""
    with telling_what_is_done() as done:
        for thing in things:
            do(thing)
            done.append(name(thing))


@contextmanager
def telling_what_is_done() -> Iterator[list[str]]:
    """Around such changes: an error that ends them says with which it is done, as they are named in the list. It is a
    fact, and stands in the message: what is recorded of a change that fails is that."""
    done: list[str] = []
    try:
        yield done
    except RmqError as error:
        if done:
            error.retell(f"{sentence(error.message)} It is done for {_named(done)}, and for nothing behind.")
        raise


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
