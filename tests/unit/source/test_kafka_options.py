"""Every option of Spark's guide to Kafka: ours by the same name and meaning, or an error that names ours."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.options import Moment
from rmqspark.sink.option_table import SINK_OPTIONS
from rmqspark.sink.schema import WRITTEN_COLUMNS
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.options import RetryPolicy, SourceOptions
from rmqspark.source.planning.admission import Limits
from rmqspark.source.positions import ENDING_OFFSETS, ENDING_TIMES, AtOffsets, AtTime, AtTimes, Earliest, Latest

Q0 = MessageQueue("t", "broker-a", 0)
BATCH, STREAM = False, True


def attribute(options: SourceOptions, path: str) -> Any:
    found: Any = options
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    ("name", "value", "streaming", "means", "meaning"),
    [
        ("assign", '{"t":{"broker-a":[0]}}', STREAM, "subscription.queues", frozenset({Q0})),
        ("subscribe", "t,u", STREAM, "subscription.topics", ("t", "u")),
        ("subscribePattern", "t.*", STREAM, "subscription.pattern", "t.*"),
        ("startingTimestamp", "1700000000000", STREAM, "start", AtTime(Moment(1_700_000_000_000))),
        ("startingOffsetsByTimestamp", '{"t":{"broker-a":{"0":9}}}', STREAM, "start", AtTimes({}, {Q0: Moment(9)})),
        ("startingOffsets", "earliest", STREAM, "start", Earliest()),
        ("startingOffsets", "latest", STREAM, "start", Latest()),
        ("startingOffsets", '{"t":{"broker-a":{"0":-2}}}', STREAM, "start", AtOffsets({Q0: -2})),
        ("endingTimestamp", "1700000000000", BATCH, "end", AtTime(Moment(1_700_000_000_000), else_latest=True)),
        (
            "endingOffsetsByTimestamp",
            '{"t":{"broker-a":{"0":9}}}',
            BATCH,
            "end",
            AtTimes({}, {Q0: Moment(9)}, True, ENDING_TIMES),
        ),
        ("endingOffsets", '{"t":{"broker-a":{"0":-1}}}', BATCH, "end", AtOffsets({Q0: -1}, ENDING_OFFSETS)),
        ("failOnDataLoss", "false", STREAM, "fail_on_data_loss", False),
        ("group", "g", STREAM, "retry", RetryPolicy(for_ms=60_000)),
        ("group", "g", BATCH, "retry", RetryPolicy()),
        ("fetchOffset.numRetries", "5", STREAM, "retry", RetryPolicy(5)),
        ("fetchOffset.retryIntervalMs", "50", STREAM, "retry", RetryPolicy(interval_ms=50, for_ms=60_000)),
        ("fetchOffset.retryIntervalMs", "50", BATCH, "retry", RetryPolicy(interval_ms=50)),
        ("maxOffsetsPerTrigger", "7", STREAM, "limits", Limits(max_rows=7)),
        ("minOffsetsPerTrigger", "7", STREAM, "limits", Limits(min_rows=7)),
        ("minPartitions", "7", STREAM, "min_partitions", 7),
        ("maxRecordsPerPartition", "7", STREAM, "max_records_per_partition", 7),
    ],
)
def test_options_that_both_have(name: str, value: str, streaming: bool, means: str, meaning: object) -> None:
    """What a Kafka user types by these names does here what it does there; queues are named with their broker."""
    given = {name: value} if name in ("assign", "subscribe", "subscribePattern") else {"subscribe": "t", name: value}
    assert attribute(SourceOptions.parse(given, streaming=streaming), means) == meaning


def test_defaults_that_both_have() -> None:
    """Where nothing is said the defaults are Kafka's."""
    stream = SourceOptions.parse({"subscribe": "t", "minOffsetsPerTrigger": "1"}, streaming=True)
    batch = SourceOptions.parse({"subscribe": "t"}, streaming=False)
    assert (stream.start, batch.start, batch.end) == (Latest(), Earliest(), Latest())
    assert (stream.fail_on_data_loss, stream.retry.retries, stream.limits.max_delay_ms) == (True, 3, 15 * 60_000)


