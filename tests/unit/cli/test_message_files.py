"""Files of messages, written and read; and the order and pace of what is read from them."""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqspark.admin.console import exports
from rmqspark.admin.console.exports import as_csv, jsonl
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.cli.messages.files import Recorded, read_file
from rmqspark.cli.messages.formats import READ_COLUMNS, SOURCE_ONLY
from rmqspark.cli.messages.writers import writing
from rmqspark.cli.topic_files import at_pace
from rmqspark.client.browsing.in_time_order import in_time_order
from rmqspark.client.browsing.spans import Span
from rmqspark.errors import DecodeError, InvalidArgument
from rmqspark.model import Message, MessageQueue, ReceivedMessage
from rmqspark.sink.schema import SOURCE_ONLY as SINK_SOURCE_ONLY
from rmqspark.sink.schema import WRITTEN_COLUMNS
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.words import os_error_story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

QUEUES = [MessageQueue("t", "b", number) for number in range(3)]


def received(
    body: bytes = b"x", queue: MessageQueue = QUEUES[0], offset: int = 0, stored_ms: int = 1, **more: Any
) -> Any:
    given: dict[str, Any] = {"tags": None, "keys": [], "properties": {}, "msg_id": "id", "born_timestamp_ms": 1} | more
    return ReceivedMessage(queue.topic, body, queue=queue, queue_offset=offset, store_timestamp_ms=stored_ms, **given)


MESSAGES = [
    received(b'{"a":"\xc3\xa4"}', QUEUES[1], tags="paid", keys=["k1", "k2"], stored_ms=1_700_000_000_123, flag=7,
             properties={"TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": "U" * 32, "region": "eu", "__SHARDINGKEY": "s"}),
    received(b"\xff\x00"),
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_what_is_written_is_read_again(suffix: str, tmp_path: Path) -> None:
    """Body, tags, keys, properties, flag, queue, sharding key and time come back; what brokers make anew does not."""
    file = tmp_path / f"t.{suffix}"
    with writing(file) as writer:
        for message in MESSAGES:
            writer.write(message)
    assert list(read_file(file, None)) == [
        Recorded(
            Message("t", MESSAGES[0].body, tags="paid", keys=["k1", "k2"], properties={"region": "eu"}, flag=7),
            f"{file}, row 1",
            1,
            "s",
            1_700_000_000_123,
        ),
        Recorded(Message("t", b"\xff\x00", keys=[]), f"{file}, row 2", 0, None, 1),
    ]
    assert [recorded.message.topic for recorded in read_file(file, "other")] == ["other"] * 2


@pytest.mark.parametrize("save", [jsonl, as_csv])
def test_what_the_console_saves_is_read_too(save: Callable[[Any], bytes], tmp_path: Path) -> None:
    """As JSONL, in which it has what REST answers, everything; as CSV all that has a column there."""
    file, own = tmp_path / f"t.{save.__name__.removeprefix('as_')}", tmp_path / "own.jsonl"
    file.write_bytes(save([MessageView.of(message) for message in MESSAGES]))
    with writing(own) as writer:
        for message in MESSAGES:
            writer.write(message)
    for saved, exported in zip(read_file(file, None), read_file(own, None), strict=True):
        is_whole = save is jsonl
        message = exported.message if is_whole else replace(exported.message, properties={}, flag=0)
        expected = exported._replace(message=message, shard=exported.shard if is_whole else None)
        assert saved._replace(place="") == expected._replace(place="")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-15 00:13:20.123+02:00", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("1700000000123", 1_700_000_000_123),
    ],
)
def test_times_as_text(text: str, time_ms: int, tmp_path: Path) -> None:
    """As Spark and REST write them, in UTC where they name no zone, or in milliseconds."""
    (tmp_path / "t.jsonl").write_text(json.dumps({"body": "x", "storeTimestamp": text, "deliverTime": text}))
    (recorded,) = read_file(tmp_path / "t.jsonl", "t")
    assert (recorded.store_timestamp_ms, recorded.message.deliver_time_ms) == (time_ms, time_ms)


