"""Places at which a test ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.fault_points import VARIABLE, InjectedFault, arm, arm_from, disarm, fault_point


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> object:
    yield
    disarm("after_decide")
    disarm("before_vote")


def test_an_ordinary_run_passes_them() -> None:
    """Where nobody armed anything, nothing happens."""
    fault_point("after_decide")


def test_an_armed_place_acts_once_at_its_arrival() -> None:
    """The third arrival is the one, not the second nor the fourth."""
    seen: list[str] = []
    arm("after_decide", lambda: seen.append("hit"), arrival=3)
    for _ in range(5):
        fault_point("after_decide")
        fault_point("before_vote")
    assert seen == ["hit"]


def test_a_variable_arms_a_process_that_is_yet_to_start() -> None:
    """A process started with the variable ends by SIGKILL exactly there."""
    code = "from rmqspark.fault_points import fault_point as f; f('before_vote'); f('after_decide'); print('alive')"
    ended = subprocess.run([sys.executable, "-c", code], env={VARIABLE: "after_decide:kill:1"}, capture_output=True)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"")


def test_several_places_can_be_armed() -> None:
    """Action and arrival may be left out or given."""
    arm_from("after_decide:raise,before_vote:raise:2")
    fault_point("before_vote")
    for name in ("after_decide", "before_vote"):
        with pytest.raises(InjectedFault, match=name):
            fault_point(name)


@pytest.mark.parametrize(
    "text", ["nowhere", "after_decide:explode", "after_decide:kill:0", "after_decide:kill:x", "after_decide:kill:1:2"]
)
def test_a_slip_is_named(text: str) -> None:
    """A test that arms what is not there is told so instead of passing."""
    with pytest.raises(InvalidArgument, match=text.split(":")[0]):
        arm_from(text)
