"""One request ahead: sent now, its answer taken when it is needed, and made again where that may help."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.futures import asked
from rmqspark.client.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rmqspark.client.patience import Patience
    from rmqspark.clock import Clock

A = TypeVar("A")


def answer(ahead: Future[A], request: Callable[[], Future[A]], patience: Patience, clock: Clock) -> A:
    """What the request that was sent comes back with, or one made again. Raises what the last one did."""
    pending = [ahead]
    return patiently(lambda: (pending.pop() if pending else asked(request)).result(), patience, clock)
