"""Futures that carry a decoded answer instead of a response."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

A = TypeVar("A")
B = TypeVar("B")


def then(future: Future[A], transform: Callable[[A], B]) -> Future[B]:
    """The future of `transform(result)`. It runs on the thread that completes `future`, so it must be quick."""
    outcome: Future[B] = Future()
    outcome.set_running_or_notify_cancel()  # nobody can call the request back: cancel() honestly answers False

    def carry_on(done: Future[A]) -> None:
        try:
            outcome.set_result(transform(done.result()))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the outcome
            outcome.set_exception(error)

    future.add_done_callback(carry_on)
    return outcome
