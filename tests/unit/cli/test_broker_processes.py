"""What `rmq up --brokers N` decides without any process: pauses, ports, and what it says to its brokers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.processes.children import how_it_ended
from rmqspark.cli.processes.reports import Report
from rmqspark.cli.processes.respawn import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, STEADY_MS, Backoff
from rmqspark.cli.servers.making import BrokerSettings
from rmqspark.cli.up.broker_order import BrokerOrder
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig


def test_pauses_double_up_to_half_a_minute() -> None:
    """A broker that cannot start is not tried again and again without pause, and never given up."""
    backoff = Backoff()
    assert [backoff.pause_ms(0) for _ in range(9)] == [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]


def test_after_a_steady_run_the_next_start_comes_at_once() -> None:
    """A broker killed once a day is back within a quarter of a second, however often that was."""
    backoff = Backoff()
    backoff.pause_ms(0)
    assert [backoff.pause_ms(STEADY_MS) for _ in range(3)] == [FIRST_PAUSE_MS] * 3


@given(st.lists(st.integers(0, 2 * STEADY_MS)))
def test_pauses_are_bounded(runs_ms: list[int]) -> None:
    """Whatever happens, no pause is shorter than the first nor longer than the longest."""
    backoff = Backoff()
    assert all(FIRST_PAUSE_MS <= backoff.pause_ms(ran_ms) <= LONGEST_PAUSE_MS for ran_ms in runs_ms)


def test_a_broker_is_told_every_setting() -> None:
    """What was chosen by file, environment and flags arrives in the process as it was chosen."""
    settings = BrokerSettings(
        BrokerConfig(broker_name="broker-b", listen_port=10921, auto_create_topic_enable=False),
        StoreConfig(flush_disk_type="SYNC_FLUSH"),
        Limits(max_connections=7),
    )
    order = BrokerOrder(settings, Path("/data/ä b"))
    line = order.encode()
    assert BrokerOrder.decode(line) == order
    assert line.count(b"\n") == 1
    assert order.on_port(4711).settings.broker.listen_port == 4711


@pytest.mark.parametrize("report", [Report("127.0.0.1:10911"), Report(problem="No.", hint="Try\nagain.")])
def test_reports_are_one_line(report: Report) -> None:
    """Whatever a broker has to say comes back as it was said."""
    line = report.encode()
    assert "\n" not in line
    assert Report.decode(line.encode()) == report


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-127, "was killed by signal 127"),
    ],
)
def test_ends_are_named(code: int, told: str) -> None:
    """Signals by their names, where they have one."""
    assert how_it_ended(code) == told
