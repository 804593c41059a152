"""Listings of what others may delete at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqspark.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Description = TypeVar("_Description")


def existing(describe: Callable[[str], _Description], names: Iterable[str]) -> Iterator[_Description]:
    """The description of each name, in order; what has gone since the names were asked for is left out."""
    for name in sorted(names):
        try:
            yield describe(name)
        except NotFound:
            continue
