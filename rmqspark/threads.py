"""Blocking work of the event loop that must be over before anything goes on.

A pool that cannot start a thread says so (RuntimeError), and keeps what it was handed all the same: that is done when
some thread is there, long after whoever wanted it has gone on. So all is handed over as `Once`, and done on the spot
where no thread can be had.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[T]):
    """Work that is done by who calls it first. Whoever calls it gives what it returned, or raises what it raised."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._outcome: Future[T] = Future()
        self._doing = Lock()

    def __call__(self) -> T:
        with self._doing:
            if not self._outcome.done():
                self._do()
        return self._outcome.result()

    def _do(self) -> None:
        try:
            self._outcome.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 - it is for whoever waits
            self._outcome.set_exception(error)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns or raises, from a thread of the loop's pool; where none can be had, everything waits for it.

    A cancelled `run_in_executor` returns while its thread still runs: a lock around it opens, a file under it is
    closed, or written twice at once. This one is cancelled only when the thread has come to its end.
    """
    once = Once(partial(work, *args, **kwargs))
    try:
        running = asyncio.get_running_loop().run_in_executor(None, once)
    except RuntimeError:
        return once()
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise
