"""Threads of simulated processes: real ones, of which one runs at a time, in simulated time.

The clients of this project block, each in threads of its own, and so run here as they are. While a world runs, what
`threading` gives is replaced: `Thread.start` makes a thread that runs only while the loop waits for it, and whoever
would block (a lock that is held, a future that is not done, a sleep) hands the turn back until a timer of the loop, or
another thread, wakes it. So the order of turns follows from the seed. Nothing of a process that is over runs any more:
its threads stay where they are until the end of the run, and are unwound then.
"""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import logging
import queue
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from rmqspark.testing.sim.loop import LIFE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from random import Random

    from rmqspark.testing.sim.loop import Life, SimLoop

_LONGEST_WAKE_S = 0.002


class Unwound(BaseException):
    """The run is over: raised where a thread waits, again and again, until it has ended."""


class Turns:
    """A thread as the loop sees it: `go` lets it run, and it says of each of its waits which one it is."""

    def __init__(self, life: Life, thread: threading.Thread) -> None:
        self.life = life
        self.thread = thread
        self.go = _thread.allocate_lock()
        self.go.acquire()
        self.wait = 0
        self.has_ended = False
        self.who_joins: list[Ticket] = []


Ticket: TypeAlias = tuple[Turns, int]
"""A thread, and the number of its wait: what wakes it from that one, and from no other."""


