"""Writing large pieces while something else is done: the system copies them on one core, the next are made on another.

Whose thread writes is not the store's business: it is given something that begins a piece of work and says how to wait
for it. Until it has been waited for, nothing else is written, so the log never has a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.files import Buffer
    from rmqspark.store.log.segment import Segment

Work: TypeAlias = Callable[[], object]
Begin: TypeAlias = Callable[[Work], Work]
"""Begins a piece of work; what it returns waits for the end, and raises what the work raised."""


def at_once(work: Work) -> Work:
    """The `Begin` of whoever has one thread."""
    work()
    return _nothing


class WriteBeside:
    """How one append is written: its first piece while `meanwhile` is done."""

    def __init__(self, begin: Begin, meanwhile: Work) -> None:
        self._begin = begin
        self._meanwhile = meanwhile

    def put(self, segment: Segment, data: Buffer | Sequence[Buffer], at: int) -> None:
        """Like `Segment.write`."""
        wait = self._begin(segment.writing(data, at))
        try:
            meanwhile, self._meanwhile = self._meanwhile, _nothing
            meanwhile()
        finally:
            wait()


def _nothing() -> None: ...
