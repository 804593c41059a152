"""An event loop whose time is simulated: it moves only when nothing is ready.

Everything that happens belongs to a `Life`: a process, from its start to its crash. It travels in a context variable,
so that all a task schedules is of the same life. When a life is over nothing of it runs any more, not even a `finally`:
a power loss would not run one either. Its tasks are kept until the end of the run, or Python would close them.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from contextvars import ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

from rmqspark.testing.disk_faults import ProcessDied

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine

    from rmqspark.testing.sim.network import SimNetwork

LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)
_KEPT_DONE_TASKS = 500
_MOST_WAITS_IN_FINALLY = 50


class Deadlock(AssertionError):
    """Nothing is ready and nothing is due: the simulation would wait for ever."""


class Life:
    """One life of a process on `host`. `has_died` says that its disk has seen it die in the middle of a call."""

    def __init__(self, host: str, has_died: Callable[[], bool] = lambda: False) -> None:
        self.host = host
        self.context = copy_context()
        self.context.run(LIFE.set, self)
        self._has_died = has_died
        self.process: Any = None
        """That it is a life of, where it has threads."""
        self.frozen_until_s = 0.0
        """No thread of it gets a turn before."""
        self.on_listen: Callable[[], None] = lambda: None
        """Called before the first client can connect to it."""
        self._is_over = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._look_at = _KEPT_DONE_TASKS

    @property
    def is_over(self) -> bool:
        return self._is_over or self._has_died()

    def end(self) -> None:
        self._is_over = True

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds on to a task for as long as it is not done."""
        self._tasks.append(task)
        if len(self._tasks) > self._look_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._look_at = len(self._tasks) + _KEPT_DONE_TASKS

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those that are not done."""
        return [task for task in self._tasks if not task.done()]


class _NumberedTask(asyncio.Task[Any]):
    """Sets of tasks, as TaskGroup has them, iterate by hash, and that would be the address."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Made from a seed. `network` is where it connects and listens; `slowest_work_s` how long work in threads takes
    at most; `permutes` whether tasks that are ready together run in any order."""

    network: SimNetwork
    _ready: deque[Any]
    _stopping: bool

    def __init__(self, seed: object) -> None:
        super().__init__()
        self._now_s = 0.0
        self._order = Random(f"{seed}/order")
        self._durations = Random(f"{seed}/durations")
        self._tasks = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self.permutes = False
        self.slowest_work_s = 0.005
        self.trouble: list[str] = []
        """What went wrong that nobody caught."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(_note_trouble)

    def time(self) -> float:
        return self._now_s

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        """Those of one moment run in the order in which they were asked for."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, timer))
        return timer

    # --- what the base class leaves open -----------------------------------------------------------------------------

    def _run_once(self) -> None:
        self._let_time_go_by()
        if self.permutes and len(self._ready) > 1:
            _permute(self._ready, self._order)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not _is_void(handle):
                handle._run()

    def _let_time_go_by(self) -> None:
        """Up to the next timer, where nothing is ready; makes ready all that is due."""
        timers = self._timers
        while timers and _is_void(timers[0][2]):
            heappop(timers)
        if not self._ready and not self._stopping:
            if not timers:
                raise Deadlock("nothing is ready, and nothing will be")
            self._now_s = max(self._now_s, timers[0][0])
        while timers and timers[0][0] <= self._now_s:
            self._ready.append(heappop(timers)[2])

    def forget(self) -> None:
        """Ends all tasks there are, those of dead processes as well, at the end of a run: else they stay in memory."""
        self.set_exception_handler(lambda *_: None)
        asyncio._set_running_loop(self)
        try:
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _end(task.get_coro())
        finally:
            asyncio._set_running_loop(None)
        self._ready.clear()
        self._timers.clear()
        self.close()

    def _process_events(self, event_list: Any) -> None:
        """There are none: the network calls back by timers."""

    def _write_to_self(self) -> None:
        """There is no other thread that would have to wake this one."""

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        self._tasks += 1
        task = _NumberedTask(coro, loop=loop, number=self._tasks, **options)
        context = options.get("context")
        life = context.get(LIFE) if context is not None else LIFE.get()
        if life is not None:
            life.keep(task)
        return task

    # --- threads, names, connections ---------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Work of a thread: it happens at one moment, a little later, and its end is heard of a little later still."""
        done = self.create_future()
        self.call_later(self._duration_s(), self._work, func, args, done)
        return done

    def _work(self, func: Callable[..., Any], args: tuple[Any, ...], done: asyncio.Future[Any]) -> None:
        result, error = None, None
        try:
            result = func(*args)
        except ProcessDied:
            return
        except BaseException as failure:  # noqa: BLE001 - as a pool of threads does: it is whoever waits who is told
            error = failure
        self.call_later(self._duration_s(), _settle, done, result, error)

    def _duration_s(self) -> float:
        return self._durations.random() ** 4 * self.slowest_work_s

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Hosts have addresses for names."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port or 0))]

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self.network.listen(factory, host, port, _life_here())

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self.network.connect(factory, host, port, _life_here())


def spawn(loop: SimLoop, life: Life, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Runs `work` as a task of that life."""
    return loop.create_task(work, context=life.context)


def _end(work: Any) -> None:
    """Closes a coroutine. One that would wait for something in a `finally` is told again that it is over."""
    for _ in range(_MOST_WAITS_IN_FINALLY):
        with suppress(BaseException):
            work.close()
            return


def _life_here() -> Life:
    life = LIFE.get()
    assert life is not None, "connections belong to a life"
    return life


def _is_void(handle: Any) -> bool:
    """Whether it was cancelled, or belongs to a life that is over."""
    if handle._cancelled:
        return True
    life = handle._context.get(LIFE)
    return life is not None and life.is_over


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _note_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimLoop)
    error = context.get("exception")
    if isinstance(error, ProcessDied):
        return
    loop.trouble.append(f"{context.get('message')}: {error!r}")


def _permute(ready: Any, random: Random) -> None:
    """Tasks that are ready together run in any order; but those that one future wakes in that of its callbacks, and
    what is no task, as what a transport has to say, where it was."""
    places = [at for at, handle in enumerate(ready) if _is_step(handle)]
    if len(places) < 2:
        return
    draws: dict[int, list[float]] = {}
    for at in places:
        draws.setdefault(_waker(ready[at]), []).append(random.random())
    for of_one in draws.values():
        of_one.sort(reverse=True)
    steps = sorted((draws[_waker(ready[at])].pop(), place, ready[at]) for place, at in enumerate(places))
    for at, (_, _, handle) in zip(places, steps, strict=True):
        ready[at] = handle


def _is_step(handle: Any) -> bool:
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


def _waker(handle: Any) -> int:
    return id(handle._args[0]) if handle._args else id(handle)
