"""`rmq up`, `rmq namesrv` and `rmq broker`: starting, stopping, settings, and what keeps them from starting."""

from __future__ import annotations

import json
import os
import signal
import stat
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing.ports import reserved_port

from .conftest import FREE_PORTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

STORE_FILES = {"lock", "config", "rmqspark.json"}


def settings_of(namesrv: str, broker_name: str = "broker-a") -> dict[str, str]:
    with AdminClient(namesrv) as admin:
        return admin.broker_config(broker_name)


# --- starting and stopping -------------------------------------------------------------------------------------------


def test_it_answers_as_soon_as_it_says_so(processes: Any, tmp_path: Path) -> None:
    """endpoints.json is there when everything answers, tells where, and is gone after a clean stop."""
    server = processes.up()
    namesrv = server.namesrv
    with Producer(namesrv) as producer:
        assert producer.send(Message("hello", b"world")).queue_offset == 0
    with AdminClient(namesrv) as admin:
        assert server.endpoints == {
            "namesrv": namesrv,
            "brokers": [broker.addresses[0] for broker in admin.brokers()],
            "admin": None,
            "pids": {"namesrv": server.process.pid, "brokers": [server.process.pid], "admin": None},
        }
    assert f"--namesrv {namesrv}" in server.greeting
    assert set(os.listdir(tmp_path / "store" / "broker-a")) >= STORE_FILES
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert server.end(signal.SIGTERM) == 0
    assert os.listdir(tmp_path / "store") == ["broker-a"]
    assert "abort" not in os.listdir(tmp_path / "store" / "broker-a")
    assert "Traceback" not in processes.errors


def test_who_sends_hears_that_it_is_not_as_safe_as_it_is_to_be(processes: Any) -> None:
    """A master without its slaves stores, and says so; a send that went well is told otherwise."""
    namesrv = processes.up("--broker-role", "SYNC_MASTER").namesrv
    (processes.directory / "t.jsonl").write_text('{"topic": "t", "body": "x"}\n' * 3)
    for words, count in ((("send", "t", "x"), "1 message"), (("topic", "import", "t.jsonl"), "3 messages")):
        outcome = processes.run(*words, "--namesrv", namesrv)
        story = f"{count} stored, but not as safely as the broker is set to: SLAVE_NOT_AVAILABLE."
        assert (outcome.code, outcome.err.strip()) == (0, story)


def test_a_stop_keeps_what_was_sent_and_so_does_a_kill(processes: Any) -> None:
    """The next start has every message, after Ctrl-C as after kill -9, and its own endpoints.json."""
    for number, ending in enumerate((signal.SIGINT, signal.SIGKILL, signal.SIGTERM)):
        server = processes.up()
        with Producer(server.namesrv) as producer:
            producer.send(Message("kept", str(number).encode()), queue=0)
        with PullConsumer(server.namesrv) as consumer:
            assert consumer.max_offset(consumer.queues("kept")[0]) == number + 1
        assert server.endpoints["pids"]["namesrv"] == server.process.pid
        assert server.end(ending) in (0, -signal.SIGKILL)


