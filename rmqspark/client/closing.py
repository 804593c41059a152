"""What all clients have in common: the end of a `with` block closes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class ClosedByWith(ABC):
    """Closed at the end of its `with` block, whatever ended that."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it holds; once more changes nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
