"""Named places at which a test may end the process: between the steps of the exactly-once protocol.

The product calls `fault_point("after_decide")`, which costs the look at one empty dict. What happens there is armed
by a test in this process (`arm`), or for a process that is yet to start by $RMQ_FAULT_POINTS:

    after_decide:kill:1,before_vote:stop:3      name:action:at which arrival (1 if left out)

`kill` is SIGKILL, `stop` SIGSTOP, `raise` raises InjectedFault once. Where $RMQ_FAULT_POINTS_MET names directories, as
$PATH does, the last that such a process does is to leave a file in each, with the point's name.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE: Final = "RMQ_FAULT_POINTS"
MET_VARIABLE: Final = "RMQ_FAULT_POINTS_MET"
_DEFAULTS: Final = ("kill", "1")  # of action and arrival

NAMES: Final = frozenset(
    {
        "after_prepare",
        "half_sent",
        "before_decide",
        "before_vote",
        "after_vote",
        "after_decide",  # the decision is on disk, nobody has been told
        "before_complete",
        "mid_complete",  # the real records are appended, the op record is not
        "after_complete",
        "after_commit_answered",
        "before_abort",
    }
)


class InjectedFault(RmqError):
    """Raised at a fault point that a test armed with `raise`."""


class _Armed:
    def __init__(self, action: Callable[[], None], countdown: int) -> None:
        self.action = action
        self.countdown = countdown


_armed: dict[str, _Armed] = {}


def fault_point(name: str) -> None:
    """Nothing, unless a test armed this place."""
    if _armed:
        _arrive(name)


def arm(name: str, action: Callable[[], None] | str = "kill", *, arrival: int = 1) -> None:
    """Has `action` (a callable, or `kill`, `stop`, `raise`) happen once, when `name` is reached for that time.

    Raises InvalidArgument for a name or an action there is none of, or an arrival below 1.
    """
    if name not in NAMES:
        raise InvalidArgument(f"There is no fault point {name!r}.", hint=f"There are: {', '.join(sorted(NAMES))}.")
    if arrival < 1:
        raise InvalidArgument(f"Fault point {name!r} cannot be armed for arrival {arrival}; the first one is 1.")
    _armed[name] = _Armed(_action(action, name) if isinstance(action, str) else action, arrival)


def disarm(name: str) -> None:
    """Makes `name` an ordinary place again."""
    _armed.pop(name, None)


def arm_from(text: str) -> None:
    """Arms what $RMQ_FAULT_POINTS says. Raises InvalidArgument naming the part that cannot be read."""
    for part in filter(None, text.split(",")):
        name, action, arrival = (*part.split(":"), *_DEFAULTS[part.count(":") :])[:3]
        if part.count(":") > 2 or not arrival.isdecimal():
            raise InvalidArgument(f"${VARIABLE} has {part!r}.", hint="Write name:action:arrival.")
        arm(name, action, arrival=int(arrival))


def _arrive(name: str) -> None:
    armed = _armed.get(name)
    if armed is None:
        return
    armed.countdown -= 1
    if armed.countdown == 0:
        del _armed[name]
        armed.action()


def _action(word: str, name: str) -> Callable[[], None]:
    if word not in ("kill", "stop", "raise"):
        raise InvalidArgument(f"Fault point {name!r} has no action {word!r}.", hint="There are: kill, stop, raise.")

    def act() -> None:
        _leave_word(name)
        if word == "raise":
            raise InjectedFault(f"A test has this fail at {name!r}.")
        os.kill(os.getpid(), signal.SIGKILL if word == "kill" else signal.SIGSTOP)

    return act


def _leave_word(name: str) -> None:
    for directory in filter(None, os.environ.get(MET_VARIABLE, "").split(os.pathsep)):
        with suppress(OSError):  # whoever would read it has gone, and the directory with it
            os.close(os.open(os.path.join(directory, name), os.O_CREAT | os.O_WRONLY))


arm_from(os.environ.get(VARIABLE, ""))