class SimThreads:
    """Those of one world. `on_error` is told what a thread ended with."""

    def __init__(self, loop: SimLoop, random: Random, on_error: Callable[[str], None]) -> None:
        self._loop = loop
        self._random = random
        self._on_error = on_error
        self._turns: list[Turns] = []
        self._current: Turns | None = None
        self._back = _thread.allocate_lock()
        self._back.acquire()
        self._is_over = False

    @property
    def life(self) -> Life | None:
        """Whose thread runs now; None on the loop's own."""
        return self._current.life if self._current is not None else None

    def start(self, thread: threading.Thread, life: Life) -> None:
        """Runs `thread.run` in turns, as a thread of that life."""
        turns = Turns(life, thread)
        thread._sim_turns = turns  # type: ignore[attr-defined]
        self._turns.append(turns)
        _thread.start_new_thread(self._run, (turns,))
        self.wake(turns, turns.wait)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Hands the turn back until somebody wakes this thread; whether somebody did, and not the time was over."""
        turns = self.running()
        number = turns.wait
        over: list[bool] = []
        if timeout_s is not None:
            self._loop.call_later(
                max(0.0, timeout_s), self._time_is_over, turns, number, over, context=turns.life.context
            )
        self._hand_back(turns)
        return not over

    def ticket(self) -> Ticket:
        """What wakes the running thread from its next wait."""
        turns = self.running()
        return turns, turns.wait

    def wake(self, turns: Turns, number: int) -> None:
        """Soon. Nothing happens where that wait is over."""
        delay_s = self._random.random() * _LONGEST_WAKE_S if self._loop.permutes else 0.0
        self._loop.call_later(delay_s, self._go, turns, number, context=turns.life.context)

    def running(self) -> Turns:
        turns = self._current
        assert turns is not None, "the loop itself would block"
        return turns

    def join(self, turns: Turns, timeout_s: float | None) -> None:
        if not turns.has_ended:
            turns.who_joins.append(self.ticket())
            self.wait(timeout_s)

    # --- turns -------------------------------------------------------------------------------------------------------

    def _go(self, turns: Turns, number: int) -> None:
        if turns.wait != number or turns.has_ended:
            return
        if turns.life.frozen_until_s > self._loop.time():
            self._loop.call_at(turns.life.frozen_until_s, self._go, turns, number, context=turns.life.context)
            return
        turns.wait += 1
        self._current = turns
        turns.go.release()
        self._back.acquire()
        self._current = None

    def _time_is_over(self, turns: Turns, number: int, over: list[bool]) -> None:
        if turns.wait == number:
            over.append(True)
            self._go(turns, number)

    def _hand_back(self, turns: Turns) -> None:
        if self._is_over:
            raise Unwound
        self._back.release()
        turns.go.acquire()
        if self._is_over:
            raise Unwound

    def _run(self, turns: Turns) -> None:
        turns.go.acquire()
        threading._active[_thread.get_ident()] = turns.thread  # type: ignore[attr-defined]
        try:
            if not self._is_over:
                turns.thread.run()
        except Unwound:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run has failed
            if not self._is_over:
                self._on_error(f"thread {turns.thread.name} ended with {error!r}")
        finally:
            turns.has_ended = True
            threading._active.pop(_thread.get_ident(), None)  # type: ignore[attr-defined]
            if not self._is_over:
                for waiting in turns.who_joins:
                    self.wake(*waiting)
            self._back.release()

    def unwind(self) -> None:
        """Ends all threads there are, at the end of a run."""
        self._is_over = True
        level = logging.root.manager.disable
        logging.disable()  # whoever meets it and lives on would tell of it
        for turns in self._turns:
            if not turns.has_ended:
                self._current = turns
                turns.go.release()
                self._back.acquire()
        logging.disable(level)
        self._current = None
        self._turns.clear()


class SimLock:
    """A lock. Outside of a run, where some may live on, it is an ordinary one."""

    threads: SimThreads | None = None

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._waiting: list[Ticket] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(False):
            return True
        threads = self.threads
        if threads is None:
            return self._lock.acquire(blocking, timeout)
        if not blocking:
            return False
        end_s = None if timeout < 0 else threads._loop.time() + timeout
        while not self._lock.acquire(False):
            left_s = None if end_s is None else end_s - threads._loop.time()
            if left_s is not None and left_s <= 0:
                return False
            ticket = threads.ticket()
            self._waiting.append(ticket)
            threads.wait(left_s)
            if ticket in self._waiting:  # the time was over
                self._waiting.remove(ticket)
        return True

    def release(self) -> None:
        self._lock.release()
        if self._waiting and self.threads is not None and not self.threads._is_over:
            self.threads.wake(*self._waiting.pop(0))

    def locked(self) -> bool:
        return self._lock.locked()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def installed(threads: SimThreads, replaced: Iterable[tuple[Any, str, Any]] = ()) -> Iterator[None]:
    """Has all that this process starts and waits for run in turns; `replaced` are (owner, name, other) besides."""
    changes = [
        (threading, "Lock", SimLock),
        (threading, "_allocate_lock", SimLock),
        (threading, "RLock", threading._PyRLock),  # type: ignore[attr-defined]
        (threading, "_time", threads._loop.time),
        (threading.Thread, "start", lambda thread: _start(thread, threads)),
        (threading.Thread, "join", _join_in(threads, threading.Thread.join)),
        (threading.Thread, "is_alive", _is_alive_in(threading.Thread.is_alive)),
        *((module, "SimpleQueue", queue._PySimpleQueue) for module in _with_queues()),  # type: ignore[attr-defined]
        *replaced,
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in changes]
    SimLock.threads = threads
    for owner, name, other in changes:
        setattr(owner, name, other)
    try:
        yield
    finally:
        for owner, name, other in before:
            setattr(owner, name, other)
        SimLock.threads = None
        for thread in list(concurrent.futures.thread._threads_queues):  # which Python would join when it ends
            if hasattr(thread, "_sim_turns"):
                del concurrent.futures.thread._threads_queues[thread]  # type: ignore[attr-defined]


def _start(thread: threading.Thread, threads: SimThreads) -> None:
    life = threads.life or LIFE.get()
    assert life is not None, f"thread {thread.name} would run beside the simulation"
    threads.start(thread, life)


def _join_in(threads: SimThreads, otherwise: Callable[..., None]) -> Callable[..., None]:
    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        turns = getattr(thread, "_sim_turns", None)
        if turns is None:
            otherwise(thread, timeout)
        else:
            threads.join(turns, timeout)

    return join


def _is_alive_in(otherwise: Callable[..., bool]) -> Callable[..., bool]:
    def is_alive(thread: threading.Thread) -> bool:
        turns = getattr(thread, "_sim_turns", None)
        return otherwise(thread) if turns is None else not turns.has_ended

    return is_alive


def _with_queues() -> list[Any]:
    """All modules that know the queue that is written in C."""
    return [module for module in list(sys.modules.values()) if vars(module).get("SimpleQueue") is queue.SimpleQueue]
