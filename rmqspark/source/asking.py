"""One request ahead: sent now, its answer taken when it is needed, and made again where that may help."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.patience import patiently
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

A = TypeVar("A")


def ask(request: Callable[[], Future[A]]) -> Future[A]:
    """Sends a request. A lost connection shows here too: it is kept for whoever waits for the answer."""
    try:
        return request()
    except RmqError as error:
        failed: Future[A] = Future()
        failed.set_exception(error)
        return failed


def answer(
    ahead: Future[A], request: Callable[[], Future[A]], pauses_ms: Sequence[int], sleep_ms: Callable[[int], None]
) -> A:
    """What the request that was sent comes back with, or one made again. Raises what the last one did."""
    pending = [ahead]
    return patiently(lambda: (pending.pop() if pending else ask(request)).result(), pauses_ms, sleep_ms)
