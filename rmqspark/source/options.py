"""The options of the source, read once into a `SourceOptions` that travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.model import MessageQueue
from rmqspark.options import Option, OptionTable, boolean, choice, exclusive, integer, moment, names, text
from rmqspark.source.positions import (
    EARLIEST_MARK,
    AtOffsets,
    AtTime,
    Earliest,
    Latest,
    Position,
    read_assignment,
    read_position,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATER_SUBSCRIPTION = "Use subscribe with a list of topics."
_LATER_ACCESS = "This version talks to brokers without access control; leave it out."

SOURCE_OPTIONS = OptionTable(
    owner="source",
    options=(
        Option(
            "namesrv",
            "`$RMQ_NAMESRV`, `$NAMESRV_ADDR`, `127.0.0.1:9876`",
            "name servers, `host:port;host:port`",
            text,
            aliases=("nameServer", "namesrvAddr"),
        ),
        Option("subscribe", "–", 'topics, separated by commas; `load("t")` is the same', names, aliases=("path",)),
        Option("assign", "–", 'queues: `{"t":{"broker-a":[0,1]}}`', read_assignment),
        Option("tags", "`*`", "tag expression, filtered in the broker: `paid || shipped`", text),
        Option(
            "startingOffsets",
            "`latest` stream, `earliest` batch",
            'where a new query starts: `earliest`, `latest`, or `{"t":{"broker-a":{"0":12}}}` (-2 earliest, -1 latest)',
            read_position,
        ),
        Option(
            "startingTimestamp",
            "–",
            "start at the first message stored then: milliseconds, ISO-8601 or relative (`-10m`)",
            moment,
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            "`error`",
            "where no message is that young: `error`, or `latest` to start at the end",
            choice("error", "latest"),
        ),
        Option("endingOffsets", "`latest`", "batch: where reading ends, as startingOffsets (no -2)", read_position),
        Option("endingTimestamp", "–", "batch: read what was stored before then", moment),
        Option(
            "maxOffsetsPerTrigger",
            "–",
            "stream: messages per micro-batch, shared over the queues by backlog; none starves",
            integer(at_least=1),
        ),
        Option("minPartitions", "–", "split queues so that there are at least so many tasks", integer(at_least=1)),
        Option("maxRecordsPerPartition", "–", "split queues so that no task reads more", integer(at_least=1)),
        Option(
            "failOnDataLoss",
            "`true`",
            "false: what is gone is warned about, skipped and counted instead of ending the query",
            boolean,
        ),
        Option(
            "group",
            "`spark-<uuid>`",
            "consumer group that progress is reported under; the default is drawn with the first offset and kept in it",
            text,
        ),
        Option("groupMode", "`exclusive`", "this query alone reads for the group", choice("exclusive", "shared")),
        Option("commitOffsets", "`true`", "stream: report progress as the group's committed offsets", boolean),
        Option("valueFormat", "`binary`", "bodies come as they are", choice("binary", "json", "string")),
        Option("readMode", "`broker`", "messages come from the broker", choice("broker", "direct")),
        Option("fetchOffset.numRetries", "`3`", "tries after a failed request for offsets or messages", integer(0)),
        Option(
            "fetchOffset.retryIntervalMs",
            "`200`",
            "pause before the first of these, ms; each next is five times as long, up to 5000",
            integer(0),
        ),
    ),
    foreign={
        "kafka.bootstrap.servers": 'Use option("namesrv", "host:9876").',
        "includeheaders": "Message properties are always there: column properties, a map.",
        "kafka.group.id": "Use group.",
        "groupidprefix": "Use group.",
        "topic": "Use subscribe.",
        "kafkaconsumer.polltimeoutms": "Use fetchOffset.numRetries and fetchOffset.retryIntervalMs.",
    },
    later={
        "subscribePattern": _LATER_SUBSCRIPTION,
        "sql": "Use tags, or a filter in Spark.",
        "store": "Start a broker on that store: rmq up --store DIR.",
        "startingOffsetsByTimestamp": "Use startingTimestamp.",
        "endingOffsetsByTimestamp": "Use endingTimestamp.",
        "maxBytesPerTrigger": "Use maxOffsetsPerTrigger.",
        "minOffsetsPerTrigger": "Use a longer trigger interval.",
        "maxTriggerDelay": "Use a longer trigger interval.",
        "groupOffsetReset": "Use startingOffsets.",
        "allocateStrategy": "It belongs to groupMode=shared, which is not there yet either.",
        "mode": "Parse bodies in Spark, with from_json.",
        "badRecordsTopic": "Parse bodies in Spark, with from_json.",
        "metadataColumns": "Name the columns in .schema(...).",
        "accessKey": _LATER_ACCESS,
        "secretKey": _LATER_ACCESS,
    },
)

_LATER_VALUES = {
    ("groupMode", "shared"): "Give each query its own topics or queues (assign).",
    ("valueFormat", "json"): "Read body and parse it in Spark: from_json(body.cast('string'), schema).",
    ("valueFormat", "string"): "Read body and cast it in Spark: body.cast('string').",
    ("readMode", "direct"): "Leave it out: messages then come from the broker.",
}
_STREAM_ONLY = ("maxOffsetsPerTrigger",)
_BATCH_ONLY = ("endingOffsets", "endingTimestamp")

_LONGEST_GROWN_PAUSE_MS = 5_000


@dataclass(frozen=True)
class Subscription:
    """The topics to read, and where only some of their queues are wanted, these."""

    topics: tuple[str, ...]
    queues: frozenset[MessageQueue] | None = None

    def includes(self, queue: MessageQueue) -> bool:
        return queue.topic in self.topics if self.queues is None else queue in self.queues


@dataclass(frozen=True)
class RetryPolicy:
    """How often a failed request is tried again, and the pause before the first try; each next one is 5 times as long.

    By default that is patience for six seconds, in which a broker can be restarted.
    """

    retries: int = 3
    interval_ms: int = 200

    @property
    def pauses_ms(self) -> tuple[int, ...]:
        """Before each further try."""
        longest = max(self.interval_ms, _LONGEST_GROWN_PAUSE_MS)
        return tuple(min(self.interval_ms * 5 ** min(turn, 8), longest) for turn in range(self.retries))


@dataclass(frozen=True)
class SourceOptions:
    """What the user asked the source for, checked. Plain data: it is pickled into every task."""

    subscription: Subscription
    namesrv: str | None = None
    tags: str | None = None
    start: Position = field(default_factory=Latest)
    end: Position = field(default_factory=Latest)
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    group: str | None = None
    commit_offsets: bool = True
    retry: RetryPolicy = RetryPolicy()

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Reads Spark's options. Raises InvalidArgument or NotSupported naming the option and what to write instead."""
        values = read_options(given)
        _check_mode(values, streaming)
        return cls(
            subscription=_subscription(values),
            namesrv=values.get("namesrv"),
            tags=values.get("tags"),
            start=_start(values, streaming),
            end=_end(values),
            max_offsets_per_trigger=values.get("maxOffsetsPerTrigger"),
            min_partitions=values.get("minPartitions"),
            max_records_per_partition=values.get("maxRecordsPerPartition"),
            fail_on_data_loss=values.get("failOnDataLoss", True),
            group=values.get("group"),
            commit_offsets=values.get("commitOffsets", True),
            retry=RetryPolicy(values.get("fetchOffset.numRetries", 3), values.get("fetchOffset.retryIntervalMs", 200)),
        )