@pytest.mark.parametrize("value", [1_800_000_000, "1800000000", 1.8e9])
def test_a_deliver_time_in_seconds(value: object, tmp_path: Path) -> None:
    """As time.time() gives it: in milliseconds it would be long past, and the message not wait at all. Small numbers
    are as they are, and so is when a message was stored: a replay goes by what lies between."""
    (tmp_path / "t.jsonl").write_text(json.dumps({"body": "x", "deliverTime": 5, "storeTimestamp": value}))
    (recorded,) = read_file(tmp_path / "t.jsonl", "t")
    assert (recorded.message.deliver_time_ms, recorded.store_timestamp_ms) == (5, 1_800_000_000)
    (tmp_path / "t.jsonl").write_text(json.dumps({"body": "x", "deliverTime": value}))
    with pytest.raises(
        DecodeError, match="row 1: deliverTime 1800000000 looks like seconds since 1970, and is in mill"
    ):
        list(read_file(tmp_path / "t.jsonl", "t"))


@pytest.mark.parametrize("text", ["-10m", "noon", "2023-13-01"])
def test_texts_that_are_no_times(text: str, tmp_path: Path) -> None:
    """The error says what is one."""
    (tmp_path / "t.jsonl").write_text(json.dumps({"body": "x", "deliverTime": text}))
    with pytest.raises(DecodeError, match=f"row 1: deliverTime '{text}' is no time. Write 2026-"):
        list(read_file(tmp_path / "t.jsonl", "t"))


