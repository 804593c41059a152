"""`rmq bench` against servers that run, and against its own."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing.rmq import Rmq
    from tests.certificates import Authority

pytestmark = pytest.mark.integration
FEW = ("--count", "400", "--connections", "8", "--queues", "2")


def test_every_stage_has_figures(ok: Callable[..., Any], rmq: Rmq) -> None:
    """Rates, percentiles and time on a processor for sending, reading and both; the topic is gone afterwards."""
    document = ok("bench", *FEW, "--depth", "2", "--rate", "2000", "--json").json
    assert (document["own"], document["serverPids"], document["bodyBytes"]) == (False, [os.getpid()], 128)
    stages = {stage["stage"]: stage for stage in document["stages"]}
    assert list(stages) == ["producer", "consumer", "end-to-end"]
    assert stages["producer"]["messages"] >= 400
    assert stages["consumer"]["messages"] >= 400
    assert stages["end-to-end"]["messages"] >= 400
    for stage in stages.values():
        assert stage["messagesPerSecond"] > 0
        assert stage["errors"] == 0
        times = stage["latencyMicros"]
        assert 0 < times["percentiles"]["p50"] <= times["percentiles"]["p99.9"] <= times["longest"]
        assert stage["serverCpuMicros"] is not None
    assert (stages["producer"]["connections"], stages["producer"]["depth"], stages["producer"]["batch"]) == (8, 2, 1)
    assert [topic for topic in rmq.admin.topics() if topic.startswith("rmq-bench")] == []


def test_batches_to_a_topic_that_stays(ok: Callable[..., Any], rmq: Rmq, topic: str) -> None:
    """Batches are counted by their messages; a topic that was there before is there after, with what was sent."""
    outcome = ok("bench", *FEW, "--batch", "20", "--topic", topic, "--stage", "producer", "--size", "10")
    assert "producer" in outcome.out
    assert "consumer" not in outcome.out
    messages = rmq.messages(topic)
    assert len(messages) >= 400
    assert len(messages) % 20 == 0
    assert {message.body for message in messages} == {b"x" * 10}
    assert len({message.msg_id for message in messages}) == len(messages)


def test_a_backlog_is_there_before_it_is_read(ok: Callable[..., Any], rmq: Rmq, topic: str) -> None:
    """Reading alone is measured over as many messages as were asked for; what is there already counts."""
    words = ("bench", "--stage", "consumer", "--connections", "4", "--backlog", "3000", "--topic", topic, "--json")
    first, second = (ok(*words).json["stages"][0] for _ in range(2))
    assert first["messages"] == second["messages"] >= 3_000
    assert len(rmq.messages(topic)) == first["messages"]


def test_what_others_send_is_none_of_its_messages(ok: Callable[..., Any], mq: Any, topic: str) -> None:
    """Bodies of theirs hold no time; read alone, they are as large as they are."""
    stopped = threading.Event()

    def send() -> None:
        with Producer(mq.namesrv) as producer:
            while not stopped.is_set():
                producer.send_batch([Message(topic, b"tiny")] * 10)

    others = threading.Thread(target=send)
    others.start()
    try:
        stage = ok("bench", "--count", "200", "--topic", topic, "--stage", "end-to-end", "--json").json["stages"][0]
    finally:
        stopped.set()
        others.join()
    assert stage["messages"] >= 200
    assert 0 < stage["latencyMicros"]["longest"] < 600e6
    read = ok("bench", "--backlog", "1", "--topic", topic, "--stage", "consumer", "--size", "4096", "--json")
    (figures,) = read.json["stages"]
    assert figures["megabytesPerSecond"] < figures["messagesPerSecond"] * 128 / 1e6


@pytest.mark.parametrize("stage", ["producer", "consumer"])
def test_a_topic_that_is_not_to_be_written_stays_as_it_is(cli: Callable[..., Any], rmq: Rmq, stage: str) -> None:
    rmq.admin.create_topic(name := f"read-only-{stage}", 1, perm="r")
    refused = cli("bench", "--seconds", "1", "--topic", name, "--stage", stage)
    assert (refused.code, f"No queue of topic '{name}' can be sent to" in refused.err) == (1, True)
    assert stored(rmq, name) == 0


def test_where_all_is_refused_there_are_no_figures_but_a_reason(cli: Callable[..., Any]) -> None:
    words = (
        "bench",
        "--seconds",
        "1",
        "--connections",
        "1",
        "--batch",
        "2",
        "--size",
        "3000000",
        "--stage",
        "producer",
    )
    huge = cli(*words)
    assert (huge.code, huge.out, "bytes is over the limit" in huge.err) == (2, "", True), huge.err


def test_without_servers_it_starts_its_own(processes: Any) -> None:
    """Two brokers with SYNC_FLUSH for the time of the measurement; nothing of them is left."""
    words = ("bench", *FEW, "--own", "--brokers", "2", "--flush-disk-type", "SYNC_FLUSH", "--stage", "producer")
    outcome = processes.run(*words, "--json", TMPDIR=str(processes.directory))
    assert outcome.code == 0, outcome.err
    document = outcome.json
    assert (document["own"], len(document["serverPids"])) == (True, 2)
    assert list(processes.directory.glob("rmq-bench-*")) == []
    assert not any(os.path.exists(f"/proc/{pid}") for pid in document["serverPids"])


@pytest.mark.parametrize("batch", ["1", "16"])
def test_it_signs_and_encrypts_as_other_verbs(processes: Any, authority: Authority, batch: str) -> None:
    """Against servers that take nothing else, every stage; with the keys of a file, too."""
    made = authority.issue()
    (processes.directory / "guarded.toml").write_text(f"""
