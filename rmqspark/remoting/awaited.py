"""Requests of ours on one blocking connection that wait for their answers, matched by opaque; shared by threads."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import ConnectionLost
from rmqspark.remoting.unanswered import timed_out

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response


class _Awaited(NamedTuple):
    future: Future[Response]
    code: int
    timeout_ms: int
    deadline_ms: int


class Loss(NamedTuple):
    """How a connection has ended, in words, and what may be done about it."""

    story: str
    hint: str = ""

    def error(self, address: str) -> ConnectionLost:
        return ConnectionLost(self.story, address=address, hint=self.hint)


class AwaitedAnswers:
    """The futures under their opaques, until the connection is lost. An answer that nobody waits for (any more) is
    dropped, as RocketMQ does; callbacks of a future run where its answer is delivered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()  # guards the two below
        self._awaited: dict[int, _Awaited] = {}
        self.lost: Loss | None = None
        self.has_given_up = False  # somebody, since anything was heard of the other side

    def begin(self, opaque: int, code: int, timeout_ms: int, deadline_ms: int) -> Future[Response]:
        """Where the answer will be. After `fail` it never comes, and nothing can be sent either."""
        future: Future[Response] = Future()
        future.set_running_or_notify_cancel()  # what was sent cannot be cancelled
        with self._lock:
            if self.lost is None:
                self._awaited[opaque] = _Awaited(future, code, timeout_ms, deadline_ms)
        return future

    def deliver(self, response: Response) -> None:
        with self._lock:
            awaited = self._awaited.pop(response.opaque, None)
        if awaited is not None:
            awaited.future.set_result(response)

    def give_up(self, opaque: int) -> None:
        self.has_given_up = True
        with self._lock:
            self._awaited.pop(opaque, None)

    def fail_overdue(self, now_ms: int) -> None:
        """RequestTimeout for those whose time is over."""
        with self._lock:
            late = [opaque for opaque, awaited in self._awaited.items() if awaited.deadline_ms < now_ms]
            overdue = [self._awaited.pop(opaque) for opaque in late]
        self.has_given_up |= bool(overdue)
        for awaited in overdue:
            awaited.future.set_exception(timed_out(self._address, awaited.code, awaited.timeout_ms))

    def fail(self, loss: Loss) -> list[Future[Response]]:
        """The connection has ended; only the first reason counts. Returns who waited, to be told by `tell_lost`."""
        with self._lock:
            self.lost = self.lost or loss
            orphans, self._awaited = [awaited.future for awaited in self._awaited.values()], {}
        return orphans

    def tell_lost(self, orphans: list[Future[Response]], loss: Loss) -> None:
        for future in orphans:
            future.set_exception(loss.error(self._address))