def test_a_file_that_was_not_finished_is_not_there(tmp_path: Path) -> None:
    """An export that ends with an error, or Ctrl-C, leaves what was there before and nothing else."""
    file = tmp_path / "t.jsonl"
    file.write_text("before")

    def interrupted() -> None:
        with writing(file) as writer:
            writer.write(MESSAGES[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_of_two_exports_to_one_file_the_last_is_there_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that know nothing of each other do not write into one file; nor does one take the other's away."""
    file = tmp_path / "t.jsonl"
    with writing(file) as first:
        first.write(received(b"first"))
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with writing(file) as second:
            second.write(received(b"second"))
        assert [recorded.message.body for recorded in read_file(file, None)] == [b"second"]
        first.write(received(b"first again"))
    assert [recorded.message.body for recorded in read_file(file, None)] == [b"first", b"first again"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "content", "story"),
    [
        ("t.jsonl", b"{", "line 1 is not JSON"),
        ("t.jsonl", b"[1]", "line 1 is not a JSON object"),
        ("t.jsonl", b"[" * 200_000, "line 1 is not JSON that can be read"),
        ("t.jsonl", b'{"topic":"t","body":"x","queueId":"many"}', "row 1: queueId 'many' is no whole number"),
        ("t.jsonl", b'{"topic":"t","body":"x","queueId":1e999}', "row 1: queueId inf is no whole number"),
        ("t.jsonl", b'{"topic":"t","body":"x","flag":1.5}', "row 1: flag 1.5 is no whole number"),
        ("t.jsonl", b'{"topic":"t","body":"x","flag":9223372036854775808}', "flag 9223.* no whole number of 64 bits"),
        ("t.jsonl", b'{"topic":"t","body":"x","flag":"' + b"x" * 1_000 + b'"}', "row 1: flag 'x{59} is no whole"),
        ("t.jsonl", b"\n" + b"x" * (26 << 20), "t.jsonl, line 2 is longer than"),
        ("t.jsonl", b'{"topic":"t","bodyBase64":"!!"}', "row 1: bodyBase64 '!!' is not Base64"),
        ("t.jsonl", b'{"topic":"t","bodyBase64":5}', "row 1: bodyBase64 5 is not Base64"),
        ("t.jsonl", b'{"topic":"t","body":"\\ud800"}', "row 1: The body is not valid Unicode.*bodyBase64"),
        ("t.jsonl", b'{"topic":"t","body":{"id":"\\ud800"}}', "row 1: The body is not valid Unicode"),
        ("t.jsonl", b'{"topic":"t","body":"x","keys":7}', "row 1: keys must be text or a list, not 7"),
        ("t.jsonl", b'{"topic":"t","body":"x","key":0}', "row 1: keys must be text or a list, not 0"),
        ("t.jsonl", b'{"topic":"t","body":"x","properties":[1]}', "row 1: properties must be an object"),
        ("t.csv", b"topic,body\nt,x\nt,\n", "row 2: The body is empty"),
        ("t.csv", b"topic,body\nt,x\nt\n", "row 2: The body is empty"),
        ("t.jsonl", b'{"topic":"t","body":null,"keys":"a"}', "row 1: The body is empty"),
        ("t.csv", b"topic,body\nt,x,y\n", "row 1 has more fields than the heading"),
        ("t.csv", b"topic,body\nt,\xff\n", "no CSV in UTF-8"),
        ("t.csv", b'topic,body\nt,"cut o', "no CSV.*unexpected end of data"),
        ("t.csv", b"topic,body,body\nt,x,y\n", "has two columns 'body'"),
        ("t.csv", b"topic,body,properties\nt,x,a=1\n", "row 1: properties 'a=1' cannot be read: it is not valid JSON"),
        ("t.csv", b"topic,body,properties\nt,x,[1]\n", "row 1: properties .* a JSON object is accepted"),
        ("t.csv", b"topic,body\nt," + b"x" * (7 << 20), "no CSV.*field larger"),
        ("t.parquet", b"not Parquet", "no Parquet file"),
    ],
)
def test_files_that_do_not_hold_what_they_should(name: str, content: bytes, story: str, tmp_path: Path) -> None:
    """The error names the file, and the line or row; nothing is wrong with the words that named the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DecodeError, match=story):
        list(read_file(tmp_path / name, None))


def test_a_table_with_two_columns_of_one_name(tmp_path: Path) -> None:
    """Is refused, as one of CSV is: one of the two would be left out."""
    table = pa.table([pa.array(["a"]), pa.array(["b"])], names=["body", "body"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DecodeError, match="has two columns 'body'"):
        list(read_file(tmp_path / "t.parquet", "t"))


@pytest.mark.parametrize(
    ("name", "content", "story"),
    [
        ("t.txt", b"", "neither .jsonl, .csv nor .parquet"),
        ("t.jsonl", None, "does not exist"),
        ("t.jsonl", b'{"body":"x"}', "row 1 names no topic.*--topic"),
        ("t.jsonl", b'{"topic":"mine","id":1}', "row 1 names no topic"),
        ("t.csv", b"topic,body,tgas\nt,x,paid\n", "row 1: nothing is known of column 'tgas'.*Did you mean 'tags'"),
        ("t.csv", b"topic,body,price,tgas\nt,x,1,y\n", "of columns 'price', 'tgas'. Did you mean 'tags'"),
        ("t.csv", b"topic,body,price\nt,x,1\n", "of column 'price'. Put it into body"),
        ("t.jsonl", b'{"topic":"t","body":"x"}\n{"topic":"t","body":"x","Queueid":1}', "row 2.*'Queueid'.*'queueId'"),
    ],
)
def test_files_that_other_words_would_mend(name: str, content: bytes | None, story: str, tmp_path: Path) -> None:
    """No such file, or nothing says which topic: that is a wrong command line."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidArgument, match=story):
        list(read_file(tmp_path / name, None))


def test_a_table_with_a_column_for_text_and_one_for_bytes(tmp_path: Path) -> None:
    """In each row one of them is null, or empty: the other is the body. A key that is null is none."""
    (tmp_path / "t.jsonl").write_text(
        '{"body":"x","bodyBase64":null,"keys":["a",null,""]}\n{"body":null,"bodyBase64":"/wA="}\n'
    )
    (tmp_path / "t.csv").write_text("body,bodyBase64\nx,\n,/wA=\n")
    first, second = (recorded.message for recorded in read_file(tmp_path / "t.jsonl", "t"))
    assert (first.body, first.keys, second.body) == (b"x", ["a"], b"\xff\x00")
    assert [recorded.message.body for recorded in read_file(tmp_path / "t.csv", "t")] == [b"x", b"\xff\x00"]


def test_rows_that_are_bodies(tmp_path: Path) -> None:
    """A row without a body is the body itself, whatever its columns are called."""
    (tmp_path / "t.csv").write_text("flag,queueId\nyes,none\n")
    (recorded,) = read_file(tmp_path / "t.csv", "t")
    assert json.loads(recorded.message.body) == {"flag": "yes", "queueId": "none"}
    assert recorded == Recorded(recorded.message, recorded.place, None, None, None)


def test_rows_that_are_bodies_have_what_the_table_has(tmp_path: Path) -> None:
    """In JSON that anybody reads: bytes as text or Base64, a number that is none as Spark writes it, days as such."""
    row = {
        "raw": b"\xff",
        "text": b"a",
        "nan": float("nan"),
        "deep": [{"far": float("-inf")}],
        "on": date(2026, 1, 2),
    }
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "t.parquet")
    (recorded,) = read_file(tmp_path / "t.parquet", "t")
    body = json.loads(recorded.message.body, parse_constant=pytest.fail)
    assert body == {
        "raw": "/w==", "text": "a", "nan": "NaN", "deep": [{"far": "-Infinity"}], "on": "2026-01-02"
    }  # fmt: skip


