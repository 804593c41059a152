"""What a user may ask the source for, and what each mistake is answered with."""

from __future__ import annotations

import json
import logging
import pickle

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.options import Moment
from rmqspark.source.options import SourceOptions, read_options
from rmqspark.source.planning.admission import Limits
from rmqspark.source.positions import ENDING_TIMES, AtOffsets, AtTime, AtTimes, BeforeEnd, Committed, Earliest, Latest
from rmqspark.source.subscription import Subscription


def parse(streaming: bool = True, **given: str) -> SourceOptions:
    return SourceOptions.parse(
        {"subscribe": "t"} | {k.replace("__", "."): v for k, v in given.items()}, streaming=streaming
    )


def test_defaults_differ_between_stream_and_batch() -> None:
    """A stream starts with what comes, a batch reads what is there."""
    assert parse().start == Latest()
    assert parse(streaming=False).start == Earliest()
    assert parse(streaming=False).end == Latest()


def test_names_are_case_insensitive_and_have_aliases() -> None:
    """SUBSCRIBE, nameServer and load("t") are all understood."""
    options = SourceOptions.parse({"PATH": " a, b ,a", "NAMESERVER": "h:1"}, streaming=True)
    assert (options.subscription.topics, options.namesrv) == (("a", "b"), "h:1")


def test_name_servers_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """$RMQ_NAMESRV is read where the query is planned and travels with it: an executor elsewhere has another one."""
    monkeypatch.setenv("RMQ_NAMESRV", "driver:9876")
    options = parse()
    monkeypatch.delenv("RMQ_NAMESRV")
    assert pickle.loads(pickle.dumps(options.for_tasks)).namesrv == "driver:9876"
    with pytest.raises(InvalidArgument, match="namesrv 'nowhere' is not an address.*host:port"):
        parse(namesrv="nowhere")


@pytest.mark.parametrize(
    ("first", "last"),
    [(4, 4), (4, 5), (-2, 4), (-1, -1), (-1, 4), (4, -1)],
)
def test_ranges_that_may_be(first: int, last: int) -> None:
    """An empty range is no mistake, nor is one that only the queue can tell the order of."""
    start, end = (json.dumps({"t": {"b": {"0": offset}}}) for offset in (first, last))
    parse(streaming=False, startingOffsets=start, endingOffsets=end)
    parse(streaming=False, startingTimestamp="5", endingTimestamp="5")
    parse(streaming=False, startingTimestamp="-5m", endingTimestamp="1700000000000")


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ({"startingOffsets": "EARLIEST"}, Earliest()),
        (
            {"startingOffsets": '{"t":{"b":{"0":12,"1":-2}}}'},
            AtOffsets({MessageQueue("t", "b", 0): 12, MessageQueue("t", "b", 1): -2}),
        ),
        ({"startingTimestamp": "1700000000000"}, AtTime(Moment(1_700_000_000_000))),
        ({"startingTimestamp": "2023-11-14T22:13:20Z"}, AtTime(Moment(1_700_000_000_000))),
        ({"startingTimestamp": "2023-11-14 22:13:20"}, AtTime(Moment(1_700_000_000_000))),
        (
            {"startingTimestamp": "-10m", "startingOffsetsByTimestampStrategy": "latest"},
            AtTime(Moment(ago_ms=600_000), True),
        ),
        ({"startingOffsets": "-1000"}, BeforeEnd(1_000)),
        ({"startingOffsets": "group", "group": "g"}, Committed("g", else_latest=True)),
        ({"startingOffsets": "Group", "group": "g", "groupOffsetReset": "earliest"}, Committed("g", else_latest=False)),
        ({"startingOffsetsByTimestamp": '{"t":1700000000000}'}, AtTimes({"t": Moment(1_700_000_000_000)})),
        (
            {
                "startingOffsetsByTimestamp": '{"t":{"b":{"0":"-10m"}},"u":5}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            AtTimes({"u": Moment(5)}, {MessageQueue("t", "b", 0): Moment(ago_ms=600_000)}, True),
        ),
    ],
)
def test_starting_positions(given: dict[str, str], position: object) -> None:
    """Every documented way to say where to start is understood."""
    assert parse(**given).start == position


def test_assign_names_queues() -> None:
    """assign reads only the queues it names."""
    subscription = SourceOptions.parse({"assign": '{"t":{"broker-a":[0,2]}}'}, streaming=True).subscription
    assert subscription.topics == ("t",)
    assert subscription.includes(MessageQueue("t", "broker-a", 2))
    assert not subscription.includes(MessageQueue("t", "broker-a", 1))