def test_a_strategy_for_times_after_the_last_message() -> None:
    """startingOffsetsByTimestampStrategy: error unless latest is asked for, for both kinds of starting times."""
    for name, value in (("startingTimestamp", "9"), ("startingOffsetsByTimestamp", '{"t":9}')):
        given = {"subscribe": "t", name: value}
        strict = SourceOptions.parse(given, streaming=True).start
        lenient = SourceOptions.parse(given | {"startingOffsetsByTimestampStrategy": "latest"}, streaming=True).start
        assert isinstance(strict, AtTime | AtTimes)
        assert isinstance(lenient, AtTime | AtTimes)
        assert (strict.else_latest, lenient.else_latest) == (False, True)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka.bootstrap.servers", "namesrv"),
        ("bootstrap.servers", "namesrv"),
        ("sasl.jaas.config", "accessKey and secretKey"),
        ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries"),
        ("groupIdPrefix", "Use group"),
        ("kafka.group.id", "Use group"),
        ("includeHeaders", "properties"),
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.enable.auto.commit", "commitOffsets"),
        ("kafka.key.deserializer", "column body"),
        ("kafka.value.deserializer", "column body"),
        ("kafka.interceptor.classes", "rows in Spark"),
        ("kafka.session.timeout.ms", "consume_group_lock_live_time"),
        ("kafka.client.id", "Kafka's client"),
        ("kafka.isolation.level", "committed"),
        ("kafka.max.poll.records", "maxOffsetsPerTrigger"),
        ("kafka.fetch.max.bytes", "maxBytesPerTrigger"),
        ("kafka.security.protocol", "tlsEnable=true for TLS, accessKey and secretKey"),
        ("kafka.sasl.jaas.config", "accessKey and secretKey"),
        ("kafka.ssl.truststore.location", "tlsEnable=true"),
        ("topic", "subscribe"),
    ],
)
def test_options_that_only_kafkas_source_has(name: str, hint: str) -> None:
    """They are errors, in whatever case, and say what is written here instead."""
    for typed in (name, name.lower()):
        with pytest.raises(InvalidArgument, match=f"no option '{typed}'.*{hint}"):
            SOURCE_OPTIONS.read({"subscribe": "t", typed: "x"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka.bootstrap.servers", "namesrv"),
        ("includeHeaders", "properties"),
        ("kafka.acks", "flush mode"),
        ("acks", "flush mode"),
        ("key", "shardingKey"),
        ("kafka.enable.idempotence", "deliveryGuarantee"),
        ("kafka.transactional.id", "transactionalId"),
        ("kafka.compression.type", "Use compression"),
        ("kafka.batch.size", "batchBytes"),
        ("kafka.linger.ms", "Kafka's client"),
        ("kafka.key.serializer", "columns are strings"),
        ("kafka.value.serializer", "column body"),
        ("kafka.partitioner.class", "Use partitioner"),
        ("kafka.sasl.mechanism", "accessKey and secretKey"),
    ],
)
def test_options_that_only_kafkas_sink_has(name: str, hint: str) -> None:
    """The same for writing."""
    with pytest.raises(InvalidArgument, match=f"no option '{name}'.*{hint}"):
        SINK_OPTIONS.read({"topic": "t", name: "x"})


def test_options_of_the_other_side_are_known() -> None:
    """What the sink alone has is likened to nothing of the source, and the other way round; nor are columns to options
    of the sink."""
    for table, other in ((SOURCE_OPTIONS, SINK_OPTIONS), (SINK_OPTIONS, SOURCE_OPTIONS)):
        own = {name.lower() for option in table.options for name in option.names}
        others = {name.lower() for option in other.options for name in option.names}
        assert table.foreign.keys() >= others - own
    assert SINK_OPTIONS.foreign.keys() >= {name.lower() for name in WRITTEN_COLUMNS if name != "topic"}


def test_hints_name_options_that_there_are() -> None:
    """No hint sends anybody to an option that the table does not have, or a column that nobody writes."""
    for table in (SOURCE_OPTIONS, SINK_OPTIONS):
        known = {option.name for option in table.options}
        for hint in table.foreign.values():
            named = re.findall(r"fetchOffset\.[a-zA-Z]+|\b[a-z]+[A-Z][a-zA-Z]*\b", hint)
            assert (known | set(WRITTEN_COLUMNS)).issuperset(named), hint