def test_maps_of_a_table_are_objects(tmp_path: Path) -> None:
    """As Spark writes them to JSON, wherever they stand; what they hold is spelled as elsewhere."""
    prices, names = pa.map_(pa.string(), pa.float64()), pa.map_(pa.int32(), pa.string())
    columns = {
        "prices": pa.array([[("a", 1.5), ("b", float("nan"))], []], prices),
        "deep": pa.array([{"m": [("k", 1.0)], "n": None}, None], pa.struct({"m": prices, "n": prices})),
        "days": pa.array([[(date(2026, 1, 2), [[(1, "x")], None])], None], pa.map_(pa.date32(), pa.list_(names))),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    rows = read_file(tmp_path / "t.parquet", "t")
    assert [json.loads(row.message.body, parse_constant=pytest.fail) for row in rows] == [
        {
            "prices": {"a": 1.5, "b": "NaN"},
            "deep": {"m": {"k": 1.0}, "n": None},
            "days": {"2026-01-02": [{"1": "x"}, None]},
        },
        {"prices": {}, "deep": None, "days": None},
    ]


def not_unicode(*values: bytes) -> Any:
    """Texts as Spark may write them: it does not look at their bytes."""
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize(
    ("column", "values", "story"),
    [
        ("tags", not_unicode(b"a", b"b", b"\xff"), "cannot be read: .*utf-8"),
        ("properties", pa.MapArray.from_arrays([0, 0, 0, 1], not_unicode(b"\xfe"), ["v"]), "cannot be read: .*utf-8"),
        ("deliverTime", pa.array([1, 2, 1 << 62], pa.timestamp("us")), "cannot be read: .*out of range"),
    ],
)
def test_a_value_that_python_has_none_for(column: str, values: Any, story: str, tmp_path: Path) -> None:
    """A text that is no Unicode, or a time in no year: the error names row and column, behind the rows before it."""
    parquet.write_table(pa.table({"body": ["1", "2", "3"], column: values}), tmp_path / "t.parquet")
    rows = read_file(tmp_path / "t.parquet", "t")
    assert [next(rows).message.body, next(rows).message.body] == [b"1", b"2"]
    with pytest.raises(DecodeError, match=f"row 3: column '{column}' {story}"):
        next(rows)


@pytest.mark.parametrize(("value", "body"), [("NaN", b"NaN"), ("-Infinity", b"-Infinity"), ("1.5", b"1.5")])
def test_a_number_that_is_a_body_is_spelled_as_within_one(value: str, body: bytes, tmp_path: Path) -> None:
    """Whoever reads a column of numbers reads one that is none as Spark writes it, too."""
    (tmp_path / "t.jsonl").write_text(f'{{"value":{value}}}')
    (recorded,) = read_file(tmp_path / "t.jsonl", "t")
    assert recorded.message.body == body


def test_a_tag_that_is_no_text_is_one(tmp_path: Path) -> None:
    """0 and false are not nothing; of two columns the one that has something counts."""
    (tmp_path / "t.jsonl").write_text(
        '{"body":"x","tags":0}\n{"body":"x","tags":"","tag":false}\n{"body":"x","tags":""}'
    )
    assert [recorded.message.tags for recorded in read_file(tmp_path / "t.jsonl", "t")] == ["0", "false", None]
    table = pa.Table.from_pylist([{"body": b"", "value": "a"}, {"body": b"b", "value": ""}])
    parquet.write_table(table, tmp_path / "t.parquet")
    assert [recorded.message.body for recorded in read_file(tmp_path / "t.parquet", "t")] == [b"a", b"b"]


@pytest.mark.parametrize("born_ms", [-1, (1 << 63) - 1, 253_402_300_800_000])
def test_a_message_that_was_born_in_no_year_is_exported(born_ms: int, tmp_path: Path) -> None:
    """When that was its sender says as it likes; one such message must not keep a topic from its file."""
    with writing(tmp_path / "t.parquet") as writer:
        writer.write(received(born_timestamp_ms=born_ms, stored_ms=5))
    (row,) = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert (row["bornTimestamp"], row["storeTimestamp"].timestamp()) == (None, 0.005)
    (recorded,) = read_file(tmp_path / "t.parquet", "t")
    assert recorded.store_timestamp_ms == 5


@pytest.mark.parametrize("named", ['"shardingKey":7', '"properties":{"__SHARDINGKEY":7}', '"shardingKey":"7"'])
def test_a_sharding_key_that_is_a_number(named: str, tmp_path: Path) -> None:
    """Is its digits, wherever it stands, as of any property; a whole number may be written as 7.0."""
    (tmp_path / "t.jsonl").write_text(f'{{"body":"x","flag":7.0,{named}}}')
    (recorded,) = read_file(tmp_path / "t.jsonl", "t")
    assert (recorded.shard, recorded.message.flag) == ("7", 7)


def test_a_sharding_key_that_is_bytes(tmp_path: Path) -> None:
    """Is their text, as a tag is: tables that know no text have it so."""
    table = pa.Table.from_pylist([{"body": "x", "tags": b"paid", "shardingKey": b"7"}])
    parquet.write_table(table, tmp_path / "t.parquet")
    (recorded,) = read_file(tmp_path / "t.parquet", "t")
    assert (recorded.message.tags, recorded.shard) == ("paid", "7")


def test_a_time_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere in `rmq`, and not what the clock on this machine's wall would say: Spark's TIMESTAMP_NTZ."""
    pa = pytest.importorskip("pyarrow")
    times = {"storeTimestamp": datetime(2026, 1, 31, 12), "deliverTime": datetime(2026, 1, 31, 13)}  # noqa: DTZ001
    columns = {name: pa.array([at], pa.timestamp("us")) for name, at in times.items()}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"body": ["x"], **columns}), tmp_path / "t.parquet")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        (recorded,) = read_file(tmp_path / "t.parquet", "t")
    finally:
        monkeypatch.undo()
        time.tzset()
    noon_ms = 1_769_860_800_000
    assert (recorded.store_timestamp_ms, recorded.message.deliver_time_ms) == (noon_ms, noon_ms + 3_600_000)


@pytest.mark.parametrize("written", ["2026-01-31T12:00:00.000Z", "2026-01-31T07:00:00.000-05:00", "2026-01-31T12:00"])
def test_a_time_may_be_written_out(written: str, tmp_path: Path) -> None:
    """As REST has it, or Spark, in its JSON and CSV; and as `--from` takes it."""
    row = {"body": "x", "storeTimestamp": written, "deliverTime": written}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    (tmp_path / "t.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    for name in ("t.jsonl", "t.csv"):
        (recorded,) = read_file(tmp_path / name, "t")
        assert (recorded.store_timestamp_ms, recorded.message.deliver_time_ms) == (1_769_860_800_000,) * 2


@pytest.mark.parametrize("written", ["-10m", "yesterday", "2026-13-01"])
def test_what_is_no_time_is_told_so(written: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"body": "x", "deliverTime": written}))
    with pytest.raises(DecodeError, match=f"row 1: deliverTime {written!r} is no time"):
        list(read_file(tmp_path / "t.jsonl", "t"))


@pytest.mark.parametrize("save", [exports.jsonl, exports.as_csv])
def test_what_the_console_has_saved_is_read(save: Callable[[list[MessageView]], bytes], tmp_path: Path) -> None:
    """It was refused: for `bodyBytes`, and for times as REST has them."""
    file = tmp_path / ("t.jsonl" if save is exports.jsonl else "t.csv")
    file.write_bytes(save([MessageView.of(each) for each in MESSAGES]))
    first, second = read_file(file, None)
    assert (first.message.topic, first.message.body, first.message.tags) == ("t", MESSAGES[0].body, "paid")
    assert (list(first.message.keys), first.queue_id, first.store_timestamp_ms) == (["k1", "k2"], 1, 1_700_000_000_123)
    assert second.message.body == b"\xff\x00"


@pytest.mark.parametrize(
    ("name", "value", "story"),
    [
        ("properties", [{"key": "region", "value": "eu"}], "properties must be an object"),  # as some write maps
        ("properties", ["ab"], "properties must be an object"),
        ("queueId", Decimal("1.5"), "queueId Decimal.* is no whole number"),
    ],
)
def test_columns_of_other_types(name: str, value: object, story: str, tmp_path: Path) -> None:
    """Are not taken for what they are not: for a property `key` that is `value`, or queue 1."""
    parquet.write_table(pa.Table.from_pylist([{"body": "x", name: value}]), tmp_path / "t.parquet")
    with pytest.raises(DecodeError, match=f"row 1: {story}"):
        list(read_file(tmp_path / "t.parquet", "t"))


def test_a_table_that_excel_wrote(tmp_path: Path) -> None:
    """Its byte order mark is no part of the first column's name."""
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfbody,tags\r\nx,paid\r\n")
    (recorded,) = read_file(tmp_path / "t.csv", "t")
    assert recorded.message == Message("t", b"x", tags="paid", keys=[])


class Consumer:
    """Stands in for a PullConsumer: gives the messages of assigned queues, `step` of each at a time."""

    def __init__(self, messages: Iterable[ReceivedMessage], step: int) -> None:
        self._messages = list(messages)
        self._step = step
        self._positions: dict[MessageQueue, int] = {}
        self.given: Counter[MessageQueue] = Counter()

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        self._positions = {queue: self._positions.get(queue, -1) for queue in queues}

    def seek(self, queue: MessageQueue, offset: int) -> None:
        self._positions[queue] = offset

    def position(self, queue: MessageQueue) -> int:
        return self._positions[queue]

    def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        for queue, at in self._positions.items():
            own = [m for m in self._messages if m.queue == queue and m.queue_offset >= at][: self._step]
            self._positions[queue] = own[-1].queue_offset + 1 if own else at
            self.given[queue] += len(own)
            found += own
        return found


@pytest.mark.parametrize("step", [1, 2, 100])
@pytest.mark.parametrize("size", [1, 5 << 20])
def test_messages_of_several_queues_in_time_order(step: int, size: int) -> None:
    """However they are read, and also where one queue waits for the others: by time, and complete up to the end."""
    times = {QUEUES[0]: [1, 4, 5, 9], QUEUES[1]: [2, 3, 3, 3, 8, 50], QUEUES[2]: []}
    messages = [
        received(b"x" * size, queue, offset, stored_ms)
        for queue, stored in times.items()
        for offset, stored_ms in enumerate(stored)
    ]
    spans = [Span(QUEUES[0], 1, 4), Span(QUEUES[1], 0, 5), Span(QUEUES[2], 0, 0)]
    ordered = list(in_time_order(Consumer(messages, step), spans))  # type: ignore[arg-type]
    assert [message.store_timestamp_ms for message in ordered] == [2, 3, 3, 3, 4, 5, 8, 9]
    assert [m.queue_offset for m in ordered if m.queue == QUEUES[1]] == [0, 1, 2, 3, 4]


def test_small_messages_that_wait_for_another_queue() -> None:
    """Of a queue whose messages are all younger no more are read ahead than there is room for, however small their
    bodies are."""
    count, step = 12_000, 1_000
    messages = [
        received(b"x", queue, offset, number * count + offset)
        for number, queue in enumerate(QUEUES[:2])
        for offset in range(count)
    ]
    consumer = Consumer(messages, step)
    ordered = in_time_order(consumer, [Span(queue, 0, count) for queue in QUEUES[:2]])  # type: ignore[arg-type]
    assert all(next(ordered).queue == QUEUES[0] for _ in range(count))
    assert consumer.given[QUEUES[1]] <= (8 << 20) // 1_024 + step
    assert sum(1 for _ in ordered) == count


def test_the_pace_of_a_replay() -> None:
    """Messages come as far apart as they were, divided by the speed; a time that has passed is not waited for."""
    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    records = [Recorded(Message("t", b"x"), "", 0, None, stored_ms) for stored_ms in (1_000, 2_000, 1_500, 11_000)]
    moments = [clock.monotonic_ms() - began_ms for _ in at_pace(records, 10, clock)]
    assert moments == [0, 100, 100, 1_000]
    with pytest.raises(InvalidArgument, match="f, row 1 has no storeTimestamp"):
        list(at_pace([Recorded(Message("t", b"x"), "f, row 1", 0, None, None)], 1, clock))
    micros = Recorded(Message("t", b"x"), "f, row 1", 0, None, 1_700_000_000_000_000)
    with pytest.raises(InvalidArgument, match="f, row 1: storeTimestamp 1700000000000000 is no time in milliseconds"):
        list(at_pace([micros], 1, clock))


def test_a_csv_field_may_be_as_long_as_a_body(tmp_path: Path) -> None:
    """Four million bytes; Python's own reader stops at 128 KiB."""
    file = tmp_path / "t.csv"
    file.write_bytes(b"topic,body\nt," + b"x" * (4 << 20))
    (record,) = read_file(file, None)
    assert len(record.message.body) == 4 << 20


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "body", [b"\x01" * (4 << 20), b'"\n' * (2 << 20), b"\xff" * (4 << 20)], ids=["control", "signs", "bytes"]
)
def test_what_is_exported_can_be_imported(suffix: str, body: bytes, tmp_path: Path) -> None:
    """Also a body as large as any, in which JSON spells each byte in six."""
    _write_all(tmp_path / f"f.{suffix}", [received(body)])
    (recorded,) = read_file(tmp_path / f"f.{suffix}", None)
    assert recorded.message.body == body


