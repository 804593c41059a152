"""Asking again where an answer may come a moment later: a broker is restarting, a connection broke."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from rmqspark.errors import BrokerNotRegistered, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)
T = TypeVar("T")


def patiently(
    attempt: Callable[[], T],
    pauses_ms: Sequence[int],
    sleep_ms: Callable[[int], None],
    *,
    besides: tuple[type[RmqError], ...] = (),
) -> T:
    """Calls `attempt`; where it fails in a way that may pass, again after each of the pauses. Raises the last failure.

    So may the want of a broker: whoever is patient was told of it by a route, a plan or another broker, and no name
    server knows one that is being restarted. `besides` are other errors that may pass here and in general do not.
    """
    for tries_left, pause_ms in zip(range(len(pauses_ms), 0, -1), pauses_ms, strict=True):
        try:
            return attempt()
        except RmqError as error:
            if not (may_pass(error) or isinstance(error, besides)):
                raise
            _log.warning("%s Trying again in %d ms, %d more times.", error, pause_ms, tries_left)
            sleep_ms(pause_ms)
    return attempt()


def may_pass(error: RmqError) -> bool:
    """Whether the same may succeed a moment later, as `patiently` understands it."""
    return error.retriable or isinstance(error, BrokerNotRegistered)
