"""What a user may ask the sink for, and what each mistake is answered with."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructType

from rmqspark.errors import InvalidArgument
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.schema import check_columns
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.writer import check_write
from rmqspark.source.values.schema import default_schema


def test_everything_that_can_be_set() -> None:
    """Names in any case, sizes with units, and what Spark itself puts among the options."""
    options = SinkOptions.parse(
        {
            "TOPIC": "t",
            "namesrvAddr": "h:1",
            "partitioner": "roundrobin",
            "compression": "ZSTD",
            "batchBytes": "512k",
            "autoCreateTopic": "true",
            "queues": "3",
            "deliveryGuarantee": "at-least-once",
            "checkpointLocation": "/x",
            "queryName": "q",
        },
        streaming=True,
    )
    assert options == SinkOptions("h:1", "t", "roundRobin", "zstd", 512 << 10, True, 3, streaming=True)


def test_name_servers_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """$RMQ_NAMESRV is read where the write is planned and travels with it: an executor elsewhere has another one."""
    monkeypatch.setenv("RMQ_NAMESRV", "driver:9876")
    options = SinkOptions.parse({"topic": "t"}, streaming=False)
    monkeypatch.delenv("RMQ_NAMESRV")
    assert pickle.loads(pickle.dumps(options)).namesrv == "driver:9876"
    with pytest.raises(InvalidArgument, match="namesrv 'nowhere' is not an address.*host:port"):
        SinkOptions.parse({"topic": "t", "namesrv": "nowhere"}, streaming=False)


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"topik": "t"}, "sink has no option 'topik'.*Did you mean 'topic'"),
        ({"topic": "a b"}, "characters that are not allowed"),
        ({"topic": "%RETRY%billing"}, "for messages that consumers of its group send back"),
        ({"batchBytes": "1"}, "between 65536 and 8388608"),
        ({"batchBytes": "big"}, "a number of bytes"),
        ({"compression": "gzip"}, "none, zlib, lz4, zstd is accepted"),
        ({"autoCreateTopic": "true", "queues": "100000000"}, "a whole number, 1 to 65536, is accepted"),
        ({"subscribe": "t"}, "sink has no option 'subscribe'. Use topic"),
        ({"subscribePattern": "t"}, "sink has no option 'subscribePattern'. Use topic"),
        ({"assign": "t"}, "sink has no option 'assign'. Use topic"),
        ({"topic": "t", "group": "g"}, "sink has no option 'group'. Leave it out: transactionalId"),
        ({"topic": "t", "tags": "paid"}, "sink has no option 'tags'. Write a column tags"),
        ({"topic": "t", "valueFormat": "json"}, "no option 'valueFormat'.*to_json"),
        ({"queues": "4"}, "'queues' has no meaning without autoCreateTopic"),
        ({"topic": "t", "path": "u"}, "mean the same"),
        ({"kafka.bootstrap.servers": "h"}, "namesrv"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], story: str) -> None:
    """A mistyped or malformed option is an error that names it and says what is right."""
    with pytest.raises(InvalidArgument, match=story):
        SinkOptions.parse(given, streaming=False)


NIGHTLY = {"transactionalId": "nightly", "transactionVersion": "7"}


@pytest.mark.parametrize(
    ("given", "streaming", "meant"),
    [
        ({}, True, TransactionOptions()),
        ({}, False, None),
        ({"deliveryGuarantee": "at-least-once"}, True, None),
        ({"deliveryGuarantee": "exactly-once"}, True, TransactionOptions()),
        ({"transactionalId": "bill"}, True, TransactionOptions("bill")),
        (NIGHTLY, False, TransactionOptions("nightly", 7)),
        ({"txnAppId": "nightly", "txnVersion": "7"}, False, TransactionOptions("nightly", 7)),
        ({**NIGHTLY, "transactionVersion": str(2**63 - 1)}, False, TransactionOptions("nightly", 2**63 - 1)),
        (
            {**NIGHTLY, "onStaleVersion": "skip", "onReplayMismatch": "fail"},
            False,
            TransactionOptions("nightly", 7, skip_stale=True, fail_on_mismatch=True),
        ),
    ],
)
def test_which_guarantee_a_write_has(given: dict[str, str], streaming: bool, meant: TransactionOptions | None) -> None:
    """A batch write is exactly-once where it has an id and a version, one pair of which serves Delta too."""
    assert SinkOptions.parse(given, streaming=streaming).transaction == meant


@pytest.mark.parametrize(
    ("given", "streaming", "story"),
    [
        ({"deliveryGuarantee": "exactly-once"}, False, "needs 'transactionalId'"),
        ({"transactionalId": "nightly"}, False, "needs 'transactionVersion'"),
        ({"transactionVersion": "7"}, False, "no meaning for an at-least-once write"),
        (
            {**NIGHTLY, "deliveryGuarantee": "at-least-once"},
            False,
            "'transactionalId' has no meaning for deliveryGuarantee=at-least-once",
        ),
        (NIGHTLY, True, "versions are its batch ids"),
        ({"transactionalId": "x" * 256}, True, "transactional id"),
        ({"transactionalId": "a\x02b"}, True, "transactional id"),
        ({**NIGHTLY, "transactionVersion": "-1"}, False, "0 to 9223372036854775807"),
        ({**NIGHTLY, "transactionVersion": "9223372036854775808"}, False, "0 to 9223372036854775807"),
    ],
)
def test_guarantees_that_contradict_themselves(given: dict[str, str], streaming: bool, story: str) -> None:
    """A version without an id, or on a stream, is an error: nobody gets less than was asked for without being told."""
    with pytest.raises(InvalidArgument, match=story):
        SinkOptions.parse(given, streaming=streaming)


BODY = StructType().add("body", "binary")


@pytest.mark.parametrize(
    ("schema", "options", "story"),
    [
        (StructType().add("tags", "string"), {}, "no column to write"),
        (StructType().add("body", "binary").add("value", "string"), {}, "'body' and 'value' mean the same"),
        (StructType().add("body", "binary").add("body", "string"), {}, "two columns 'body'; keep one of them"),
        (default_schema().add("flag", "integer"), {}, "two columns 'flag'; keep one of them"),
        (StructType().add("body", "integer"), {}, "'body' must be string or binary, not int. Cast it first"),
        (StructType().add("body", BODY), {}, r"not struct<body:binary>. Make it JSON: to_json\(body\) AS body"),
        (StructType().add("body", "binary").add("price", "double"), {}, "no column 'price'. Put it into body .to_json"),
        (StructType().add("body", "binary").add("tag", "string"), {}, "Did you mean 'tags'"),
        (StructType().add("value", "binary").add("key", "string"), {}, "'key'.*'shardingKey', by which.*or 'keys'"),
        (StructType().add("value", "binary").add("partition", "integer"), {}, "'queueId', with option partitioner=col"),
        (StructType().add("value", "binary").add("headers", "string"), {}, "Did you mean 'properties', a map"),
        (
            StructType().add("body", "binary").add("keys", ArrayType(IntegerType())),
            {},
            "'keys' must be string or array<string>",
        ),
        (
            StructType().add("body", "binary").add("properties", MapType(StringType(), IntegerType())),
            {},
            "must be map<string,string>",
        ),
        (StructType().add("body", "binary").add("delayLevel", "string"), {}, "'delayLevel' must be int or bigint"),
        (StructType().add("body", "binary").add("deliverTime", "string"), {}, "'deliverTime' must be timestamp, or"),
        (BODY, {"topic": None}, "No topic to write to.*Spark keeps no options of a catalog table"),
        (BODY, {"partitioner": "column"}, "needs a column 'queueId'"),
    ],
)
def test_frames_that_do_not_fit_are_refused(schema: StructType, options: dict[str, str | None], story: str) -> None:
    """A DataFrame that cannot be written is an error that names the column, before anything is sent."""
    with pytest.raises(InvalidArgument, match=story):
        check_columns(schema, SinkOptions(**({"topic": "t"} | options)))  # type: ignore[arg-type]


def test_the_default_partitioner_may_be_named() -> None:
    """hash needs no shardingKey: without one rows take turns, as they do where no partitioner is named."""
    check_columns(BODY, SinkOptions.parse({"topic": "t", "partitioner": "hash"}, streaming=False))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("delayLevel", "integer"), ("delayLevel", "long"), ("deliverTime", "timestamp"), ("deliverTime", "long")],
)
def test_delays_are_columns(name: str, kind: str) -> None:
    """A level is a whole number, a time a timestamp or one in ms."""
    check_columns(StructType().add("body", "binary").add(name, kind), SinkOptions(topic="t"))


def test_what_the_source_gives_can_be_written_as_it_is() -> None:
    """load() can go straight to the sink: columns that only the source knows are ignored."""
    check_columns(default_schema(), SinkOptions())


def test_a_topic_is_not_overwritten() -> None:
    """mode("overwrite") is refused."""
    with pytest.raises(InvalidArgument, match="cannot be overwritten"):
        check_write(BODY, {"topic": "t"}, overwrite=True, streaming=False)
