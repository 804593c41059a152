"""What a user may ask the source for, and what each mistake is answered with."""

from __future__ import annotations

import pytest

from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.model import MessageQueue
from rmqspark.options import Moment
from rmqspark.source.options import SOURCE_OPTIONS, SourceOptions
from rmqspark.source.positions import AtOffsets, AtTime, Earliest, Latest


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


@pytest.mark.parametrize(
    ("given", "streaming", "story"),
    [
        ({"subcribe": "t"}, True, "no option 'subcribe'.*Did you mean 'subscribe'"),
        ({}, True, "No topic to read"),
        ({"subscribe": " , "}, True, "'subscribe' cannot be"),
        ({"subscribe": "t", "path": "u"}, True, "'subscribe' and 'path' mean the same"),
        ({"subscribe": "t", "assign": '{"t":{"b":[0]}}'}, True, "'subscribe' and 'assign' exclude each other"),
        ({"subscribe": "t", "startingOffsets": "earliest", "startingTimestamp": "0"}, True, "exclude each other"),
        (
            {"subscribe": "t", "startingOffsets": "soon"},
            True,
            "'startingOffsets' cannot be 'soon'.*earliest, latest or JSON",
        ),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"0":-3}}}'}, True, "must be an offset"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"b":{"x":1}}}'}, True, "not a queue id"),
        ({"subscribe": "t", "startingOffsets": '{"t":5}'}, True, "must map broker names"),
        ({"subscribe": "t", "startingOffsets": "{"}, True, "not valid JSON"),
        ({"assign": '{"t":{"b":"0"}}'}, True, "must list queue ids"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, True, "1 or more"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "many"}, True, "a whole number"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "5"}, False, "no meaning for a batch read"),
        ({"subscribe": "t", "endingOffsets": "latest"}, True, "no meaning for a stream"),
        ({"subscribe": "t", "startingOffsets": "latest"}, False, "cannot start at latest"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, False, "cannot end at earliest"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"b":{"0":-2}}}'}, False, "cannot end at earliest"),
        ({"subscribe": "t", "failOnDataLoss": "no"}, True, "true or false"),
        ({"subscribe": "t", "startingTimestamp": "yesterday"}, True, "ISO-8601"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "latest"}, True, "without startingTimestamp"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "h"}, True, "no option.*namesrv"),
        ({"subscribe": "t", "kafka.security.protocol": "SSL"}, True, "Kafka's client"),
        ({"subscribe": "t", "includeHeaders": "true"}, True, "no option.*properties"),
        ({"topic": "t"}, True, "no option 'topic'.*Use subscribe"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], streaming: bool, story: str) -> None:
    """A mistyped, malformed or contradictory option is an error that names it and says what is right."""
    with pytest.raises(InvalidArgument, match=story):
        SourceOptions.parse(given, streaming=streaming)


@pytest.mark.parametrize(
    "given",
    [
        *({name: "x"} for name in SOURCE_OPTIONS.later),
        {"subscribePattern": "t.*"},
        {"groupMode": "shared"},
        {"valueFormat": "json"},
        {"readMode": "direct"},
        {"startingOffsets": "group"},
        {"tlsEnabled": "true"},
    ],
)
def test_what_is_not_there_yet_says_so(given: dict[str, str]) -> None:
    """An option that a later version brings is refused in clear words, never ignored."""
    with pytest.raises(NotSupported, match="not there yet"):
        SourceOptions.parse({"subscribe": "t"} | given, streaming=True)
