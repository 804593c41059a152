"""`rmq send`, `rmq consume` and `rmq message get` against a real cluster."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message
from rmqspark.cli.consume import read
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.moments import EARLIEST, LATEST, Position
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.sending.own_sends import own_send_header
from rmqspark.clock import SystemClock
from rmqspark.model import MessageQueue
from rmqspark.testing import cluster
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.rmq import Rmq

from .conftest import COMMAND, environment, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing import LocalCluster

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def bodies(rmq: Rmq, topic: str) -> list[bytes]:
    return sorted(message.body for message in rmq.messages(topic))


# --- send ------------------------------------------------------------------------------------------------------------


_ODD_AND_EVEN = [{b"%d" % number for number in range(first, 20, 2)} for first in (1, 0)]


def test_arguments_are_messages(ok: Run, rmq: Rmq, topic: str) -> None:
    """Each argument is one message with the tag, keys and properties given; a receipt line says where it is."""
    sent = ok("send", topic, "eins", "zwei", "--tag", "paid", "--key", "k1", "--key", "k2", "--property", "a=b=c")
    assert sent.lines[-1] == f"2 messages sent to {topic}"
    first, second = sorted(rmq.messages(topic), key=lambda message: message.body)
    assert (first.body, first.tags, first.keys) == (b"eins", "paid", ["k1", "k2"])
    assert first.properties["a"] == "b=c"
    assert second.msg_id in sent.out


def test_lines_of_standard_input_are_messages(ok: Run, rmq: Rmq, topic: str) -> None:
    """A pipe's lines are sent as they are, bytes that are no text included; empty ones are named and left out."""
    sent = ok("send", topic, "--json", stdin=b"one\r\n\n\xff\xfe\nlast")
    assert bodies(rmq, topic) == [b"last", b"one", b"\xff\xfe"]
    assert {receipt["topic"] for receipt in sent.objects} == {topic}
    assert "Line 2 is empty" in sent.err


def test_a_format_cuts_lines_into_key_and_body(ok: Run, rmq: Rmq, topic: str) -> None:
    """`--format '%k:%v'` reads what kcat writes."""
    ok("send", topic, "--format", "%k:%v", stdin=b"42:a:b\n")
    (message,) = rmq.messages(topic)
    assert (message.keys, message.body) == (["42"], b"a:b")


def test_a_line_of_another_shape_is_named(cli: Run, rmq: Rmq, topic: str) -> None:
    """By its number: those before it are sent."""
    failed = cli("send", topic, "--format", "%k:%v", stdin=b"42:a\nno colon\n")
    assert (failed.code, bodies(rmq, topic)) == (1, [b"a"])
    assert "Line 2: 'no colon' does not have the shape of --format '%k:%v'" in failed.err


