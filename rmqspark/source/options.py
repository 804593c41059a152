"""The options of the source, read once into a `SourceOptions`; what tasks need of them travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rmqspark.client.cluster.addresses import resolve_namesrv
from rmqspark.client.cluster.patience import STREAM_PATIENCE_MS
from rmqspark.client.cluster_options import ACCESS_NAMES, access_of
from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue
from rmqspark.options import exclusive
from rmqspark.remoting.access import OPEN, Access
from rmqspark.source.groups.sharing import Sharing
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.planning.admission import DEFAULT_MAX_DELAY_MS, Limits
from rmqspark.source.positions import (
    EARLIEST_MARK,
    ENDING_TIMES,
    AtOffsets,
    AtTime,
    AtTimes,
    Committed,
    Earliest,
    Latest,
    OfGroup,
    Position,
    check_order,
)
from rmqspark.source.retry import RetryPolicy
from rmqspark.source.subscription import Subscription
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.values.value_options import ValueOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME_A_TOPIC = (
    'Name one: .option("subscribe", "orders") or .load("orders"); or give subscribePattern or assign. Spark keeps no '
    "options of a catalog table that names its columns: "
    "SELECT … FROM t WITH (namesrv '…', subscribe 'orders'), or a temporary view."
)
_STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
EXCLUSIVE = (("subscribe", "subscribePattern", "assign"), ("tags", "sql"), _STARTS, _ENDS)

NEEDED = {
    "startingOffsetsByTimestampStrategy": ("startingTimestamp", "startingOffsetsByTimestamp"),
    "maxTriggerDelay": ("minOffsetsPerTrigger",),
}
_BATCH_ONLY = (*_ENDS, "store")
_NEEDS_BROKER = ("namesrv", "readMode", "groupOffsetReset", "badRecordsTopic", *ACCESS_NAMES)


@dataclass(frozen=True)
class SourceOptions:
    """What the user asked the source for, checked."""

    subscription: Subscription
    namesrv: str | None = None
    tags: str | None = None
    sql: str | None = None
    start: Position = field(default_factory=Latest)
    end: Position = field(default_factory=Latest)
    limits: Limits = field(default_factory=Limits)
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    group: str | None = None
    commit_offsets: bool = True
    read_mode: str = "broker"
    store: str | None = None
    sharing: Sharing | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    values: ValueOptions | None = None  # None: bodies as they are
    access: Access = OPEN

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Reads Spark's options. Raises InvalidArgument or NotSupported naming the option and what to write instead."""
        values = read_options(given)
        _check_mode(values, streaming)
        return cls(
            subscription=_subscription(values),
            namesrv=resolve_namesrv(values.get("namesrv")),
            tags=values.get("tags"),
            sql=values.get("sql"),
            start=_start(values, streaming),
            end=_end(values),
            limits=_limits(values),
            min_partitions=values.get("minPartitions"),
            max_records_per_partition=values.get("maxRecordsPerPartition"),
            fail_on_data_loss=values.get("failOnDataLoss", True),
            group=values.get("group"),
            commit_offsets=values.get("commitOffsets", True),
            read_mode=values.get("readMode", "broker"),
            store=values.get("store"),
            sharing=_sharing(values),
            retry=_retry(values, streaming),
            values=_value_options(values),
            access=OPEN if "store" in values else access_of(values),
        )

    @property
    def for_tasks(self) -> TaskOptions:
        """What is handed to tasks with what they read."""
        return TaskOptions(
            self.namesrv,
            self.tags,
            self.sql,
            self.group,
            self.fail_on_data_loss,
            self.retry,
            self.values,
            access=self.access,
        )


def read_options(given: Mapping[str, str]) -> dict[str, Any]:
    """The part of `parse` that holds for batch and stream alike: names, values, what is missing, what excludes or
    contradicts each other. Where Spark asks for a schema, this is checked in `load()`."""
    values = SOURCE_OPTIONS.read(given)
    for names_of_one in EXCLUSIVE:
        exclusive(values, names_of_one)
    for name in _NEEDS_BROKER:
        exclusive(values, ("store", name))
    for name, needed in NEEDED.items():
        if name in values and not any(other in values for other in needed):
            raise InvalidArgument(f"{name} has no meaning without {' or '.join(needed)}.")
    _subscription(values)
    if "namesrv" in values:
        resolve_namesrv(values["namesrv"])
    if "store" not in values:
        access_of(values)
    _check_group_start(values)
    _limits(values)
    _sharing(values)
    check_order(_start(values, streaming=True), _end(values))  # a batch refuses one start more, not another order
    return values


def _sharing(values: Mapping[str, Any]) -> Sharing | None:
    """`_STARTS` that name a place other than where the group is, or where what it has never read begins or ends, are
    against it."""
    starts = [name for name in _STARTS if name in values and not isinstance(values[name], (OfGroup, Earliest, Latest))]
    return Sharing.of(values, starts)


