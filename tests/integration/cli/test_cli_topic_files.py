"""`rmq topic schema`, `export`, `import` and `replay` against a real cluster."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqspark.cli.messages.sending import Addressed, send_all
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.sending.delivery import send_status
from rmqspark.client.sending.own_sends import own_send_header
from rmqspark.clock import SystemClock
from rmqspark.model import Message, MessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqspark.model import ReceivedMessage, SendReceipt
    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration

MESSAGES = [
    Message("", b'{"id": 1}', tags="paid", keys=["k1", "k2"], properties={"region": "eu", "a": "b c"}, flag=3),
    Message("", b"\xff\x00\n"),
    Message("", "zwölf\n".encode(), properties={"x": "ä"}),
    *(Message("", b"%d" % number, tags="even" if number % 2 == 0 else "odd") for number in range(50)),
]


@pytest.fixture
def copy(rmq: Rmq, topic: str) -> str:
    """The name of a second topic, with as many queues."""
    rmq.create_topic(f"{topic}-copy", queues=4)
    return f"{topic}-copy"


def fill(mq: LocalCluster, topic: str) -> None:
    with Producer(mq.namesrv) as producer:
        for message in MESSAGES:
            given = {name: getattr(message, name) for name in ("tags", "keys", "properties", "flag")}
            producer.send(Message(topic, message.body, **given), shard="s" if message.tags == "odd" else None)


def kept(message: ReceivedMessage) -> tuple[Any, ...]:
    """What a copy has of a message."""
    own = {name: message.properties.get(name) for name in ("region", "a", "x", "__SHARDINGKEY")}
    return message.body, message.tags or "", message.keys, tuple(own.values()), message.flag


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_topic_there_and_back(
    ok: Run, rmq: Rmq, mq: LocalCluster, topic: str, copy: str, suffix: str, tmp_path: Path
) -> None:
    """Bodies of any bytes, tags, keys, properties, flags and shards are in the copy as they were, queues on request."""
    fill(mq, topic)
    file = f"t.{suffix}"
    assert ok("topic", "export", topic, "-o", file, "--json").json == {"topic": topic, "file": file, "messages": 53}
    sent = ok("topic", "import", file, "--topic", copy, "--keep-queues", "--json").json
    assert sent == {"file": file, "messages": 53, "topics": {copy: 53}}
    there, back = rmq.messages(topic), rmq.messages(copy)
    without_shard = [kept(message)[:3] + kept(message)[4:] for message in there]
    assert sorted(kept(message)[:3] + kept(message)[4:] for message in back) == sorted(without_shard)
    assert sorted((m.body, m.queue.queue_id) for m in back) == sorted((m.body, m.queue.queue_id) for m in there)
    assert "53 messages" in ok("topic", "import", file, "--topic", copy).out
    spread = [kept(message) for message in rmq.messages(copy) if message not in back]
    assert sorted(spread, key=repr) == sorted(map(kept, there), key=repr)
    assert len({message.msg_id for message in rmq.messages(copy)}) == 106


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_what_only_other_clients_send_comes_back_too(
    ok: Run, cli: Run, rmq: Rmq, topic: str, copy: str, suffix: str, tmp_path: Path
) -> None:
    """RocketMQ's clients take any tag, and so does Spark's sink of what was read. Names that are never stored are left
    out, as all that RocketMQ reserves. One message of that kind keeps no topic from being copied."""
    odd = ["TAGS\x01a || b\x02", "TAGS\x01 t \x02", "KEYS\x01k\tl m\x02", "__RMQ.TRANSIENT.x\x01y\x02a\x01b\x02"]
    with ClusterClient(rmq.namesrv) as client:
        for properties in odd:
            header = own_send_header(
                MessageQueue(topic, "broker-a", 0), properties, sys_flag=0, flag=0, born_timestamp_ms=1
            )
            send_status(client.broker("broker-a").send(header, b"x", timeout_ms=5_000))
    ok("topic", "export", topic, "-o", f"t.{suffix}")
    assert ok("topic", "import", f"t.{suffix}", "--topic", copy, "--json").json["messages"] == len(odd)
    assert sorted(map(repr, map(kept, rmq.messages(copy)))) == sorted(map(repr, map(kept, rmq.messages(topic))))
    failed = cli("send", copy, "--file", f"t.{suffix}", "--json")
    assert (failed.code, "row 1: A message has one tag; 'a || b'" in failed.err) == (1, True)


def test_part_of_a_topic(ok: Run, mq: LocalCluster, topic: str, tmp_path: Path) -> None:
    """Times and tags choose; what is there already is replaced only if that is said."""
    fill(mq, topic)
    assert ok("topic", "export", topic, "-o", "t.jsonl", "--tags", "odd", "--json").json["messages"] == 25
    assert "25 messages" in ok("topic", "export", topic, "-o", "t.jsonl", "--tags", "even", "--yes").out
    assert ok("topic", "export", topic, "-o", "none.jsonl", "--to", "-1h", "--json").json["messages"] == 0
    assert (tmp_path / "none.jsonl").read_bytes() == b""


def test_mistakes(cli: Run, topic: str, tmp_path: Path) -> None:
    """A file that is there, a kind that is unknown, a topic that is not: errors that say so, and nothing is left."""
    (tmp_path / "t.jsonl").write_text("{}")
    refused = cli("topic", "export", topic, "-o", "t.jsonl")
    assert (refused.code, "Replace t.jsonl?" in refused.err) == (2, True)
    assert "neither .jsonl nor .parquet" in cli("topic", "export", topic, "-o", "t.csv").err
    assert "'nowhere' does not exist" in cli("topic", "export", "nowhere", "-o", "n.jsonl").err
    assert "--speed is above 0" in cli("topic", "replay", "t.jsonl", "--speed", "0").err
    assert "names no topic" in cli("topic", "import", "t.jsonl").err
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_table_that_is_damaged_in_the_middle(cli: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """The error says which file, and all of it that was sent is counted."""
    file = tmp_path / "t.parquet"
    bodies = [os.urandom(40) for _ in range(12_000)]
    parquet.write_table(pa.table({"body": bodies}), file, row_group_size=5_000, compression="snappy")
    last = parquet.ParquetFile(file).metadata.row_group(2).column(0)
    content = bytearray(file.read_bytes())
    begin = last.dictionary_page_offset + 32
    content[begin : begin + 10_000] = bytes(10_000)
    file.write_bytes(content)
    failed = cli("topic", "import", str(file), "--topic", topic, "--json")
    assert failed.code == 1
    assert f"{file} is no Parquet file that can be read" in failed.err
    assert failed.json["messages"] == rmq.admin.topic(topic).message_count > 0


def test_what_is_sent_of_a_file_that_cannot_be_read_on(rmq: Rmq, topic: str) -> None:
    """A disk that fails: what is on its way then has its receipts, too."""

    def messages() -> Iterator[Addressed]:
        for number in range(20):
            yield Addressed(Message(topic, b"%d" % number))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    receipts: list[SendReceipt] = []
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        receipts.extend(send_all(messages(), rmq.namesrv))
    assert len(receipts) == rmq.admin.topic(topic).message_count == 20


@pytest.mark.parametrize("refused", [0, 3, 7])
def test_all_that_is_stored_is_counted(cli: Run, rmq: Rmq, copy: str, tmp_path: Path, refused: int) -> None:
    """Where a broker refuses one of them: also of those behind it that were on their way; and which one that was is
    said."""
    rows = [f'{{"body": "{number}"}}' for number in range(8)]
    rows[refused] = '{"body": "late", "deliverTime": 99999999999999}'
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    failed = cli("topic", "import", "t.jsonl", "--topic", copy, "--json")
    stored = rmq.admin.topic(copy).message_count
    assert (failed.code, failed.json["messages"]) == (1, stored)
    assert refused <= stored <= 7
    assert f"Error: t.jsonl, row {refused + 1}: A message waits" in failed.err


def test_a_row_that_other_words_would_mend_is_no_wrong_command_line_behind_others(
    cli: Run, rmq: Rmq, copy: str, tmp_path: Path
) -> None:
    """Exit code 2 would say that nothing was done."""
    (tmp_path / "t.jsonl").write_text('{"body": "x"}\n{"body": "y", "tgas": "paid"}\n')
    failed = cli("topic", "import", "t.jsonl", "--topic", copy, "--json")
    assert (failed.code, failed.json["messages"], rmq.admin.topic(copy).message_count) == (1, 1, 1)
    assert "t.jsonl, row 2: nothing is known of column 'tgas'" in failed.err


def test_a_replay_keeps_its_pace(ok: Run, rmq: Rmq, topic: str, copy: str, tmp_path: Path) -> None:
    """Ten times as fast as stored: the last of three messages two seconds apart is due four tenths of a second on."""
    rows = [f'{{"topic": "t", "body": "{number}", "storeTimestamp": {2_000 * number}}}' for number in range(3)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    began_ms = SystemClock().now_ms()
    assert ok("topic", "replay", "t.jsonl", "--speed", "10", "--topic", copy, "--json").json["messages"] == 3
    stored = rmq.messages(copy)
    assert [message.body for message in stored] == [b"0", b"1", b"2"]
    assert stored[-1].store_timestamp_ms >= began_ms + 400


@pytest.mark.parametrize("verb", ["replay", "import"])
def test_part_of_a_file(ok: Run, cli: Run, rmq: Rmq, copy: str, tmp_path: Path, verb: str) -> None:
    """--from and --to send what was stored between them, the end left out; a row without a time is none of it."""
    rows = [f'{{"body": "{second}", "storeTimestamp": {1_000 * second}}}' for second in range(5)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    bounds = ("--from", "1000", "--to", "1970-01-01T00:00:03+00:00")
    pace = ("--speed", "1000") if verb == "replay" else ()
    assert ok("topic", verb, "t.jsonl", "--topic", copy, *bounds, *pace, "--json").json["messages"] == 2
    for none in (("--from", "-1h"), ("--to", "earliest"), ("--from", "latest")):
        assert ok("topic", verb, "t.jsonl", "--topic", copy, *none, *pace, "--json").json["messages"] == 0
    assert ok("topic", verb, "t.jsonl", "--topic", copy, "--to", "latest", *pace, "--json").json["messages"] == 5
    assert sorted(message.body for message in rmq.messages(copy)) == [b"0", b"1", b"1", b"2", b"2", b"3", b"4"]
    assert "--to 'noon' is not a moment" in cli("topic", verb, "t.jsonl", "--topic", copy, "--to", "noon").err
    (tmp_path / "t.jsonl").write_text('{"body": "x"}')
    timeless = cli("topic", verb, "t.jsonl", "--topic", copy, "--from", "-1h").err
    assert "row 1 has no storeTimestamp" in timeless
    assert "Leave --from and --to out" in timeless


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_replay_that_is_interrupted(
    processes: Any, rmq: Rmq, mq: LocalCluster, copy: str, tmp_path: Path, ending: signal.Signals
) -> None:
    """Ctrl-C ends it with 130, SIGTERM with 143, and it says what had been sent."""
    rows = [f'{{"body": "{number}", "storeTimestamp": {number * 3_600_000}}}' for number in range(2)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    running = processes.start("topic", "replay", "t.jsonl", "--topic", copy, RMQ_NAMESRV=mq.namesrv)
    while not rmq.messages(copy):  # the other one is due in an hour
        assert running.poll() is None, processes.errors
    running.send_signal(ending)
    out = running.stdout.read().decode()
    assert running.wait(60) == 128 + ending
    assert out == f"1 message of t.jsonl sent to {copy}\n"
    assert "Traceback" not in processes.errors


def test_the_schema_of_bodies(ok: Run, cli: Run, rmq: Rmq, topic: str, copy: str) -> None:
    """Prints what `.schema(...)` takes, says what it looked at, and what text and empty topics are to be read as."""
    rmq.send(topic, b'{"id": 1, "amount": 2}', b'{"id": 2, "amount": 2.5, "tags": ["x"]}', b"no JSON")
    printed = ok("topic", "schema", topic)
    assert printed.out in ("id bigint, amount double, tags array<string>\n",)
    assert f"From 3 bodies of {topic}, 1 of them no JSON objects." in printed.err
    document = ok("topic", "schema", topic, "--json").json
    assert (document["ddl"], document["sampled"], document["notJson"]) == (printed.out.strip(), 3, 1)
    assert document["fields"][2] == {"name": "tags", "type": "array<string>", "missing": 1}
    assert "has no messages" in cli("topic", "schema", copy).err
    rmq.send(copy, b"text")
    refused = cli("topic", "schema", copy)
    assert (refused.code, "valueFormat=string" in refused.err) == (1, True)
