"""What all clients have in common: the end of a `with` block closes them, and what is closed is not used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from rmqspark.errors import AlreadyClosed

if TYPE_CHECKING:
    from types import TracebackType


class ClosedByWith(ABC):
    """Closed at the end of its `with` block, whatever ended that."""

    _kind = "client"
    _closed = False

    @abstractmethod
    def close(self) -> None:
        """Gives back what it holds; once more changes nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        """Raises AlreadyClosed. What is known already would else be answered as if nothing had been closed."""
        if self._closed:
            raise AlreadyClosed(f"This {self._kind} was closed.", hint="Make a new one.")
