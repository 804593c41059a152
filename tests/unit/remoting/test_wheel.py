"""The one timer of a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.remoting.wheel import TimerWheel


class Alarm:
    """Goes off at its deadline, which may be put off meanwhile."""

    def __init__(self, deadline: int) -> None:
        self.deadline = deadline
        self.visits: list[int] = []
        self.rang_at: int | None = None

    def check(self, now: int) -> int | None:
        self.visits.append(now)
        if now >= self.deadline:
            self.rang_at = now
            return None
        return self.deadline


@pytest.mark.property
@given(st.lists(st.integers(1, 60), min_size=1, max_size=20), st.integers(2, 16))
def test_every_deadline_is_met_on_its_tick(deadlines: list[int], slots: int) -> None:
    """A limit in time holds to the tick, however long it is."""
    wheel: TimerWheel[Alarm] = TimerWheel(slots)
    alarms = [Alarm(deadline) for deadline in deadlines]
    for alarm in alarms:
        wheel.add(alarm, alarm.deadline)
    for _ in range(max(deadlines)):
        wheel.advance()
    assert [alarm.rang_at for alarm in alarms] == deadlines


def test_a_deadline_put_off() -> None:
    """A client that keeps talking is looked at once in a while and left alone."""
    wheel: TimerWheel[Alarm] = TimerWheel()
    alarm = Alarm(10)
    wheel.add(alarm, 10)
    for tick in range(1, 50):
        wheel.advance()
        alarm.deadline = tick + 10
    assert alarm.rang_at is None
    assert len(alarm.visits) < 6


def test_a_deadline_in_the_past() -> None:
    """What is overdue already comes with the next tick, not a round later."""
    wheel: TimerWheel[Alarm] = TimerWheel()
    wheel.advance()
    alarm = Alarm(0)
    wheel.add(alarm, 0)
    wheel.advance()
    assert alarm.rang_at == 2


def test_a_check_that_fails_once_costs_nobody_his_deadline() -> None:
    """Memory may be short for a moment, or the log's disk full: connections are closed in time after that."""

    class Failing(Alarm):
        def check(self, now: int) -> int | None:
            if not self.visits:
                self.visits.append(now)
                raise MemoryError
            return super().check(now)

    wheel: TimerWheel[Alarm] = TimerWheel()
    alarms = [Alarm(1), Failing(1), Alarm(1)]
    for alarm in alarms:
        wheel.add(alarm, 1)
    with pytest.raises(MemoryError):
        wheel.advance()
    wheel.advance()
    assert all(alarm.rang_at is not None for alarm in alarms)
