"""`rmq config` against a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def test_settings_are_shown_with_what_they_mean(ok: Run) -> None:
    """All of a broker's, or one; by RocketMQ's name, too."""
    listed = ok("config", "get").lines
    (line,) = (line for line in listed if line.startswith("file_reserved_time "))
    assert line.split()[1:4] == ["72", "72", "h"]
    assert "How long messages are kept." in line
    one = ok("config", "get", "fileReservedTime", "--broker", "broker-a", "--json").json
    assert one == {
        "setting": "file_reserved_time",
        "rocketmqName": "fileReservedTime",
        "value": "72",
        "default": "72",
        "unit": "h",
        "live": True,
        "meaning": "How long messages are kept.",
    }
    assert "RocketMQ's name  brokerIP1" in ok("config", "get", "broker_ip1").out


def test_a_setting_is_changed_while_the_broker_runs(ok: Run, cli: Run) -> None:
    """After a yes; it is told what it was and how long it holds."""
    refused = cli("config", "set", "file_reserved_time", "48")
    assert refused.code == 2
    assert "Set file_reserved_time of broker-a from 72 to 48?" in refused.err
    done = ok("config", "set", "file_reserved_time", "48", "--yes").out
    assert "file_reserved_time of broker-a is 48 now; it was 72." in done
    assert "until the broker is started again" in done
    back = ok("config", "set", "fileReservedTime", "72", "--yes", "--json").json
    assert (back["before"], back["value"]) == ("48", "72")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("set", "listen_port", "1", "--yes"), 1, "Restart it with --listen-port 1."),
        (("set", "file_reserved_tim", "1", "--yes"), 2, "Did you mean 'file_reserved_time'?"),
        (("set", "file_reserved_time", "soon", "--yes"), 2, "'soon' in the request, but must be a whole number (h)"),
        (("get", "--broker", "broker-x"), 1, "Broker 'broker-x' is not registered."),
    ],
)
def test_mistakes(cli: Run, words: tuple[str, ...], code: int, said: str) -> None:
    """What takes a restart says so; a slip is named."""
    outcome = cli("config", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err


def test_of_several_brokers_one_has_to_be_named(processes: Processes) -> None:
    """Those that there are stand in the error."""
    with cluster(brokers=2) as mq:
        outcome = processes.run("config", "get", RMQ_NAMESRV=mq.namesrv)
        assert outcome.code == 2
        assert "Name one with --broker: broker-a, broker-b." in outcome.err
