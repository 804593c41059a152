"""Asking again where an answer may come a moment later: a broker is restarting, a connection broke."""

from __future__ import annotations

import logging
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rmqspark.errors import BrokerNotRegistered, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.clock import Clock

STREAM_PATIENCE_MS: Final = 60_000
"""How long a streaming query that runs waits for a broker, which may have to go through its log, or a machine that
starts anew: it would end otherwise, and somebody would have to start it again."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Another(NamedTuple):
    """A further try: the pause before it, and in words how many there will be besides."""

    pause_ms: int
    besides: str


class Patience(NamedTuple):
    """How often to try again: once after each of the pauses; or, with `for_ms`, until so long has passed since the
    first failure, the last pause over and over."""

    pauses_ms: tuple[int, ...]
    for_ms: int | None = None

    def tries(self, clock: Clock) -> Iterator[Another]:
        """The further tries there are, asked for when one has failed."""
        if self.for_ms is None:
            for tries_left, pause_ms in zip(range(len(self.pauses_ms), 0, -1), self.pauses_ms, strict=True):
                yield Another(pause_ms, f"{tries_left} more times")
            return
        until_ms = clock.monotonic_ms() + self.for_ms
        for pause_ms in chain(self.pauses_ms, repeat(self.pauses_ms[-1])):
            left_ms = until_ms - clock.monotonic_ms()
            if left_ms <= 0:
                return
            yield Another(pause_ms, f"for {-(-left_ms // 1000)} s more")


def patiently(
    attempt: Callable[[], T], patience: Patience, clock: Clock, *, besides: tuple[type[RmqError], ...] = ()
) -> T:
    """Calls `attempt`; where it fails in a way that may pass, again, with `patience`. Raises the last failure.

    So may the want of a broker: whoever is patient was told of it by a route, a plan or another broker, and no name
    server knows one that is being restarted. `besides` are other errors that may pass here and in general do not.
    """
    return with_tries(attempt, patience.tries(clock), clock, besides=besides)


def with_tries(
    attempt: Callable[[], T], tries: Iterator[Another], clock: Clock, *, besides: tuple[type[RmqError], ...] = ()
) -> T:
    """The same with what there is of `tries` yet: several steps on one way wait no longer than one."""
    while True:
        try:
            return attempt()
        except RmqError as error:
            another = next(tries, None) if may_pass(error) or isinstance(error, besides) else None
            if another is None:
                raise
            _log.warning("%s Trying again in %d ms, %s.", error, *another)
            clock.sleep_ms(another.pause_ms)


def may_pass(error: RmqError) -> bool:
    """Whether the same may succeed a moment later, as `patiently` understands it."""
    return error.retriable or isinstance(error, BrokerNotRegistered)
