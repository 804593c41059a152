"""A run: loop, network, clock, nodes, history, all from one seed."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections import deque
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.errors import RmqError
from rmqspark.testing.history import History
from rmqspark.testing.history_checker import Checker
from rmqspark.testing.sim.expired import Expired
from rmqspark.testing.sim.loop import Life, SimLoop, spawn
from rmqspark.testing.sim.network import SimNetwork
from rmqspark.testing.sim.node import Node
from rmqspark.testing.sim.processes import replaced
from rmqspark.testing.sim.successions import Heirs
from rmqspark.testing.sim.threads import SimThreads, installed
from rmqspark.testing.sim.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from rmqspark.testing.history import Event
    from rmqspark.testing.sim.processes import SimProcess

FIRST_INCARNATION = 1
_LOG_LINES: Final = 50_000


class World:
    """Everything of one run. What is drawn comes from `random(name)`, a stream for each part."""

    def __init__(self, seed: object) -> None:
        self.seed = seed
        self.trace = Trace()
        self.loop = SimLoop(seed)
        self.network = self.loop.network = SimNetwork(self.loop, self.random("network"), self.trace)
        self.threads = SimThreads(self.loop, self.random("threads"), self.violated)
        self.processes: list[SimProcess] = []
        self.checker = Checker()
        self.history = History(self._judge)
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.nodes: dict[str, Node] = {}
        self.incarnations: dict[str, int] = {}
        self._store_ids: dict[str, str] = {}
        self.loses_nothing = False
        """Whether a store never loses what was readable: one of SYNC_FLUSH on a disk that does not fail."""
        self.is_healed = False
        """Whether nothing is to go wrong any more."""
        self.on_promise: Callable[[str, bool], None] = lambda *_: None
        """Told the name of a broker whose answer has just been heard, that something is stored, or, True, decided."""
        self.replaced: list[tuple[Any, str, Any]] = []
        """What else is to be something else while it runs: (owner, name, other)."""
        self.violations: list[str] = []
        self.expired = Expired(self)
        self.heirs = Heirs(self)
        self.promises_copies = True
        """Whether what is decided outlives the disk of a master, where that may be lost."""
        self.masters_move = False
        """Whether another host may have to be asked for what a broker has."""
        self._buried: list[Life] = []
        self.of_nobody = Life("127.0.9.8")
        self.is_over = False

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

    def opened(self, broker_name: str, store_id: str, incarnation: int) -> None:
        """A broker begins to listen."""
        before = self.incarnations.setdefault(broker_name, incarnation)
        if self.heirs.is_awaited(broker_name):
            self.heirs.opened(broker_name, incarnation - before)
            if store_id != self._store_ids[broker_name]:
                self.violated(f"Law 15: {broker_name} is {store_id} now, and was {self._store_ids[broker_name]}")
        elif incarnation > before:
            self.trace.reached("incarnation raised")
            if self.loses_nothing:
                self.violated(f"Law 7: {broker_name} says that it lost what may have been read")
        self.incarnations[broker_name] = incarnation
        self._store_ids[broker_name] = store_id
        self.history.opened(broker_name, incarnation)

    def is_whole(self, broker_name: str) -> bool:
        """Whether its broker has lost nothing that may have been read."""
        return self._raised_by(broker_name) == self.heirs.excused.get(broker_name, 0)

    def has_kept(self, broker_name: str) -> bool:
        """Whether it has all that was acknowledged, to be on the disk and on a slave: if it has lost anything, then
        what a slave that was made the master had not been sent."""
        return self.is_whole(broker_name) or self.heirs.kept(broker_name, self._raised_by(broker_name))

    def is_unmoved(self, broker_name: str) -> bool:
        """Whether it is in its first incarnation."""
        return self._raised_by(broker_name) == 0

    def _raised_by(self, broker_name: str) -> int:
        return self.incarnations[broker_name] - FIRST_INCARNATION

    @property
    def is_whole_everywhere(self) -> bool:
        return all(map(self.is_whole, self.incarnations))

    @property
    def has_kept_everywhere(self) -> bool:
        return all(map(self.has_kept, self.incarnations))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        """Of nobody: it outlives all processes."""
        return spawn(self.loop, self.of_nobody, work)

    def bury(self, life: Life) -> None:
        """Its tasks must not be closed by Python before the run is over."""
        self._buried.append(life)

    def _judge(self, event: Event) -> None:
        self.trace.note(self.loop.time(), str(event))
        self.checker.feed(event)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Until the story ends. Raises what it raises."""
        with (
            _undisturbed(),
            installed(self.threads, [*replaced(self), *self.replaced]),
            self._logs(),
            self._logs_of_clients(),
        ):
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
        self.is_over = True
        self.threads.unwind()
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

    @contextmanager
    def _logs_of_clients(self) -> Iterator[None]:
        log, handler = logging.getLogger("rmqspark"), _LogOfClients(self)
        log.addHandler(handler)
        before, log.propagate = log.propagate, False
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = before

    def _take_line(self, _: Any, level: str, line: Any) -> Any:
        if self.is_over:
            raise structlog.DropEvent
        self.log.append(f"{self.loop.time():10.4f} {level}: {line.pop('event')} {line}")
        error = line.get("exc_info")
        if error is not None and not isinstance(error, OSError):
            self.violated(f"a server logged {error!r}")
        raise structlog.DropEvent


def _say_nothing(_: object) -> None:
    """Of what Python closes when nobody needs it any more."""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Python collects nothing in between: finalisers would come at random."""
    hook, sys.unraisablehook = sys.unraisablehook, _say_nothing
    was_enabled = gc.isenabled()
    gc.disable()
    asyncio.set_event_loop(None)
    try:
        yield
    finally:
        gc.collect()
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()


class _LogOfClients(logging.Handler):
    """What clients log. An exception that they did not foresee is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if self._world.is_over:
            return
        self._world.log.append(f"{self._world.loop.time():10.4f} {record.levelname}: {record.getMessage()}")
        if record.exc_info and not isinstance(record.exc_info[1], RmqError):
            self._world.violated(f"a client logged {record.getMessage()}: {record.exc_info[1]!r}")
