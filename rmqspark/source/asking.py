"""One request ahead: sent now, its answer taken when it is needed, and made again where that may help."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.futures import asked
from rmqspark.client.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

A = TypeVar("A")


def answer(
    ahead: Future[A], request: Callable[[], Future[A]], pauses_ms: Sequence[int], sleep_ms: Callable[[int], None]
) -> A:
    """What the request that was sent comes back with, or one made again. Raises what the last one did."""
    pending = [ahead]
    return patiently(lambda: (pending.pop() if pending else asked(request)).result(), pauses_ms, sleep_ms)