def test_a_second_signal_does_not_wait(processes: Any) -> None:
    """Ctrl-C twice ends the process, although a client still waits for its answer."""
    server = processes.up("--close-timeout-ms", "50000")
    with Producer(server.namesrv) as producer, PullConsumer(server.namesrv) as consumer:
        producer.send(Message("held", b"x"))
        consumer.assign(consumer.queues("held"))
        assert consumer.poll(60_000)
        server.process.send_signal(signal.SIGSTOP)  # both signals meet a process that has handled neither
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(40) in (128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_a_relative_store_is_where_it_was_named(processes: Any, tmp_path: Path) -> None:
    """Without --store everything is in ./rmq-store, the broker's files directly in its broker-a."""
    processes.serve("up", *FREE_PORTS)
    assert set(os.listdir(tmp_path / "rmq-store" / "broker-a")) >= STORE_FILES
    assert (tmp_path / "rmq-store" / "endpoints.json").exists()


def test_the_servers_run_apart(processes: Any, tmp_path: Path) -> None:
    """A name server and a broker as processes of their own make a cluster, whatever the broker is called."""
    namesrv = processes.serve("namesrv", "--port", "0").greeting.split()[3].rstrip(".")
    processes.serve("broker", "--name", "broker-x", "--cluster", "Mine", "--port", "0", RMQ_NAMESRV=namesrv)
    with AdminClient(namesrv) as admin:
        (broker,) = admin.brokers()
        assert (broker.name, broker.cluster) == ("broker-x", "Mine")
    assert set(os.listdir(tmp_path / "rmq-store" / "broker-x")) >= STORE_FILES


def test_clients_are_told_the_advertised_host(processes: Any) -> None:
    """--advertise is what routes and endpoints.json name, whatever the servers listen on."""
    server = processes.up("--advertise", "localhost", "--host", "127.0.0.1")
    assert server.namesrv.startswith("localhost:")
    assert server.endpoints["brokers"][0].startswith("localhost:")
    with Producer(server.namesrv) as producer:
        producer.send(Message("hello", b"world"))


def test_beyond_loopback_takes_a_word_and_creates_no_topics(processes: Any) -> None:
    """With --insecure it listens on all addresses, says so in the log, and topics are not made by sending."""
    server = processes.up("--host", "0.0.0.0", "--insecure", "--advertise", "127.0.0.1")
    assert "listening without authentication" in processes.errors
    outcome = processes.run("send", "nowhere", "x", RMQ_NAMESRV=server.namesrv)
    assert "'nowhere' does not exist" in outcome.err


def test_who_starts_a_server_as_root_hears_that_there_is_no_need(processes: Any) -> None:
    """Once, though the console is a process of its own; and nobody else hears it."""
    processes.up("--admin", "--admin-port", "0")
    assert processes.errors.count("started as root") == (os.geteuid() == 0)


@pytest.mark.parametrize("words", [("--host", "localhost"), ("--advertise", "localhost")])
def test_a_message_is_found_by_its_id_wherever_its_broker_is(processes: Any, words: tuple[str, str]) -> None:
    """Known by a name, or started again with another port: it was said to be in no topic, and links of the console go
    by that id."""
    sent: Any = None
    for _ in range(2):
        server = processes.up(*words)
        sent = sent or processes.run("send", "t", "x", "--json", RMQ_NAMESRV=server.namesrv).json
        for verb in ("get", "journey"):
            found = processes.run("message", verb, sent["offsetMsgId"], RMQ_NAMESRV=server.namesrv)
            assert (found.code, sent["msgId"] in found.out) == (0, True), found.err
        server.end(signal.SIGTERM)


# --- settings --------------------------------------------------------------------------------------------------------


def test_flags_beat_the_environment_which_beats_the_file(processes: Any, tmp_path: Path) -> None:
    """The nearest source of a setting wins."""
    (tmp_path / "rmq.toml").write_text("file_reserved_time = 1\nflush_interval_commit_log = 1\nregion_id = 'file'\n")
    server = processes.up(
        "-c",
        "rmq.toml",
        "--file-reserved-time",
        "3",
        RMQ_FILE_RESERVED_TIME="2",
        RMQ_FLUSH_INTERVAL_COMMIT_LOG="2",
    )
    told = settings_of(server.namesrv)
    assert (told["fileReservedTime"], told["flushIntervalCommitLog"], told["regionId"]) == ("3", "2", "file")


def test_rmq_up_takes_each_setting_of_a_broker_as_a_flag(processes: Any) -> None:
    """By the setting's own name, those too for which it has shorter words, or none."""
    words = ("--broker-cluster-name", "ours", "--broker-name", "east@1", "--broker-ip1", "127.0.0.1")
    server = processes.up("--bind-address", "127.0.0.1", *words)
    told = settings_of(server.namesrv, "east@1")
    assert (told["brokerClusterName"], told["brokerName"], told["brokerIP1"]) == ("ours", "east@1", "127.0.0.1")


def test_a_stock_broker_conf_is_taken_as_it_is(processes: Any, tmp_path: Path) -> None:
    """The file that Apache RocketMQ ships works, with what people add to it; --store stays where it was said."""
    with reserved_port(-2) as port:
        (tmp_path / "broker.conf").write_text(
            "# as shipped\n"
            "brokerClusterName = DefaultCluster\n"
            "brokerName = broker-a\n"
            "brokerId = 0\n"
            "deleteWhen = 04\n"
            "fileReservedTime = 48\n"
            "brokerRole = ASYNC_MASTER\n"
            "flushDiskType = SYNC_FLUSH\n"
            f"brokerIP1=127.0.0.1\nlistenPort={port}\nnamesrvAddr=10.255.255.1:9876\n"
            "storePathRootDir=/nowhere/store\nstorePathCommitLog=/nowhere/store/commitlog\n"
        )
        server = processes.serve("up", "--store", "store", "--namesrv-port", "0", "--no-admin", "-c", "broker.conf")
    told = settings_of(server.namesrv)
    assert (told["flushDiskType"], told["fileReservedTime"], told["deleteWhen"]) == ("SYNC_FLUSH", "48", "04")
    assert server.endpoints["brokers"] == [f"127.0.0.1:{port}"]
    for setting in ("storePathRootDir", "namesrvAddr"):
        assert f"{setting} of broker.conf is left aside: " in processes.errors


def test_a_broker_keeps_its_store_where_its_file_says(processes: Any, tmp_path: Path) -> None:
    """Or the environment, which beats it. storePathRootDir is --store; a log somewhere else is refused rather than left
    aside."""
    namesrv = processes.serve("namesrv", "--port", "0").greeting.split()[3].rstrip(".")
    (tmp_path / "broker.conf").write_text("storePathRootDir=there\nlistenPort=0\n")
    processes.serve("broker", "-c", "broker.conf", "--namesrv", namesrv)
    assert set(os.listdir(tmp_path / "there")) >= STORE_FILES
    processes.serve("broker", "-c", "broker.conf", "--namesrv", namesrv, RMQ_STORE_PATH_ROOT_DIR="around")
    assert set(os.listdir(tmp_path / "around")) >= STORE_FILES
    (tmp_path / "apart.conf").write_text("storePathRootDir=there\nstorePathCommitLog=elsewhere\n")
    refused = processes.run("broker", "-c", "apart.conf", "--namesrv", namesrv)
    assert (refused.code, "storePathCommitLog 'elsewhere'" in refused.err) == (2, True)


# --- what keeps it from starting -------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_with_the_flag_that_changes_it(processes: Any) -> None:
    """Whatever the verb, the error says which port, and what to type for another."""
    server = processes.up()
    namesrv_port, broker_port = (
        address.rpartition(":")[2] for address in (server.namesrv, server.endpoints["brokers"][0])
    )
    free = ("--namesrv-port", "0", "--no-admin")
    for words, port, flag in [
        (("up", "--store", "other", "--namesrv-port", namesrv_port), namesrv_port, "--namesrv-port"),
        (("up", "--store", "other", *free, "--broker-port", broker_port), broker_port, "--broker-port"),
        (("namesrv", "--port", namesrv_port), namesrv_port, "--port"),
        (("broker", "--store", "other", "--port", broker_port), broker_port, "--port"),
    ]:
        outcome = processes.run(*words)
        assert outcome.code == 1
        assert f"Port {port} on 127.0.0.1 is in use." in outcome.err
        assert f"choose another with {flag} (" in outcome.err


def test_a_store_in_use_is_refused(processes: Any, tmp_path: Path) -> None:
    """Two processes never share a store, and the one that runs keeps its endpoints.json."""
    server = processes.up()
    again = processes.run("up", "--store", "store", *FREE_PORTS)
    assert (again.code, "Another rmq up has its files in store" in again.err) == (1, True)
    broker = processes.run("broker", "--store", "store/broker-a", "--port", "0", "--namesrv", server.namesrv)
    assert (broker.code, "is open in another process" in broker.err) == (1, True)
    assert json.loads((tmp_path / "store" / "endpoints.json").read_text())["namesrv"] == server.namesrv


def test_a_place_that_cannot_be_written_is_named(processes: Any, tmp_path: Path) -> None:
    """What the system refuses comes out in its words, with the path."""
    (tmp_path / "file").write_text("")
    outcome = processes.run("up", "--store", "file/store", *FREE_PORTS)
    assert outcome.code == 1
    assert "file/store: Not a directory" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("brokers", ["1", "2"])
def test_a_directory_that_takes_no_file_is_named_with_the_reason(processes: Any, tmp_path: Path, brokers: str) -> None:
    """A start that cannot be announced names the directory and what to do, not the file, which is ours."""
    (tmp_path / "store" / "endpoints.tmp" / "in the way").mkdir(parents=True)
    outcome = processes.run("up", "--store", "store", "--brokers", brokers, *FREE_PORTS)
    assert outcome.code == 1
    assert "Nothing can be written in store: Is a directory." in outcome.err
    assert "Make room on that disk" in outcome.err
    assert "--store DIR" in outcome.err
    assert "endpoints" not in outcome.err
    assert "Traceback" not in outcome.err


def test_a_start_below_the_watermark_says_so_at_once(processes: Any) -> None:
    """No message is taken from the very first on; the log says why and what to do, and reads are served."""
    server = processes.up("--min-free-bytes", str(1 << 60))
    assert "no message is taken" in processes.errors
    assert "min_free_bytes" in processes.errors
    assert "Free some space" in processes.errors
    refused = processes.run("send", "hello", "world", "--namesrv", server.namesrv)
    assert (refused.code, "The disk is full" in refused.err) == (1, True)
    assert processes.run("topic", "list", "--namesrv", server.namesrv).code == 0


def test_a_store_that_a_start_with_fewer_brokers_leaves_out_is_told(processes: Any) -> None:
    """Half of each topic is in it. One that a broker serves by itself is none of these."""
    both = processes.up("--brokers", "2")
    with AdminClient(both.namesrv) as admin, Producer(both.namesrv) as producer:
        admin.create_topic("t", queues=1)
        for queue in admin.queues("t"):
            producer.send(Message("t", b"x"), queue=queue)
    both.end(signal.SIGTERM)
    assert "is not served" not in processes.errors
    processes.up().end(signal.SIGTERM)
    told = "store/broker-b is the store of a broker, too, and is not served: nobody can read what is in it. With --brok"
    assert processes.errors.count(told) == 1
    alone = ("broker", "--name", "broker-b", "--store", "store/broker-b", "--port", "0", "--namesrv", "127.0.0.1:9")
    processes.serve(*alone)
    processes.up()
    assert processes.errors.count(told) == 1


def test_a_log_level_that_is_none_is_refused(processes: Any) -> None:
    """RMQ_LOG_LEVEL takes the usual five words."""
    outcome = processes.run("namesrv", "--port", "0", RMQ_LOG_LEVEL="loud")
    assert (outcome.code, "RMQ_LOG_LEVEL is 'loud'" in outcome.err) == (2, True)