def read_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The part of `parse` that holds for batch and stream alike: names, values, what excludes each other."""
    for name in given:
        if name.lower().startswith("tls"):
            raise NotSupported(f"Option {name!r} is not there yet in this version.", hint=_LATER_ACCESS)
    values = SOURCE_OPTIONS.read(given)
    for (name, value), hint in _LATER_VALUES.items():
        if values.get(name) == value:
            raise NotSupported(f"{name}={value} is not there yet in this version.", hint=hint)
    exclusive(values, ("subscribe", "assign"))
    exclusive(values, ("startingOffsets", "startingTimestamp"))
    exclusive(values, ("endingOffsets", "endingTimestamp"))
    if "startingOffsetsByTimestampStrategy" in values and "startingTimestamp" not in values:
        raise InvalidArgument("startingOffsetsByTimestampStrategy has no meaning without startingTimestamp.")
    return values


def _check_mode(values: Mapping[str, Any], streaming: bool) -> None:
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if name in values:
            kind = "a stream, which has no end" if streaming else "a batch read, which has no triggers"
            raise InvalidArgument(f"Option {name!r} has no meaning for {kind}.")


def _subscription(values: Mapping[str, Any]) -> Subscription:
    if "assign" in values:
        queues: frozenset[MessageQueue] = values["assign"]
        return Subscription(tuple(sorted({queue.topic for queue in queues})), queues)
    if "subscribe" not in values:
        raise InvalidArgument("No topic to read.", hint='Name one: .option("subscribe", "orders") or .load("orders").')
    return Subscription(values["subscribe"])


def _start(values: Mapping[str, Any], streaming: bool) -> Position:
    if "startingTimestamp" in values:
        strategy = values.get("startingOffsetsByTimestampStrategy", "error")
        return AtTime(values["startingTimestamp"], else_latest=strategy == "latest")
    start: Position = values.get("startingOffsets", Latest() if streaming else Earliest())
    if isinstance(start, Latest) and not streaming:
        raise InvalidArgument("A batch read cannot start at latest: there is nothing to read behind the last message.")
    return start


def _end(values: Mapping[str, Any]) -> Position:
    if "endingTimestamp" in values:
        return AtTime(values["endingTimestamp"], else_latest=True)
    end: Position = values.get("endingOffsets", Latest())
    if isinstance(end, Earliest) or (isinstance(end, AtOffsets) and EARLIEST_MARK in end.offsets.values()):
        raise InvalidArgument("A batch read cannot end at earliest: there is nothing to read before the first message.")
    return end
