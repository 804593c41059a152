"""Texts of others on a real terminal, and as labels of metrics: they come out inert (F6)."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmqspark.admin.reads.metrics import metrics
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import CopiedMessage
from rmqspark.model import Message
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import HeartbeatRequestHeader

from .conftest import COMMAND, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.integration

CANARIES: Final = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[1;1H",
    "\x9b2J",
    "\u202egnp.exe\u2066",
    "[red]markup[/red]",
    "[link=http://evil.example]here[/link]",
    "<img src=x onerror=\"document.title='owned'\">",
    'a"} 1\nforged{b="',
    "a\u2028b\x85c",
)
TOPIC, GROUP = "canaries", "canary-readers"


@pytest.fixture(scope="module")
def filled(mq: LocalCluster, rmq: Rmq) -> Iterator[LocalCluster]:
    """With a canary wherever a sender, a client of RocketMQ say, or a reader may write something."""
    rmq.create_topic(TOPIC, queues=1)
    for canary in CANARIES:
        key = re.sub(r"\s", "_", canary)
        rmq.send(
            TOPIC, CopiedMessage(TOPIC, canary.encode(), tags=canary, keys=[key], properties={"of-others": canary})
        )
    with ClusterClient(mq.namesrv) as cluster:
        broker = cluster.broker("broker-a")
        for canary in CANARIES:
            consumers = [ConsumerData(GROUP, subscriptionDataSet=[SubscriptionData(TOPIC, canary)])]
            beat = HeartbeatData(canary, consumerDataSet=consumers)
            answer = broker.call(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), beat.encode(), timeout_ms=60_000)
            assert answer.code == 0
        yield mq  # while these clients are there


def on_terminal(directory: Path, *words: str) -> str:
    """What a person sees of `rmq` and these words."""
    ours, its = pty.openpty()
    own = environment({"TERM": "xterm"})
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen([*COMMAND, *words], stdin=its, stdout=its, stderr=its, cwd=directory, env=own),
    ):
        os.close(its)
        shown = b""
        with suppress(OSError):  # so a terminal says that nobody writes to it any more
            while piece := screen.read(1 << 16):
                shown += piece
    return shown.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("consume", TOPIC, "--json"),
        ("consume", TOPIC, "--format", "%k %{tags} %{of-others} %h %v\n"),
        ("message", "query", TOPIC, "-o", "0:20"),
        ("group", "describe", GROUP),
        ("topic", "describe", "".join(CANARIES)),
    ],
    ids=["json", "format", "table", "group", "error"],
)
def test_nothing_moves_the_cursor(filled: LocalCluster, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nor turns the line, nor is taken for markup; and JSON means what it meant."""
    shown = on_terminal(tmp_path, *words, "--namesrv", filled.namesrv)
    assert re.sub(r"\x1b\[\d*m|[\r\n\t]", "", shown).isprintable()  # headings are bold
    if "consume" in words or "query" in words:
        assert "[red]markup[/red]" in shown
    if words[0] == "consume" and "--json" in words:
        assert [json.loads(line)["tags"] for line in shown.splitlines()] == list(CANARIES)


def test_bytes_that_are_no_text_stay_off_the_terminal(filled: LocalCluster, tmp_path: Path) -> None:
    """A lone 0x9b begins a command to some; a pipe gets it as it is."""
    with Producer(filled.namesrv) as producer:
        producer.send(Message("bytes", b"a\x9b2Jb"))
    shown = on_terminal(tmp_path, "consume", "bytes", "--format", "%v\n", "--namesrv", filled.namesrv)
    assert shown == "a\ufffd2Jb\r\n"


def test_no_label_breaks_out(filled: LocalCluster) -> None:
    """Whatever clients call themselves, a scrape is what it was."""
    with ClusterClient(filled.namesrv) as cluster:
        text = metrics(cluster).decode()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {
        name for name in families if not name.startswith(("rocketmq_", "rmqspark_", "process_", "python_"))
    } == set()
    assert GROUP in text
    assert not any(canary in text for canary in CANARIES)