def test_ending_times() -> None:
    """endingOffsetsByTimestamp is read as the starting one; where no message is that young, the end is meant."""
    end = parse(streaming=False, endingOffsetsByTimestamp='{"t":{"b":{"0":5}}}').end
    assert end == AtTimes({}, {MessageQueue("t", "b", 0): Moment(5)}, else_latest=True, option=ENDING_TIMES)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders-.*", ["orders-eu", "orders-"], ["orders", "old-orders-eu", "%RETRY%orders-eu"]),
        ("a|b", ["a", "b"], ["ab", "aa"]),
        (
            ".*",
            ["anything"],
            ["%RETRY%g", "%DLQ%g", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "TBW102", "SCHEDULE_TOPIC_XXXX"],
        ),
    ],
)
def test_patterns_match_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    """subscribePattern reads the topics whose whole name fits; never system, retry or dead-letter topics."""
    subscription = SourceOptions.parse({"subscribePattern": pattern}, streaming=True).subscription
    assert all(subscription.includes(MessageQueue(topic, "b", 0)) for topic in matching)
    assert not any(subscription.includes(MessageQueue(topic, "b", 0)) for topic in others)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, Limits()),
        ({"maxOffsetsPerTrigger": "5"}, Limits(max_rows=5)),
        ({"maxBytesPerTrigger": "64m"}, Limits(max_bytes=64 << 20)),
        ({"minOffsetsPerTrigger": "5"}, Limits(min_rows=5, max_delay_ms=900_000)),
        (
            {
                "maxOffsetsPerTrigger": "9",
                "maxBytesPerTrigger": "1000",
                "minOffsetsPerTrigger": "9",
                "maxTriggerDelay": "2h",
            },
            Limits(9, 1_000, 9, 7_200_000),
        ),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "500"}, Limits(min_rows=1, max_delay_ms=500)),
    ],
)
def test_limits(given: dict[str, str], limits: Limits) -> None:
    """All four limits may be given together, in sizes and times as people write them."""
    assert parse(**given).limits == limits


def test_messages_may_come_from_files() -> None:
    """readMode=direct and store: the files of a running broker, those of none."""
    assert parse().read_mode == "broker"
    assert parse(readMode="DIRECT").read_mode == "direct"
    options = SourceOptions.parse({"store": "/data/broker-a"}, streaming=False)
    assert (options.store, options.subscription, options.start) == ("/data/broker-a", Subscription(()), Earliest())
    some = SourceOptions.parse({"store": "/data", "subscribe": "t,u"}, streaming=False)
    assert some.subscription.topics == ("t", "u")