def test_a_file_of_objects_is_sent(ok: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """JSON lines with the Spark columns' names keep tags and keys; any other object is the body."""
    rows = [{"body": "x", "tags": "t", "keys": "k1 k2"}, {"id": 7}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok("send", topic, "--file", "rows.jsonl")
    by_body = {message.body: message for message in rmq.messages(topic)}
    assert (by_body[b"x"].tags, by_body[b"x"].keys) == ("t", ["k1", "k2"])
    assert b'{"id": 7}' in by_body


def test_rows_of_a_file_have_the_columns_of_the_sink(ok: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """shardingKey keeps the order of those that share it, also where it is a number; delayLevel and
    deliverTime have a message wait. The command line beats them."""
    rows: list[dict[str, Any]] = [{"body": f"{number}", "shardingKey": number % 2} for number in range(20)]
    rows += [{"body": "late", "delayLevel": 1}, {"body": "timed", "deliverTime": SystemClock().now_ms() + 1000}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok("send", topic, "--file", "rows.jsonl")
    at_once = [message for message in rmq.messages(topic) if message.body.isdigit()]
    assert [len({m.queue for m in at_once if m.body in odd_or_even}) for odd_or_even in _ODD_AND_EVEN] == [1, 1]
    assert {m.properties["__SHARDINGKEY"] for m in at_once} == {"0", "1"}
    wait_until(lambda: len(rmq.messages(topic)) == 22, "the messages with a delay have come")
    ok("send", topic, "--file", "rows.jsonl", "--queue", "2")
    assert {m.body for m in rmq.messages(topic) if m.queue.queue_id == 2} >= _ODD_AND_EVEN[0] | _ODD_AND_EVEN[1]


def test_tables_are_sent(ok: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """CSV and Parquet go the same way as JSON lines."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "rows.csv").write_text("body,tags\nc,t\n")
    parquet.write_table(pyarrow.table({"body": [b"p"], "tags": ["t"]}), tmp_path / "rows.parquet")
    ok("send", topic, "--file", "rows.csv")
    ok("send", topic, "--file", "rows.parquet")
    assert [(message.body, message.tags) for message in rmq.messages(topic)] == [(b"c", "t"), (b"p", "t")]


def test_a_shard_keeps_its_order_in_one_queue(ok: Run, rmq: Rmq, topic: str) -> None:
    """Messages that share a word share a queue; a queue can also be named."""
    ok("send", topic, "1", "2", "3", "--shard", "customer-7")
    ok("send", topic, "in-2", "--queue", "2")
    messages = {message.body: message.queue.queue_id for message in rmq.messages(topic)}
    assert len({messages[body] for body in (b"1", b"2", b"3")}) == 1
    assert messages[b"in-2"] == 2


def test_a_delay_is_waited_for(ok: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """By a level, or by a span. What comes late can be consumed as JSON and sent again, then at once."""
    ok("send", topic, "first")
    assert ok("send", topic, "late", "--delay", "1").out.endswith(
        "waits for its time\n"
    )  # its offset is of where it waits
    ok("send", topic, "later", "--delay", "1500ms")
    wait_until(lambda: len(rmq.messages(topic)) == 3, "all have come")
    waited_ms = {each.body: each.store_timestamp_ms - each.born_timestamp_ms for each in rmq.messages(topic)}
    assert waited_ms[b"late"] >= 1000
    assert waited_ms[b"later"] >= 1400  # what it takes until the client says when it was born
    shown = ok("consume", topic, "--json").lines
    (tmp_path / "late.jsonl").write_text("\n".join(shown))
    ok("send", topic, "--file", "late.jsonl")
    assert sorted(ok("consume", topic).lines) == ["first", "first", "late", "late", "later", "later"]


def test_a_delay_is_counted_by_the_broker(processes: Processes) -> None:
    """However far its clock is from the sender's: by that the message would come at once here, or be refused."""
    clock = ManualClock(SystemClock().now_ms() + 3_600_000)
    with cluster(clock=clock) as mq, Rmq(mq) as rmq:
        sent = processes.run("send", "orders", "late", "--delay", "30m", RMQ_NAMESRV=mq.namesrv)
        assert (sent.code, bodies(rmq, "orders")) == (0, [])
        clock.advance(seconds=1_801)
        wait_until(lambda: bodies(rmq, "orders") == [b"late"], "it comes")


@pytest.mark.parametrize("delay", ["19", "soon", "-1s", "4d"])
def test_a_delay_that_no_message_can_have(cli: Run, topic: str, delay: str) -> None:
    """The error says what is accepted; a broker keeps messages for three days at most."""
    failed = cli("send", topic, "x", f"--delay={delay}")
    assert failed.code == 2
    assert ("seconds at most" if delay == "4d" else f"--delay '{delay}' is neither a level nor a time") in failed.err


def test_what_was_stored_before_a_failure_is_told(cli: Run, rmq: Rmq, topic: str) -> None:
    """A body over 4 MiB is refused with its size; the messages before it are sent and have their receipts."""
    failed = cli("send", topic, "--json", stdin=b"before\n" + b"x" * (4 * 1024 * 1024 + 1) + b"\nafter\n")
    assert failed.code == 1
    assert "Error: Line 2: A message body of 4194305 bytes is over the limit of 4194304" in failed.err
    assert len(failed.objects) == 1
    assert bodies(rmq, topic) == [b"before"]


# --- consume ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_printed_to_its_end(ok: Run, rmq: Rmq, topic: str) -> None:
    """One body a line, bytes as they are, and then it stops."""
    rmq.send(topic, b"eins", "zwei", b"drei")
    assert sorted(ok("consume", topic).lines) == ["drei", "eins", "zwei"]


@pytest.mark.parametrize("words", [("consume",), ("topic", "export", "-o", "out.jsonl")], ids=["consume", "export"])
def test_a_topic_that_may_not_be_read_is_no_empty_one(
    ok: Run, cli: Run, rmq: Rmq, topic: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Its messages are there; who may only write is told so."""
    rmq.send(topic, b"x")
    ok("topic", "update", topic, "--perm", "w")
    refused = cli(*words, topic)
    assert refused.code == 1
    assert f"'{topic}' has no queue that may be read" in refused.err
    assert "--perm rw" in refused.err
    assert not (tmp_path / "out.jsonl").exists()


def test_what_is_consumed_as_json_can_be_sent_again(ok: Run, rmq: Rmq, topic: str) -> None:
    """`rmq consume --json` and `rmq send --file` fit together, properties and bytes that are no text included."""
    rmq.send(topic, Message(topic, b"\xff", tags="t", keys=["k"], properties={"a": "b"}))
    (shown,) = ok("consume", topic, "--json").objects
    assert (shown["topic"], shown["bodyBase64"], shown["tags"], shown["keys"]) == (topic, "/w==", "t", "k")
    assert shown["properties"]["a"] == "b"


@pytest.mark.parametrize("how", [("--json",), ("--format", "%v %{tags}\\n")], ids=["json", "format"])
def test_a_locale_without_the_characters_loses_none(ok: Run, rmq: Rmq, topic: str, how: tuple[str, ...]) -> None:
    """In a cron job or a container with no locale the output is UTF-8 all the same, as bodies are that come raw."""
    rmq.send(topic, Message(topic, "grün 😀".encode(), tags="größe"))
    assert "grün 😀" in ok("consume", topic, *how, PYTHONIOENCODING="ascii").out


@pytest.mark.parametrize("begin", [EARLIEST, LATEST, Position(offset=-1)], ids=["earliest", "latest", "last"])
def test_who_follows_a_topic_reads_the_queues_it_gets(rmq: Rmq, begin: Position, topic: str) -> None:
    """A topic that grows, or a broker that comes: all that has come there since, whatever it began with."""
    assert followed(rmq, begin, topic) == [b"0", b"1", b"2"]


def test_who_follows_a_topic_reads_all_of_later_queues_though_clocks_differ() -> None:
    """What a broker has stored since is earlier by its clock than the beginning by that of who follows."""
    clock = ManualClock(SystemClock().now_ms() - 30_000)
    with cluster(clock=clock) as mq, Rmq(mq) as rmq:
        rmq.create_topic("orders")
        assert followed(rmq, LATEST, "orders") == [b"0", b"1", b"2"]


def followed(rmq: Rmq, begin: Position, topic: str) -> list[bytes]:
    """What is read of a topic that gets a queue meanwhile, and three messages, two of them there."""
    with PullConsumer(rmq.namesrv) as consumer, Producer(rmq.namesrv) as producer:
        batches = read(consumer, topic, begin, None, follow=True, resume=False)
        assert next(batches).messages == []
        rmq.admin.update_topic(topic, queues=5)
        for body in (b"1", b"2"):
            producer.send(Message(topic, body), queue=4)
        consumer._cluster.expire_route(topic)  # it is half a minute old by then
        producer.send(Message(topic, b"0"), queue=0)
        found: list[bytes] = []
        for batch in batches:
            found += [message.body for message in batch.messages]
            if len(found) >= 3 or not batch.messages:
                break
    return sorted(found)


def test_a_format_keeps_bodies_that_are_no_text(ok: Run, rmq: Rmq, topic: str, tmp_path: Path) -> None:
    """Into a pipe and out of one, as without a format: `rmq send --format` stores the bytes it is given."""
    ok("send", topic, "--format", "%k:%v", stdin=b"k:\xff\xfe:\xc3\xa4\n")
    (stored,) = rmq.messages(topic)
    assert (stored.keys, stored.body) == (["k"], b"\xff\xfe:\xc3\xa4")
    for words in ((), ("--raw",)):
        ok("consume", topic, "--format", "%k:%v\\n", *words, output=tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == b"k:\xff\xfe:\xc3\xa4\n"


def test_ranges_formats_tags_and_counts(ok: Run, rmq: Rmq, topic: str) -> None:
    """The options that choose messages do what kcat's and rpk's do."""
    for number in range(6):
        tags = "even" if number % 2 == 0 else "odd"
        rmq.send(topic, Message(topic, f"{number}".encode(), tags=tags, properties={"number": str(number)}))
    everything = ok("consume", topic, "--format", r"%p %o %v %{tags}\n").lines
    assert len(everything) == 6
    assert all(line.endswith("even") == (int(line.split()[2]) % 2 == 0) for line in everything)
    assert sorted(ok("consume", topic, "--tags", "odd").lines) == ["1", "3", "5"]
    assert sorted(ok("consume", topic, "--sql", "number > 2 AND TAGS = 'even'").lines) == ["4"]
    assert len(ok("consume", topic, "-n", "2").lines) == 2
    firsts = ok("consume", topic, "-o", "0:1", "--format", r"%p\n").lines
    assert sorted(firsts) == ["0", "1", "2", "3"]
    assert sorted(ok("consume", topic, "-o", "+1", "--format", r"%o\n").lines) == ["1", "1"]
    assert ok("consume", topic, "-o", "end").lines == []
    assert ok("consume", topic, "-o", "s@-1h", "-o", "e@-1m").lines == []
    assert len(ok("consume", topic, "--from", "-10m").lines) == 6
    assert ok("consume", topic, "--to", "-10m").lines == []


def test_a_group_goes_on_where_it_stopped(ok: Run, rmq: Rmq, topic: str) -> None:
    """Only what was printed counts as consumed: nothing is left out, nothing comes twice."""
    rmq.send(topic, *[f"{number}" for number in range(10)])
    parts = [ok("consume", topic, "--group", f"g-{topic}", "-n", "3").lines for _ in range(2)]
    parts.append(ok("consume", topic, "--group", f"g-{topic}").lines)
    assert [len(part) for part in parts] == [3, 3, 4]
    assert sorted(chain.from_iterable(parts), key=int) == [f"{number}" for number in range(10)]
    assert rmq.admin.group(f"g-{topic}").lag == 0
    assert len(ok("consume", topic, "--group", f"g-{topic}", "--from", "earliest").lines) == 10


def test_stored_is_where_a_group_has_come(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """As kcat has it; of nobody it is nothing."""
    rmq.send(topic, *[f"{number}" for number in range(6)])
    parts = [ok("consume", topic, "--group", f"g-{topic}", "-o", "stored", "-n", "4").lines for _ in range(2)]
    assert [len(part) for part in parts] == [4, 2]
    refused = cli("consume", topic, "-o", "stored")
    assert refused.code == 2
    assert "--group" in refused.err
    assert cli("consume", topic, "--group", f"g-{topic}", "-o", "stored", "--from", "-1h").code == 2


def test_following_prints_at_once_and_ends_cleanly(processes: Any, mq: LocalCluster, rmq: Rmq, topic: str) -> None:
    """With -f a message is out as soon as it is sent, and Ctrl-C ends with 130 and no traceback."""
    rmq.send(topic, b"first")
    process = processes.start("consume", topic, "-f", "--group", f"g-{topic}", RMQ_NAMESRV=mq.namesrv)
    assert process.stdout.readline() == b"first\n"
    rmq.send(topic, b"second")
    assert process.stdout.readline() == b"second\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "Traceback" not in processes.errors


def test_following_outlives_a_restart_of_the_broker(processes: Any) -> None:
    """It says that the broker is away, goes on when it is back, and commits what it printed before and after."""
    with cluster(brokers=1) as mq, Rmq(mq) as rmq:
        rmq.create_topic("followed", queues=1)
        process = processes.start("consume", "followed", "-f", "--group", "tail", RMQ_NAMESRV=mq.namesrv)
        rmq.send("followed", b"before")
        assert process.stdout.readline() == b"before\n"
        mq.stop_broker("broker-a")
        while "tried again every second" not in processes.errors:
            assert process.poll() is None
        mq.start_broker("broker-a")
        rmq.send("followed", b"after")
        assert process.stdout.readline() == b"after\n"
        while rmq.admin.group("tail").lag != 0:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.parametrize(
    "words",
    [
        *(("consume", "{topic}", "-f"), ("message", "query", "{topic}", "-o", "0:", "--json"), ("topic", "list")),
        *(("send", "{topic}", "x", "--json"), ("topic", "--help"), ("--help",), ("--version",)),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_seen_enough_ends_it_quietly(
    processes: Any, mq: LocalCluster, rmq: Rmq, topic: str, words: tuple[str, ...]
) -> None:
    """`rmq ... | head` ends as `cat ... | head` does: no traceback, no complaint, exit code 141."""
    rmq.send(topic, b"first")
    process = processes.start(*[word.format(topic=topic) for word in words], RMQ_NAMESRV=mq.namesrv)
    process.stdout.close()
    rmq.send(topic, b"second", b"third")
    assert process.wait(60) == 141
    assert processes.errors == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="stands in for a full disk")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words", [("consume", "{topic}"), ("topic", "list", "--json"), ("topic", "--help"), ("--version",)], ids=" ".join
)
def test_output_that_there_is_no_room_for(
    cli: Run, rmq: Rmq, topic: str, words: tuple[str, ...], unbuffered: str
) -> None:
    """`rmq ... > file` on a full disk fails with the system's words and what to do, and not in silence."""
    rmq.send(topic, b"first")
    words = tuple(word.format(topic=topic) for word in words)
    outcome = cli(*words, output=Path("/dev/full"), PYTHONUNBUFFERED=unbuffered)
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "Error: No space left on device",
        "  The disk is full: make room on it, or use another place.",
    ]


@pytest.mark.parametrize("words", [("topic", "list"), ("topic", "--help"), ("--version",)], ids=" ".join)
def test_output_that_is_closed(mq: LocalCluster, words: tuple[str, ...]) -> None:
    """`rmq ... >&-` does what it is told and prints nothing."""
    closed = ("sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *words)
    done = subprocess.run(
        closed, env=environment({"RMQ_NAMESRV": mq.namesrv}), stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_group_commits_nothing_where_output_is_closed(mq: LocalCluster, rmq: Rmq, topic: str) -> None:
    """What it commits is what it has printed, and `>&-` is nowhere; `>/dev/null` is somewhere."""
    rmq.send(topic, b"first")
    words = ("consume", topic, "--group", f"closed-{topic}")
    for to, code, committed in ((">&-", 2, None), (">/dev/null", 0, 1)):
        done = subprocess.run(
            ("sh", "-c", f'exec "$@" {to}', "sh", *COMMAND, *words),
            env=environment({"RMQ_NAMESRV": mq.namesrv}), stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        with PullConsumer(mq.namesrv, group=words[-1]) as consumer:
            offsets = {consumer.committed(queue) for queue in consumer.queues(topic)}
        assert max((offset or 0 for offset in offsets), default=0) == (committed or 0)


def test_input_that_is_closed_is_an_empty_one(mq: LocalCluster, topic: str) -> None:
    """`rmq send topic <&-`, as services start things, sends nothing, like `</dev/null`."""
    done = subprocess.run(
        ("sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "send", topic),
        env=environment({"RMQ_NAMESRV": mq.namesrv}), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


# --- message get, query ----------------------------------------------------------------------------------------------


def test_a_message_is_found_by_either_id(ok: Run, cli: Run, topic: str) -> None:
    """The two ids of a receipt lead to the message, with where it is and what it holds."""
    receipt = ok("send", topic, "body", "--key", "k", "--json").json
    by_offset = ok("message", "get", receipt["offsetMsgId"], "--json").json
    by_unique = ok("message", "get", receipt["msgId"], "--topic", topic, "--json").json
    assert by_offset == by_unique
    assert (by_offset["body"], by_offset["keys"], by_offset["offsetMsgId"]) == ("body", "k", receipt["offsetMsgId"])
    shown = ok("message", "get", receipt["msgId"])
    assert f"offset {receipt['queueOffset']}" in shown.out
    assert shown.lines[-1] == "body"
    alone = ok("message", "get", ok("send", topic, "x", "--json").json["msgId"]).out
    assert {" ".join(line.split()) for line in alone.splitlines()} >= {"body 1 byte", "consumed again 0 times"}


def test_a_message_may_be_born_at_any_time(ok: Run, mq: LocalCluster, rmq: Rmq, topic: str) -> None:
    """Its sender says when: what no calendar has is shown as the number that it is."""
    header = own_send_header(MessageQueue(topic, "broker-a", 0), "", sys_flag=0, flag=0, born_timestamp_ms=1 << 62)
    with ClusterClient(mq.namesrv) as client:
        client.broker("broker-a").send(header, b"x", timeout_ms=10_000).raise_for_code()
    (message,) = rmq.messages(topic)
    for verb in ("get", "journey"):
        assert str(1 << 62) in ok("message", verb, message.offset_msg_id).out


def test_where_nothing_is_the_answer_says_what_there_is(ok: Run, cli: Run, topic: str) -> None:
    """Behind the end of every queue, or of the log: which offsets there are, or that there are none."""
    beyond = ("message", "query", topic, "-o", "1000")
    assert ok(*beyond).out == f"No such message is in topic {topic}. It is empty.\n"
    sent = ok("send", topic, "x", "--json").json
    place = f"{sent['brokerName']}/{sent['queueId']}"
    assert ok(*beyond).out == f"No such message is in topic {topic}. There are offsets: {place} 0.\n"
    assert ok(*beyond, "--json").json == []
    stored = sent["offsetMsgId"]
    behind, within = f"{stored[:-16]}{1 << 40:016X}", f"{stored[:-16]}{int(stored[-16:], 16) + 1:016X}"
    assert re.search(
        r"no message at 1099511627776.\n  Its log goes from 0 to [0-9]+.$", cli("message", "get", behind).err
    )
    assert "The id is of no message: none begins there." in cli("message", "get", within).err


def test_messages_are_found_by_a_key(ok: Run, cli: Run, topic: str) -> None:
    """All that have it, oldest first, with where they are; part of them by time; none is a sentence."""
    first = ok("send", topic, "body\nof 42", "--key", "42", "--key", "x", "--json").json
    ok("send", topic, "other", "--key", "43")
    last = ok("send", topic, "y" * 500, "--key", "42", "--json").json
    found = ok("message", "query", topic, "--key", "42", "--json").json
    assert [message["msgId"] for message in found] == [first["msgId"], last["msgId"]]
    assert found[0]["offsetMsgId"] == first["offsetMsgId"]
    shown = ok("message", "query", topic, "--key", "42").out
    assert "body of 42" in shown
    assert "y" * 60 + " ..." in shown
    assert "y" * 61 not in shown
    stored = str(found[1]["storeTimestamp"])
    later = ok("message", "query", topic, "--key", "42", "--from", stored, "--json").json
    earlier = ok("message", "query", topic, "--key", "42", "--to", stored, "--json").json
    assert [later[-1]["msgId"], earlier[0]["msgId"]] == [last["msgId"], first["msgId"]]
    assert len(later) + len(earlier) == 2
    assert "No message with key none" in ok("message", "query", topic, "--key", "none").out
    assert cli("message", "query", "no-such-topic", "--key", "42").code == 1


def test_messages_are_found_by_offset_and_by_time(ok: Run, cli: Run, topic: str) -> None:
    """Of all queues, oldest first, as many as are asked for; which ones has to be said."""
    receipts = [ok("send", topic, str(number), "--json").json for number in range(5)]
    first, fourth = receipts[0], receipts[3]

    def bodies(*words: str) -> list[str]:
        return [message["body"] for message in ok("message", "query", topic, *words, "--json").json]

    at_same_offset = [str(n) for n, each in enumerate(receipts) if each["queueOffset"] == first["queueOffset"]]
    assert bodies("-o", f"{first['queueOffset']}:{first['queueOffset'] + 1}") == at_same_offset
    assert bodies("--from", "-1h") == ["0", "1", "2", "3", "4"]
    assert bodies("--from", "-1h", "-n", "2") == ["0", "1"]
    stored = str(ok("message", "get", fourth["offsetMsgId"], "--json").json["storeTimestamp"])
    assert bodies("--from", stored)[-1] == "4"
    assert bodies("--to", stored)[:1] == ["0"]
    assert len(bodies("--from", stored)) + len(bodies("--to", stored)) == 5
    assert "not said which messages" in cli("message", "query", topic).err
    assert "excludes --offset" in cli("message", "query", topic, "--key", "42", "-o", "1").err
    assert cli("message", "query", "no-such-topic", "-o", "1").code == 1


def test_a_journey(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """A story for people, in the order of time, and all of it for programs."""
    (receipt,) = rmq.send(topic, Message(topic, b"x", tags="paid", keys=["42"]))
    rmq.give_up(f"g-{topic}", *rmq.messages(topic))
    told = ok("message", "journey", receipt.msg_id, "--topic", topic)
    assert f"{receipt.queue}, offset 0" in told.out
    rows = [line.split("  ") for line in told.lines if line.startswith("20")]
    assert [[cell.strip() for cell in row if cell][1] for row in rows] == ["sent", "stored", "dead letter"]
    assert "Unknown" not in told.out
    document = ok("message", "journey", receipt.offset_msg_id, "--json").json
    assert (document["message"]["msgId"], document["place"]["offsetMsgId"]) == (receipt.msg_id, receipt.offset_msg_id)
    assert [(each["group"], each["isDeadLetter"], each["times"]) for each in document["returns"]] == [
        (f"g-{topic}", True, 1)
    ]
    assert [each["what"] for each in document["events"]] == ["sent", "stored", "dead letter"]
    assert (document["writtenBy"], document["batches"], document["unknown"]) == (None, [], [])


def test_the_journey_of_a_message_that_waits(ok: Run, rmq: Rmq, topic: str) -> None:
    """Nobody can read it yet; it says until when."""
    (receipt,) = rmq.send(topic, Message(topic, b"x", delay_level=18))
    told = ok("message", "journey", receipt.offset_msg_id)
    assert f"not readable, it waits for topic {topic}" in told.out
    assert "delay level 18, 20" in told.out
    assert "Nobody can read it yet." in told.out
    assert ok("message", "journey", receipt.msg_id, "--topic", topic).out == told.out
