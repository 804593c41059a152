"""A run: loop, network, clock, nodes, history, all from one seed."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import deque
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import structlog

from rmqspark.testing.history import History
from rmqspark.testing.history_checker import Checker
from rmqspark.testing.sim.loop import Life, SimLoop, spawn
from rmqspark.testing.sim.network import SimNetwork
from rmqspark.testing.sim.node import Node
from rmqspark.testing.sim.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from rmqspark.testing.history import Event

_LOG_LINES = 2_000


class World:
    """Everything of one run. What is drawn comes from `random(name)`, a stream for each part."""

    def __init__(self, seed: object) -> None:
        self.seed = seed
        self.trace = Trace()
        self.loop = SimLoop(seed)
        self.network = self.loop.network = SimNetwork(self.loop, self.random("network"), self.trace)
        self.checker = Checker()
        self.history = History(self._judge)
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.nodes: dict[str, Node] = {}
        self.incarnations: dict[str, int] = {}
        self.loses_nothing = False
        """Whether a store never loses what was readable: one of SYNC_FLUSH on a disk that does not fail."""
        self.violations: list[str] = []
        self._buried: list[Life] = []
        self._is_over = False

    def random(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    def add(self, name: str, host: str, make: Callable[[Node], Any]) -> Node:
        self.nodes[name] = node = Node(self, name, host, make)
        return node

    def note(self, what: str) -> None:
        """For the log that is shown when a run fails, and for the hash of the run."""
        self.trace.note(self.loop.time(), what)
        self.log.append(f"{self.loop.time():10.4f} {what}")

    def violated(self, what: str) -> None:
        self.note(f"VIOLATED: {what}")
        self.violations.append(what)

    def opened(self, broker_name: str, incarnation: int) -> None:
        """A broker begins to listen."""
        if incarnation > self.incarnations.setdefault(broker_name, incarnation):
            self.trace.reached("incarnation raised")
            if self.loses_nothing:
                self.violated(f"Law 7: {broker_name} says that it lost what may have been read")
        self.incarnations[broker_name] = incarnation
        self.history.opened(broker_name, incarnation)

    def bury(self, life: Life) -> None:
        """Its tasks must not be closed by Python before the run is over."""
        self._buried.append(life)

    def _judge(self, event: Event) -> None:
        self.trace.note(self.loop.time(), str(event))
        self.checker.feed(event)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Until the story ends. Raises what it raises."""
        with _alone(), self._logs():
            task = spawn(self.loop, Life("127.0.9.9"), story)
            task.add_done_callback(lambda _: self.loop.stop())
            try:
                self.loop.run_forever()
                self.violations += map(str, self.checker.violations)
                self.violations += self.loop.trouble
            finally:
                self._forget()
            task.result()

    def _forget(self) -> None:
        """What is logged from now on is of processes that are closed only because the run is over."""
        self._is_over = True
        self.loop.forget()
        self._buried.clear()
        for node in self.nodes.values():
            node.forget()

    @contextmanager
    def _logs(self) -> Iterator[None]:
        """What servers log goes into the log of the run."""
        processors = structlog.get_config()["processors"]
        before = processors.copy()
        processors[:] = [self._take_line]
        structlog.configure(processors=processors)
        try:
            yield
        finally:
            processors[:] = before
            structlog.configure(processors=processors)

    def _take_line(self, _: Any, level: str, line: Any) -> Any:
        if self._is_over:
            raise structlog.DropEvent
        self.log.append(f"{self.loop.time():10.4f} {level}: {line.pop('event')} {line}")
        error = line.get("exc_info")
        if error is not None and not isinstance(error, OSError):
            self.violated(f"a server logged {error!r}")
        raise structlog.DropEvent


def _say_nothing(_: object) -> None:
    """Of what Python closes when nobody needs it any more."""


@contextmanager
def _alone() -> Iterator[None]:
    """No thread may be started, and Python collects nothing in between: finalisers would come at random."""
    start = threading.Thread.start
    hook, sys.unraisablehook = sys.unraisablehook, _say_nothing
    was_enabled = gc.isenabled()
    gc.disable()
    asyncio.set_event_loop(None)
    threading.Thread.start = _refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        gc.collect()
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()


def _refuse(self: threading.Thread) -> None:
    raise AssertionError(f"thread {self.name} would run beside the simulation")