authentication_enabled = true
authorization_enabled = true
init_authentication_user = '{{"username":"root","password":"root-secret"}}'
tls_server_mode = "enforcing"
tls_server_cert_path = "{made.cert_path}"
tls_server_key_path = "{made.key_path}"
tls_enable = true
tls_client_trust_cert_path = "{authority.path}"
""")
    keys = processes.directory / "root.toml"
    keys.write_text('access_key = "root"\nsecret_key = "root-secret"\n')
    keys.chmod(0o600)
    around = {"RMQ_NAMESRV": processes.up("-c", "guarded.toml").namesrv}
    around |= {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_TRUST_CERT_PATH": authority.path}
    words = ("bench", *FEW, "--batch", batch, "--rate", "2000", "--depth", "2", "--json")
    outcome = processes.run("--credentials", str(keys), *words, **around)
    assert outcome.code == 0, outcome.err
    for stage in outcome.json["stages"]:
        assert (stage["messages"] >= 400, stage["errors"]) == (True, 0)
    unsigned = processes.run(*words, **around)
    assert (unsigned.code, "RMQ_ACCESS_KEY" in unsigned.err) == (1, True)


def test_its_own_servers_are_asked_without(processes: Any, authority: Authority) -> None:
    """Whatever the environment says of those that run."""
    around = {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_TRUST_CERT_PATH": authority.path}
    around |= {"RMQ_ACCESS_KEY": "a", "RMQ_SECRET_KEY": "b"}
    outcome = processes.run("bench", "--own", *FEW, "--stage", "producer", "--json", **around)
    assert outcome.code == 0, outcome.err
    assert outcome.json["stages"][0]["errors"] == 0


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_that_is_told_to_end_takes_its_topic_along(
    processes: Any, rmq: Rmq, mq: Any, ending: signal.Signals
) -> None:
    """As by a supervisor, or by closing the terminal. Ctrl-C ends the stage that runs, and gives the figures so far."""
    words = ("bench", "--seconds", "600", "--connections", "2", "--queues", "1")
    process = processes.start(*words, RMQ_NAMESRV=mq.namesrv)
    while not any(stored(rmq, topic) for topic in rmq.admin.topics() if topic.startswith("rmq-bench")):
        assert process.poll() is None
    process.send_signal(ending)
    assert process.wait(60) == 128 + ending
    printed = process.stdout.read().decode()
    assert ("producer" in printed) == (ending == signal.SIGINT)
    assert "end-to-end" not in printed
    assert [topic for topic in rmq.admin.topics() if topic.startswith("rmq-bench")] == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_one_that_ends_takes_its_servers_along(processes: Any, ending: signal.Signals) -> None:
    """No broker is left behind, also where it was killed; and no files where it could put them away."""
    process = processes.start("bench", "--own", "--seconds", "600", "--json", TMPDIR=str(processes.directory))
    while not (endpoints := list(processes.directory.glob("rmq-bench-*/store/endpoints.json"))):
        assert process.poll() is None
    pids = json.loads(endpoints[0].read_text())["pids"]["brokers"]
    process.send_signal(ending)
    assert process.wait(60) != 0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # the time limit of the test is that of this
        assert ending == signal.SIGKILL
    assert (list(processes.directory.glob("rmq-bench-*")) == []) == (ending != signal.SIGKILL)


def stored(rmq: Rmq, topic: str) -> int:
    return sum(queue.max_offset for queue in rmq.admin.topic(topic).queues)


@pytest.mark.parametrize(
    ("words", "story"),
    [
        (("--stage", "everything"), "--stage 'everything' is none of producer, consumer, end-to-end."),
        (("--brokers", "2"), "are for servers of its own"),
        (("--namesrv", "127.0.0.1:1"), "No name server answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_measured_is_said(words: tuple[str, ...], story: str, cli: Callable[..., Any]) -> None:
    """A slip is named before anything is sent."""
    outcome = cli("bench", *words)
    assert outcome.code in (1, 2)
    assert story in outcome.err
