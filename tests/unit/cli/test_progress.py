"""How far long work is, on a terminal's last line."""

from __future__ import annotations

import io
import sys

import pytest

from rmqspark.cli.terminal import progress
from rmqspark.cli.terminal.progress import counting
from rmqspark.testing.manual_clock import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(progress, "SystemClock", lambda: clock)
    return clock


def test_long_work_is_counted(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """Once it has taken a second, four times a second at most; at its end the line is free."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with counting(range(3_000), "sent") as items:
        for _ in items:
            clock.advance(ms=1)
    shown = terminal.getvalue().split("\r")
    assert shown == ["", *(f"{n:,} sent, 1,000 a second " for n in range(1_000, 3_001, 250)), "\x1b[K"]


def test_an_error_stands_alone_on_its_line(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """Whoever raises it: what is counted, or who takes it."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(OSError, match="full"), counting(range(3_000), "exported") as items:  # noqa: PT012
        for _ in items:
            clock.advance(ms=2_000)
            if terminal.getvalue():
                raise OSError("full")
    assert terminal.getvalue().endswith(" a second \r\x1b[K")


@pytest.mark.parametrize("is_long", [True, False])
def test_nothing_is_shown_in_a_log_or_of_short_work(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, is_long: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO() if is_long else Terminal())
    with counting(range(2), "sent") as items:
        for _ in items:
            clock.advance(ms=5_000 if is_long else 400)
    assert shown.getvalue() == ""
