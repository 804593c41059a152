"""Futures that carry a decoded answer instead of a response, or the answer to what is asked next."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rmqspark.errors import Busy, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable

A = TypeVar("A")
B = TypeVar("B")

_log = logging.getLogger(__name__)


class UsersFuture(Future[A]):
    """A future with callbacks of users. What these raise is logged, as in any other; here also sys.exit(), with which
    who completes it would leave all others that he has to complete, and whoever waits for them, for ever."""

    def add_done_callback(self, fn: Callable[[Future[A]], object]) -> None:
        super().add_done_callback(fn if self.done() else partial(_contained, fn))


def _contained(callback: Callable[[Future[A]], object], future: Future[A]) -> None:
    try:
        callback(future)
    except BaseException:  # noqa: BLE001 - a user's code: logged
        _log.exception("A callback of a future failed: %r", callback)


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


def after(future: Future[A], follow: Callable[[A], Future[B]]) -> Future[B]:
    """The future that `follow(result)` gives. It is called on the thread that completes `future`."""
    outcome: Future[B] = Future()
    outcome.set_running_or_notify_cancel()

    def hand_on(done: Future[B]) -> None:
        _end(outcome, done, done.exception())

    def carry_on(done: Future[A]) -> None:
        try:
            follow(done.result()).add_done_callback(hand_on)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the outcome
            outcome.set_exception(error)

    future.add_done_callback(carry_on)
    return outcome


def or_else(
    future: Future[A], follow: Callable[[BaseException], Future[A]], outcome: Future[A] | None = None
) -> Future[A]:
    """The same future, or where it fails the one that `follow(error)` gives; what `follow` raises is its error. It is
    `outcome`, where that is given."""
    outcome = outcome or Future()
    outcome.set_running_or_notify_cancel()

    def hand_on(done: Future[A]) -> None:
        _end(outcome, done, done.exception())

    def carry_on(done: Future[A]) -> None:
        error = done.exception()
        if error is None:
            outcome.set_result(done.result())
            return
        try:
            follow(error).add_done_callback(hand_on)
        except BaseException as last:  # noqa: BLE001 - it belongs to whoever waits for the outcome
            outcome.set_exception(last)

    future.add_done_callback(carry_on)
    return outcome


def rephrased(future: Future[A], rephrase: Callable[[BaseException], BaseException]) -> Future[A]:
    """The same future, but for what its error says."""
    outcome: Future[A] = Future()
    outcome.set_running_or_notify_cancel()

    def hand_on(done: Future[A]) -> None:
        error = done.exception()
        _end(outcome, done, None if error is None else rephrase(error))

    future.add_done_callback(hand_on)
    return outcome


def _end(outcome: Future[A], done: Future[A], error: BaseException | None) -> None:
    if error is None:
        outcome.set_result(done.result())
    else:
        outcome.set_exception(error)


def at_hand(value: A) -> Future[A]:
    """The future of what is known already."""
    outcome: Future[A] = Future()
    outcome.set_result(value)
    return outcome


def asked(request: Callable[[], Future[A]]) -> Future[A]:
    """The future of a request. That it could not be sent shows there too, and not before it is waited for."""
    try:
        return request()
    except RmqError as error:
        return failing(error)


def elsewhere(request: Callable[[], Future[A]]) -> Future[A]:
    """The future of a request that a thread of its own makes: the one that completes a future is a connection's reader,
    and to send may have to wait until somebody reads. It fails with Busy where no thread can be had."""
    outcome: Future[A] = Future()
    outcome.set_running_or_notify_cancel()

    def hand_on(done: Future[A]) -> None:
        _end(outcome, done, done.exception())

    def make() -> None:
        try:
            request().add_done_callback(hand_on)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the outcome
            outcome.set_exception(error)

    try:
        threading.Thread(target=make, name="rmqspark asks again", daemon=True).start()
    except RuntimeError as error:
        return failing(Busy(f"No thread can be had to ask again: {error}."))
    return outcome


def failing(error: BaseException) -> Future[Any]:
    """The future of what went wrong already."""
    outcome: Future[Any] = Future()
    outcome.set_exception(error)
    return outcome
