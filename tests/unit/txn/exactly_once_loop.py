"""An event loop for models: nothing happens but what is ready, in the order it became ready; time never moves."""

from __future__ import annotations

import asyncio
from contextvars import Context, ContextVar, copy_context
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_IS_ALIVE: ContextVar[Callable[[], bool]] = ContextVar("is_alive")  # of the process to which the running code belongs


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:
        return []


class ModelLoop(asyncio.BaseEventLoop):
    """`settle` runs everything that can run without a message, and returns."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSelector()
        self.set_exception_handler(lambda loop, context: None)  # tasks of dead processes are left lying
        self._is_ending = False
        self._tasks: list[asyncio.Task[Any]] = []

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        self._tasks.append(task)  # or one whose process dies before its first step would go with a warning
        return task

    def start(self, work: Coroutine[Any, Any, Any], is_alive: Callable[[], bool]) -> asyncio.Task[Any]:
        """A task of a process. Once that is dead nothing of the task goes on, nor of what the task began."""
        context = copy_context()
        context.run(_IS_ALIVE.set, is_alive)
        return self.create_task(work, context=context)

    def end(self) -> None:
        """Cancels what was left lying, of the dead as well, and closes the loop."""
        self._is_ending = True
        for task in self._tasks:
            task.cancel()
        self.settle()
        for work in [task.get_coro() for task in self._tasks]:
            if getcoroutinestate(work) == CORO_CREATED:
                work.close()
        self.close()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        context = context or copy_context()
        is_alive = context.get(_IS_ALIVE)
        if is_alive is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(self._call_if, is_alive, callback, args, context=context)

    def _call_if(self, is_alive: Callable[[], bool], callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if is_alive() or self._is_ending:
            callback(*args)

    def time(self) -> float:
        return 0.0

    def run_in_executor(self, executor: Any, call: Any, *arguments: Any) -> asyncio.Future[Any]:
        done = self.create_future()
        done.set_result(call(*arguments))
        return done

    def settle(self) -> None:
        asyncio._set_running_loop(self)
        try:
            while self._ready:  # type: ignore[attr-defined]
                self._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio._set_running_loop(None)

    def _process_events(self, events: Any) -> None: ...

    def _write_to_self(self) -> None: ...
