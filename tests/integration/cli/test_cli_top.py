"""`rmq top` against a real cluster: one frame, a stream of them, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqspark import PullConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.clock import SystemClock
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import HALF_TOPIC
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transactions.attempt import Attempt
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.testing import cluster
from rmqspark.testing.rmq import Rmq

from ..silent_broker import silent_broker
from .conftest import COMMAND, TIMEOUT_S, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqspark.testing import LocalCluster

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration

QUICK = ("--interval", "0.2")


def test_one_frame(ok: Run, rmq: Rmq, mq: LocalCluster, topic: str) -> None:
    """What there is, for people and for programs; a group by what it has committed, a transaction that is open."""
    rmq.send(topic, *[b"x"] * 8)
    with PullConsumer(mq.namesrv, group=f"g-{topic}") as consumer:
        consumer.commit(dict.fromkeys(consumer.queues(topic), 1))
        consumer.commit({MessageQueue(HALF_TOPIC, next(iter(mq.brokers)), 0): 0})  # whoever has looked in there
    attempt = Attempt(topic, "run-1", 0, 0, "1-x", query_id=f"q-{topic}", batch_id=0)
    with ClusterClient(mq.namesrv) as client:
        write_attempt(client, SinkOptions(topic=topic), attempt, [pa.record_batch({"body": pa.array(["a", "b"])})])

    frame = ok("top", "--once", "--json", *QUICK).json
    (broker,) = frame["brokers"]
    assert (broker["brokerName"], broker["problem"], broker["ageSeconds"]) == ("broker-a", None, 0)
    assert broker["inPerSecond"] >= 0
    assert 0 < broker["diskUsed"] <= 1
    (shown,) = [each for each in frame["topics"] if each["topic"] == topic]
    assert (shown["messages"], shown["inPerSecond"]) == (8, 0)
    (reader,) = [each for each in frame["readers"] if each["name"] == f"g-{topic}"]
    assert (reader["lag"], reader["readPerSecond"], reader["caughtUpInSeconds"], reader["gains"]) == (4, 0, None, False)
    (open_,) = [each for each in frame["transactions"] if each["transactionalId"] == topic]
    assert (open_["version"], open_["rows"]) == (0, 2)
    assert (frame["halfMessages"], frame["unknown"]) == (0, [])
    told = ok("top", "--once", *QUICK).out
    assert f"g-{topic}" in told
    assert "does not catch up" in told


def frames(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def state(frame: dict[str, Any], name: str) -> str | None:
    return next((each["problem"] for each in frame["brokers"] if each["brokerName"] == name), "not there")


def test_servers_that_go_and_come_back(processes: Processes) -> None:
    """A broker's figures stay, with their age, and are new again when it answers; so does all without a name server."""
    with cluster(brokers=2) as mq, Rmq(mq) as rmq:
        rmq.create_topic("orders", queues=2)
        rmq.send("orders", *[b"x"] * 8)
        stream = frames(processes.start("top", "--json", *QUICK, RMQ_NAMESRV=mq.namesrv))
        first = next(stream)
        assert [state(first, name) for name in ("broker-a", "broker-b")] == [None, None]
        mq.stop_broker("broker-b")
        gone = next(frame for frame in stream if state(frame, "broker-b"))
        (broker,) = [each for each in gone["brokers"] if each["brokerName"] == "broker-b"]
        assert (broker["inPerSecond"], broker["ageSeconds"] > 0) == (None, True)
        assert any(each.startswith("broker-b: ") for each in gone["unknown"])
        assert gone["topics"][0]["messages"] == 8
        assert state(gone, "broker-a") is None
        mq.start_broker("broker-b")
        back = next(frame for frame in stream if state(frame, "broker-b") is None)
        assert [each["messages"] for each in back["topics"]] == [8]
        mq.stop_name_server(0)
        blind = next(frame for frame in stream if any(each.startswith("No name server") for each in frame["unknown"]))
        assert [each["messages"] for each in blind["topics"]] == [8]
        mq.start_name_server(0)
        seeing = next(frame for frame in stream if not frame["unknown"])
        assert [state(seeing, name) for name in ("broker-a", "broker-b")] == [None, None]


def test_a_broker_that_never_answered(processes: Processes) -> None:
    """It is there, and nothing is made up about it; the others are looked at all the same."""
    with cluster(brokers=1) as mq, silent_broker(mq.namesrv):
        frame = processes.run("top", "--once", "--json", *QUICK, RMQ_NAMESRV=mq.namesrv).json
    assert state(frame, "broker-a") is None
    assert "broker-x" in (state(frame, "broker-x") or "")
    (silent,) = [each for each in frame["brokers"] if each["brokerName"] == "broker-x"]
    assert (silent["inPerSecond"], silent["diskUsed"], silent["ageSeconds"]) == (None, None, None)
    assert "broker-x does not answer, and what it knows of queries and transactions is left out" in frame["unknown"]


def test_nobody_there(processes: Processes) -> None:
    """Without a name server there is nothing to show."""
    refused = processes.run("top", "--once", "--namesrv", "127.0.0.1:1")
    assert (refused.code, refused.out) == (1, "")
    assert "127.0.0.1:1" in refused.err


class Terminal:
    """`rmq top` on a terminal of 100 columns and 30 lines."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self._own, theirs = pty.openpty()
        variables = {"RMQ_NAMESRV": namesrv, "LINES": "30", "TERM": "xterm"}
        self.process = subprocess.Popen(
            [*COMMAND, "top", *QUICK],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=environment(variables),
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def wait_for(self, text: str) -> None:
        """Until it has shown this, from now on."""
        clock, self.shown = SystemClock(), ""
        deadline_ms = clock.monotonic_ms() + 1_000 * TIMEOUT_S
        while text not in self.shown:
            assert clock.monotonic_ms() < deadline_ms, self.shown
            if select.select([self._own], [], [], 1)[0]:
                self.shown += os.read(self._own, 65536).decode(errors="replace")

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it wrote at last."""
        rest = ""
        while True:
            try:
                piece = os.read(self._own, 65536).decode(errors="replace")
            except OSError:  # Linux: nobody has the other end any more
                piece = ""
            if not piece:
                break
            rest += piece
        os.close(self._own)
        return self.process.wait(TIMEOUT_S), rest


OTHER_SCREEN, SCREEN_BEFORE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.mark.parametrize(("how", "code"), [("q", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_on_a_terminal(
    mq: LocalCluster, rmq: Rmq, topic: str, tmp_path: Path, how: str | signal.Signals, code: int
) -> None:
    """Keys sort at once and q quits; Ctrl-C ends it as cleanly, and so does who kills it in order: the screen is as it
    was before, without a traceback."""
    rmq.send(topic, b"x")
    terminal = Terminal(mq.namesrv, tmp_path)
    try:
        terminal.wait_for("sorted by lag")
        assert OTHER_SCREEN in terminal.shown
        terminal.wait_for("broker-a")
        terminal.press("n")
        terminal.wait_for("sorted by name")
        if isinstance(how, signal.Signals):
            terminal.process.send_signal(how)
        else:
            terminal.press(how)
        ended, rest = terminal.end()
    finally:
        terminal.process.kill()
    assert (ended, SCREEN_BEFORE in rest, "Traceback" in rest) == (code, True, False)