@pytest.mark.parametrize(
    ("given", "streaming", "story"),
    [
        ({"subscribe": "t", "subscribePattern": "t.*"}, True, "'subscribe' and 'subscribePattern' exclude each other"),
        ({"subscribePattern": "t", "assign": '{"t":{"b":[0]}}'}, True, "'subscribePattern' and 'assign' exclude"),
        ({"subscribePattern": "("}, True, "'subscribePattern' cannot be.*no regular expression"),
        ({"subscribePattern": ""}, True, "'subscribePattern' cannot be"),
        ({"subscribe": str(["t", "u"])}, True, "in one string, separated by commas"),
        ({"subscribe": "t", "startingOffsets": "-0"}, True, "'startingOffsets' cannot be"),
        (
            {"subscribe": "t", "startingOffsets": "-10m"},
            True,
            "'startingOffsets' cannot be '-10m'.*a time, and belongs in startingTimestamp",
        ),
        (
            {"subscribe": "t", "startingTimestamp": "-1000"},
            True,
            "'startingTimestamp' cannot be '-1000'.*a number of messages, and belongs in startingOffsets",
        ),
        ({"subscribe": "t", "endingOffsets": "2026-01-31T12:00"}, False, "a time, and belongs in endingTimestamp"),
        ({"subscribe": "t", "startingTimestamp": "1700000000"}, True, "seconds.*Milliseconds.*1700000000000"),
        ({"subscribe": "t", "endingOffsets": "-5"}, False, "'endingOffsets' cannot be '-5'.*latest or JSON"),
        ({"subscribe": "t", "endingOffsets": "group"}, False, "'endingOffsets' cannot be 'group'"),
        ({"subscribe": "t", "startingOffsets": "group"}, True, "startingOffsets=group needs option 'group'"),
        ({"subscribe": "t", "groupOffsetReset": "latest"}, True, "without startingOffsets=group"),
        (
            {"subscribe": "t", "startingOffsets": "group", "group": "g", "groupOffsetReset": "none"},
            True,
            "earliest, latest is accepted",
        ),
        (
            {"subscribe": "t", "startingTimestamp": "0", "startingOffsetsByTimestamp": '{"t":0}'},
            True,
            "'startingTimestamp' and 'startingOffsetsByTimestamp' exclude",
        ),
        ({"subscribe": "t", "startingOffsetsByTimestamp": '{"t":true}'}, True, "t must be a time"),
        (
            {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":20260131}'},
            True,
            "2026-01-31 is accepted for the day",
        ),
        ({"subscribe": "t", "startingTimestamp": "20260131"}, True, "2026-01-31 is accepted for the day"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": '{"t":{"0":5}}'}, True, "t.0 must map queue ids to times"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": '{"t":{"b":{"0":"soon"}}}'}, True, "t.b.0 cannot be 'soon'"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": "{}"}, True, "it names no topic"),
        ({"subscribe": "t", "endingOffsetsByTimestamp": '{"t":0}'}, True, "no meaning for a stream"),
        ({"subscribe": "t", "minPartitions": "100001"}, True, "a whole number, 1 to 100000, is"),
        ({"subscribe": "t", "maxBytesPerTrigger": "0"}, True, "'maxBytesPerTrigger' cannot be '0'"),
        ({"subscribe": "t", "maxBytesPerTrigger": "lots"}, True, "a number of bytes"),
        ({"subscribe": "t", "maxBytesPerTrigger": "\N{ARABIC-INDIC DIGIT FIVE}"}, True, "a number of bytes"),
        ({"subscribe": "t", "maxTriggerDelay": "\N{ARABIC-INDIC DIGIT FIVE}m"}, True, "a time such as 15m"),
        ({"subscribe": "t", "maxBytesPerTrigger": "1m"}, False, "no meaning for a batch read"),
        ({"subscribe": "t", "maxTriggerDelay": "1m"}, True, "no meaning without minOffsetsPerTrigger"),
        ({"subscribe": "t", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, True, "15m, 30s or 500ms"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            True,
            "minOffsetsPerTrigger, 6, cannot be above maxOffsetsPerTrigger, 5",
        ),
        ({"subcribe": "t"}, True, "no option 'subcribe'.*Did you mean 'subscribe'"),
        ({}, True, "No topic to read.*subscribePattern or assign"),
        ({"subscribe": " , "}, True, "'subscribe' cannot be"),
        ({"subscribe": "t,a/b"}, True, "'subscribe' cannot be.*topic name 'a/b' has characters.*Use 1 to 127"),
        ({"path": "t" * 128}, False, "'path' cannot be.*has 128 characters"),
        ({"store": "/data", "subscribe": "a b"}, False, "'subscribe' cannot be.*topic name 'a b'"),
        ({"assign": '{"a/b":{"b":[0]}}'}, True, "'assign' cannot be.*topic name 'a/b' has characters"),
        ({"subscribe": "t", "path": "u"}, True, "'subscribe' and 'path' mean the same"),
        ({"subscribe": "t", "assign": '{"t":{"b":[0]}}'}, True, "'subscribe' and 'assign' exclude each other"),
        ({"subscribe": "t", "startingOffsets": "earliest", "startingTimestamp": "0"}, True, "exclude each other"),
        ({"subscribe": "t", "tags": " || "}, True, "'tags' cannot be.*names no tag.*paid || shipped"),
        ({"subscribe": "t", "tags": "x" * 5_000}, False, "'tags' cannot be.*limit of 4096"),
        ({"subscribe": "t", "group": "my group"}, True, "'group' cannot be 'my group'"),
        ({"subscribe": "t", "fetchOffset.numRetries": "9" * 18}, True, "'fetchOffset.numRetries'.*0 to 10000"),
        ({"subscribe": "t", "fetchOffset.retryIntervalMs": "-1"}, True, "'fetchOffset.retryIntervalMs'.*0 to 3600000"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":23}}'}, True, "queues go by their broker too.*broker-a"),
        ({"subscribe": "t", "tags": "a", "sql": "b > 3"}, True, "'tags' and 'sql' exclude each other"),
        (
            {"subscribe": "t", "sql": "price > 10 AND"},
            True,
            "'sql' cannot be.*wrong at character 15: .* ends too early",
        ),
        ({"subscribe": "t", "sql": "price > '10'"}, False, "'sql' cannot be.*wrong at character 9: '10' is no number"),
        ({"subscribe": "t", "sql": "x >= 390 LIMIT 3"}, True, "character 10: 'LIMIT' is not understood here"),
        ({"store": "/data", "sql": "b >"}, False, "'sql' cannot be.*ends too early"),
        (
            {"store": "/data", "valueFormat": "json", "badRecordsTopic": "bad"},
            False,
            "'store' and 'badRecordsTopic' exclude each other",
        ),
        (
            {"subscribePattern": "t.*", "valueFormat": "json", "badRecordsTopic": "t-bad"},
            True,
            "'t-bad' is read by this query too",
        ),
        ({"subscribe": "t", "sql": ""}, False, "'sql' cannot be.*is empty"),
        (
            {"subscribe": "t", "startingOffsets": "soon"},
            True,
            "'startingOffsets' cannot be 'soon'.*earliest, latest, group, -1000 or JSON",
        ),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":-3}}}'}, True, "must be an offset"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"x":1}}}'}, True, "not a queue id"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":1,"00":2}}}'}, True, "'00' in t.b is not a queue id"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":1,"0":2}}}'}, True, "'0' stands there twice"),
        ({"assign": '{"t":{"b":[0]},"t":{"b":[1]}}'}, True, "'assign' cannot be.*'t' stands there twice"),
        ({"subscribe": "t", "startingOffsets": '{"t":5}'}, True, "must map broker names"),
        ({"subscribe": "t", "startingOffsets": "{"}, True, "not valid JSON.*; earliest, latest, group, .* is accepted"),
        ({"assign": "x"}, True, r"'assign' cannot be 'x': it is not valid JSON .*; JSON like .*\[0, 1\].* is accepted"),
        ({"assign": "[0]"}, True, r"'assign' cannot be '\[0\]': JSON like .*\[0, 1\].* is accepted"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": "5"}, True, "JSON like .*1700000000000.* is accepted"),
        *(
            ({"assign": f'{{"t":{{"b":{listed}}}}}'}, True, "must list queue ids")
            for listed in ('"0"', '{"0":1}', "0", '["0"]', "[-1]", "[true]", "[0.0]")
        ),
        ({"subscribe": "t", "startingOffsets": "-²"}, True, "'startingOffsets' cannot be '-²'.*earliest, latest"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":1}}}', "endingOffsets": '{"t":{"b":{"0":0}}}'},
            False,
            "t/b/0 would be read from offset 1 to 0.*may not lie behind endingOffsets",
        ),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, True, "1 or more"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "many"}, True, "a whole number"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "5"}, False, "no meaning for a batch read"),
        ({"subscribe": "t", "endingOffsets": "latest"}, True, "no meaning for a stream"),
        (
            {"subscribe": "t", "startingOffsets": "latest"},
            False,
            "'startingOffsets' cannot be 'latest'.*earliest .the default",
        ),
        (
            {"subscribe": "t", "endingOffsets": "earliest"},
            False,
            "'endingOffsets' cannot be 'earliest'.*latest .the default",
        ),
        (
            {"subscribe": "t", "endingOffsets": '{"t":{"b":{"0":-2}}}'},
            False,
            "'endingOffsets' cannot be 'earliest'.*latest .the default",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":4}}}', "endingOffsets": '{"t":{"b":{"0":2}}}'},
            False,
            "t/b/0 would be read from offset 4 to 2.*may not lie behind endingOffsets",
        ),
        ({"subscribe": "t", "startingTimestamp": "5", "endingTimestamp": "4"}, False, "lies behind endingTimestamp"),
        (
            {"subscribe": "t", "startingTimestamp": "-1m", "endingTimestamp": "-5m"},
            False,
            "lies behind endingTimestamp",
        ),
        (
            {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":"-1h"}', "endingOffsetsByTimestamp": '{"t":"-2h"}'},
            False,
            "startingOffsetsByTimestamp lies behind endingOffsetsByTimestamp for t[.]",
        ),
        (
            {"subscribe": "t", "startingTimestamp": "-1h", "endingOffsetsByTimestamp": '{"t":{"b":{"0":"-2h"}}}'},
            False,
            "startingTimestamp lies behind endingOffsetsByTimestamp for t/b/0",
        ),
        (
            {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":{"b":{"0":9}}}', "endingTimestamp": "8"},
            False,
            "startingOffsetsByTimestamp lies behind endingTimestamp for t/b/0",
        ),
        (
            {
                "subscribe": "t",
                "startingOffsetsByTimestamp": '{"t":9}',
                "endingOffsetsByTimestamp": '{"t":{"b":{"0":9,"1":8}}}',
            },
            False,
            "for t/b/1",
        ),
        ({"subscribe": "t", "failOnDataLoss": "no"}, True, "true or false"),
        ({"subscribe": "t", "startingTimestamp": "yesterday"}, True, "ISO-8601"),
        (
            {"subscribe": "t", "startingOffsetsByTimestampStrategy": "latest"},
            True,
            "no meaning without startingTimestamp",
        ),
        ({"subscribe": "t", "kafka.bootstrap.servers": "h"}, True, "no option.*namesrv"),
        ({"subscribe": "t", "kafka.linger.ms": "5"}, True, "Kafka's client"),
        ({"subscribe": "t", "includeHeaders": "true"}, True, "no option.*properties"),
        ({"topic": "t"}, True, "no option 'topic'.*Use subscribe"),
        ({"paths": '["t","u"]'}, False, r'several topics in one string: .load."orders,payments".'),
        ({"subscribe": "t", "subExpression": "a"}, True, "no option 'subExpression'. Use tags, or sql"),
        ({"subscribe": "t", "pullTimeoutMs": "5"}, True, "no option 'pullTimeoutMs'. Use fetchOffset.numRetries"),
        ({"consumer.topic": "t"}, True, "no option 'consumer.topic'. Use subscribe"),
        ({"topics": "t,u"}, True, "no option 'topics'. Use subscribe"),
        (
            {"subscribe": "t", "checkpointlocation": "c"},
            True,
            "no option 'checkpointlocation'. Give it where the stream is w",
        ),
        ({"subscribe": "t", "transactionalId": "i"}, True, "no option 'transactionalId'. It is the sink's"),
        ({"subscribe": "t", "readMode": "file"}, True, "broker.*direct"),
        (
            {"subscribe": "t", "tags": "x || " * 2_000},
            True,
            "^Option 'tags' cannot be .{200,220} …: .* over the limit of 4",
        ),
        ({"subscribePattern": "t{99999999999}"}, True, "no regular expression .the repetition number is too large"),
        ({"subscribePattern": "(" * 5_000}, True, "no regular expression .maximum recursion depth"),
        ({"store": "/data/broker-a"}, True, "'store' has no meaning for a stream"),
        ({"store": "/data/broker-a", "namesrv": "h:1"}, False, "'store' and 'namesrv' exclude each other"),
        ({"store": "/data/broker-a", "readMode": "direct"}, False, "'store' and 'readMode' exclude each other"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], streaming: bool, story: str) -> None:
    """A mistyped, malformed or contradictory option is an error that names it and says what is right."""
    with pytest.raises(InvalidArgument, match=story):
        SourceOptions.parse(given, streaming=streaming)


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "cannot be above maxOffsetsPerTrigger"),
        ({"groupMode": "shared"}, "needs the name of the group"),
        ({"startingTimestamp": "-1h", "endingOffsetsByTimestamp": '{"t":"-2h"}'}, "lies behind endingOffsetsBy"),
        ({"startingOffsets": '{"t":{"b":{"0":4}}}', "endingOffsets": '{"t":{"b":{"0":2}}}'}, "from offset 4 to 2"),
        ({"endingOffsets": "earliest"}, "nothing is before the first message"),
        ({"groupMode": "shared", "group": "g", "startingOffsets": "-5"}, "not at 'startingOffsets'"),
    ],
)
def test_contradictions_show_at_load(given: dict[str, str], story: str) -> None:
    """Spark asks for the schema there, before it is known whether it will be a batch or a stream."""
    with pytest.raises(InvalidArgument, match=story):
        read_options({"subscribe": "t", **given})


@pytest.mark.parametrize("streaming", [True, False])
def test_tags_that_can_hardly_be_meant_are_warned_about(streaming: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A query over them would be idle for ever; but there may be such tags."""
    with caplog.at_level(logging.WARNING):
        SourceOptions.parse({"subscribe": "t", "tags": "paid || shipped"}, streaming=streaming)
        assert not caplog.text
        options = SourceOptions.parse({"subscribe": "t", "tags": "paid,shipped"}, streaming=streaming)
    assert options.tags == "paid,shipped"
    assert "exactly the tag 'paid,shipped'. If others are meant, write: paid || shipped" in caplog.text
