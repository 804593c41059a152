"""An event loop for models: nothing happens but what is ready, in the order it became ready; time never moves."""

from __future__ import annotations

import asyncio
from typing import Any


class _NoSelector:
    def select(self, timeout: float | None) -> list[Any]:
        return []


class ModelLoop(asyncio.BaseEventLoop):
    """`settle` runs everything that can run without a message, and returns."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSelector()
        self.set_exception_handler(lambda loop, context: None)  # tasks of dead processes are left lying

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