def test_a_file_may_be_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of a table is bounded by bytes, and what was read is let go."""
    monkeypatch.setattr("rmqspark.cli.messages.writers._ROW_BYTES", 1 << 20)
    monkeypatch.setattr("rmqspark.cli.messages.parquet_rows._ROW_BYTES", 1 << 20)
    draw, before = random.Random(1), pa.total_allocated_bytes()
    _write_all(tmp_path / "f.parquet", (received(draw.randbytes(1 << 18)) for _ in range(64)))
    held = [pa.total_allocated_bytes() - before for _ in read_file(tmp_path / "f.parquet", None)]
    assert len(held) == 64
    assert max(held) < 6 << 20


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_there_is_no_room_for(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk's own words under the file's own name, whatever the writer makes of it, and nothing left behind."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr("rmqspark.cli.messages.writers._ROWS", 1)
    messages = [received(random.Random(1).randbytes(1 << 20))] * 3
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, before[1]))  # beyond it a write says EFBIG, as it may ENOSPC
    try:
        with pytest.raises(OSError, match="File too large"):
            _write_all(tmp_path / f"f.{suffix}", messages)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def _write_all(file: Path, messages: Iterable[ReceivedMessage]) -> None:
    with writing(file) as writer:
        for message in messages:
            writer.write(message)


def test_what_a_link_leads_to_is_written(tmp_path: Path) -> None:
    """An export to `latest.jsonl`, a link into another directory, replaces the file there, and makes one that is not
    there yet; the link goes on being one, and nothing lies beside either."""
    (tmp_path / "days").mkdir()
    target, link = tmp_path / "days" / "monday.jsonl", tmp_path / "latest.jsonl"
    link.symlink_to(target)
    for _ in range(2):
        _write_all(link, MESSAGES)
        assert link.is_symlink()
        assert len(target.read_text().splitlines()) == len(MESSAGES)
        assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "days", target, link])


def _directory(file: Path) -> None:
    file.mkdir()


def _link_to_nowhere(file: Path) -> None:
    file.symlink_to(file.parent / "missing" / "f.jsonl")


@pytest.mark.parametrize(
    ("make", "story"),
    [
        (_directory, "orders.jsonl is a directory. Name a file in it."),
        (os.mkfifo, "orders.jsonl is no regular file. Into a pipe, messages go with: rmq consume --json."),
        (_link_to_nowhere, "missing is not a directory. Make it first"),
    ],
)
def test_what_is_no_file_to_write(make: Callable[[Path], None], story: str, tmp_path: Path) -> None:
    """It is said before anything is read, and not when all of it is written; a pipe is not taken away."""
    make(tmp_path / "orders.jsonl")
    with pytest.raises(InvalidArgument, match=story):
        writing(tmp_path / "orders.jsonl")
    assert list(tmp_path.iterdir()) == [tmp_path / "orders.jsonl"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_what_the_system_refuses_is_told_of_the_file(suffix: str, tmp_path: Path) -> None:
    """That which was asked for, whatever it was to be written with meanwhile."""
    file = tmp_path / ("x" * 240 + suffix)  # with what is put before and behind it, it is longer than a name may be
    with pytest.raises(OSError, match="File name too long") as refused:
        _write_all(file, MESSAGES)
    assert os_error_story(refused.value) == f"{file}: File name too long"
    assert list(tmp_path.iterdir()) == []


def test_properties_in_a_field_of_csv(tmp_path: Path) -> None:
    """A JSON object, or nothing."""
    file = tmp_path / "t.csv"
    file.write_text('body,properties\nx,"{""region"":""eu"",""n"":7}"\ny,\n')
    assert [each.message.properties for each in read_file(file, "t")] == [{"region": "eu", "n": "7"}, {}]


def test_unknown_columns_may_be_left_out(tmp_path: Path) -> None:
    """Where that is said; a row without a body has no unknown ones, for it is the body."""
    file = tmp_path / "t.csv"
    file.write_text("body,price\nx,1\n")
    assert [each.message.body for each in read_file(file, "t", ignores_unknown=True)] == [b"x"]
    file.write_text("id,price\n7,1\n")
    assert [each.message.body for each in read_file(file, "t")] == [b'{"id": "7", "price": "1"}']


def test_files_and_sink_know_the_same_columns() -> None:
    """What Spark writes, or passes over, a file may have, too."""
    assert {*WRITTEN_COLUMNS, *SINK_SOURCE_ONLY} <= {*READ_COLUMNS, *SOURCE_ONLY}
