"""Where something comes from: a row of a file, a line of standard input."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqspark.errors import DecodeError, InvalidArgument, RmqError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Around what is done with something from there: an error names the place, if there is one. What is wrong with a
    row is no fault of the command line: others may be stored already."""
    try:
        yield
    except InvalidArgument as error:
        raise DecodeError(f"{place}: {error.message}", hint=error.hint) if place else error from None
    except RmqError as error:
        error.retell(f"{place}: {error.message}" if place else error.message)
        raise