def _check_group_start(values: Mapping[str, Any]) -> None:
    starts_at_group = isinstance(values.get("startingOffsets"), OfGroup)
    if starts_at_group and "group" not in values:
        raise InvalidArgument("startingOffsets=group needs option 'group': whose offsets are meant?")
    if "groupOffsetReset" in values and not starts_at_group and values.get("groupMode") != "shared":
        raise InvalidArgument("groupOffsetReset has no meaning without startingOffsets=group or groupMode=shared.")


def _check_mode(values: Mapping[str, Any], streaming: bool) -> None:
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if name in values:
            kind = "a stream, which has no end" if streaming else "a batch read, which has no triggers"
            raise InvalidArgument(f"Option {name!r} has no meaning for {kind}.")
    if not streaming and values.get("groupMode") == "shared":
        raise InvalidArgument("groupMode=shared has no meaning for a batch read: nothing is handed over in one.")


def _subscription(values: Mapping[str, Any]) -> Subscription:
    if "assign" in values:
        queues: frozenset[MessageQueue] = values["assign"]
        return Subscription(tuple(sorted({queue.topic for queue in queues})), queues)
    if "subscribePattern" in values:
        return Subscription((), pattern=values["subscribePattern"])
    if "store" in values and "subscribe" not in values:
        return Subscription(())
    if "subscribe" not in values:
        raise InvalidArgument("No topic to read.", hint=_NAME_A_TOPIC)
    return Subscription(values["subscribe"])


def _value_options(values: Mapping[str, Any]) -> ValueOptions | None:
    found = ValueOptions.of(values)
    topic = None if found is None else found.bad_records_topic
    read = _subscription(values)
    if topic is not None and (topic in read.topics or read.includes(MessageQueue(topic, "", 0))):
        raise InvalidArgument(
            f"badRecordsTopic {topic!r} is read by this query too: what is sent there would come back for ever."
        )
    return found


def _start(values: Mapping[str, Any], streaming: bool) -> Position:
    else_latest = values.get("startingOffsetsByTimestampStrategy", "error") == "latest"
    if "startingTimestamp" in values:
        return AtTime(values["startingTimestamp"], else_latest)
    if "startingOffsetsByTimestamp" in values:
        times: AtTimes = values["startingOffsetsByTimestamp"]
        return replace(times, else_latest=else_latest)
    if isinstance(values.get("startingOffsets"), OfGroup):
        return Committed(values["group"], values.get("groupOffsetReset", "latest") == "latest")
    start: Position = values.get("startingOffsets", Latest() if streaming else Earliest())
    if isinstance(start, Latest) and not streaming:
        raise InvalidArgument(
            "Option 'startingOffsets' cannot be 'latest' for a batch read: nothing is behind the last message.",
            hint="earliest (the default), group, -1000 or JSON is accepted.",
        )
    return start


def _retry(values: Mapping[str, Any], streaming: bool) -> RetryPolicy:
    """How many tries the user says, that many there are; a pause alone says nothing of for how long."""
    retries, interval_ms = values.get("fetchOffset.numRetries"), values.get("fetchOffset.retryIntervalMs", 200)
    if retries is None:
        return RetryPolicy(interval_ms=interval_ms, for_ms=STREAM_PATIENCE_MS if streaming else None)
    return RetryPolicy(retries, interval_ms)


def _limits(values: Mapping[str, Any]) -> Limits:
    limits = Limits(
        max_rows=values.get("maxOffsetsPerTrigger"),
        max_bytes=values.get("maxBytesPerTrigger"),
        min_rows=values.get("minOffsetsPerTrigger"),
        max_delay_ms=values.get("maxTriggerDelay", DEFAULT_MAX_DELAY_MS),
    )
    if limits.max_rows is not None and (limits.min_rows or 0) > limits.max_rows:
        raise InvalidArgument(
            f"minOffsetsPerTrigger, {limits.min_rows}, cannot be above maxOffsetsPerTrigger, {limits.max_rows}."
        )
    return limits


def _end(values: Mapping[str, Any]) -> Position:
    if "endingTimestamp" in values:
        return AtTime(values["endingTimestamp"], else_latest=True)
    if "endingOffsetsByTimestamp" in values:
        times: AtTimes = values["endingOffsetsByTimestamp"]
        return replace(times, else_latest=True, option=ENDING_TIMES)
    end: Position = values.get("endingOffsets", Latest())
    if isinstance(end, Earliest) or (isinstance(end, AtOffsets) and EARLIEST_MARK in end.offsets.values()):
        raise InvalidArgument(
            "Option 'endingOffsets' cannot be 'earliest', nor -2 in JSON: nothing is before the first message.",
            hint="latest (the default) or JSON is accepted.",
        )
    return end
