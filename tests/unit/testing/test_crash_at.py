"""Crashes that users' tests ask for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.fault_points import MET_VARIABLE, VARIABLE, InjectedFault, fault_point
from rmqspark.testing import crash_at


def test_what_comes_to_the_point_fails_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the arrival named, in this process; one that starts in the block is killed; afterwards all is as before."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with crash_at("after_decide", arrival=2) as crash:
        assert os.environ[VARIABLE] == "after_decide:kill:2"
        fault_point("before_vote")
        fault_point("after_decide")
        assert not crash.met
        with pytest.raises(InjectedFault, match="after_decide"):
            fault_point("after_decide")
        fault_point("after_decide")
    assert crash.met
    assert VARIABLE not in os.environ
    monkeypatch.setenv(VARIABLE, "mid_complete:kill:1")
    with crash_at("after_vote") as crash:
        pass
    fault_point("after_vote")
    assert not crash.met  # and the test that has it can say so
    assert os.environ[VARIABLE] == "mid_complete:kill:1"


def test_a_point_there_is_none_of() -> None:
    """A name that is not one would test nothing, so it is an error that lists them."""
    with (
        pytest.raises(InvalidArgument, match="no fault point 'after_decision'.*after_decide"),
        crash_at("after_decision"),
    ):
        pass


def test_a_process_that_is_started_inside_of_two_dies_of_either() -> None:
    """The inner block takes nothing from the outer one, nor from what was armed for this process by its environment."""
    with crash_at("half_sent") as outer, crash_at("after_vote", arrival=2) as inner:
        for name, crash in (("half_sent", outer), ("after_vote", inner)):
            assert not crash.met
            assert run_to(name, times=2) == -signal.SIGKILL
            assert crash.met


def test_a_crash_of_another_process_is_met() -> None:
    """A driver's test can say that it came, in the block and behind it; one that came nowhere near was not met."""
    with crash_at("before_decide", arrival=2) as crash:
        assert run_to("before_decide", times=1) == 0
        assert not crash.met
        assert run_to("before_decide", times=2) == -signal.SIGKILL
        assert crash.met
    assert crash.met
    with crash_at("before_decide", arrival=2) as again:
        assert not again.met
    assert MET_VARIABLE not in os.environ


def run_to(point: str, *, times: int) -> int:
    """A process comes to a point so many times; its exit code."""
    meet = f"from rmqspark.fault_points import fault_point; [fault_point({point!r}) for _ in range({times})]"
    return subprocess.run([sys.executable, "-c", meet], check=False).returncode
