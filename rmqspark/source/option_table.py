"""The source's options by name: the table that errors and docs/spark.md are made from."""

from __future__ import annotations

from rmqspark.client.cluster_options import ACCESS_OPTIONS, NAMESRV
from rmqspark.client.cluster_options import KAFKA_NAMES as CLUSTER_KAFKA_NAMES
from rmqspark.options import (
    Option,
    OptionTable,
    boolean,
    choice,
    directory,
    duration_ms,
    integer,
    moment,
    size_bytes,
)
from rmqspark.protocol.names import check_group
from rmqspark.rebalance.strategies import read_strategy
from rmqspark.source.expressions import sql_expression, tag_expression
from rmqspark.source.kafka_names import KAFKA_NAMES
from rmqspark.source.other_names import OTHER_NAMES
from rmqspark.source.planning.dealing import MOST_PARTITIONS
from rmqspark.source.positions import read_assignment, read_end, read_start, read_start_time, read_times
from rmqspark.source.subscription import read_pattern, read_topics
from rmqspark.source.values.value_options import VALUE_OPTIONS

SOURCE_OPTIONS = OptionTable(
    owner="source",
    options=(
        NAMESRV,
        Option(
            "subscribe", "–", 'topics, separated by commas; `load("t")` is the same', read_topics, aliases=("path",)
        ),
        Option(
            "subscribePattern",
            "–",
            "regular expression for whole names of topics; those that come are read, those that go are lost data",
            read_pattern,
        ),
        Option("assign", "–", 'queues: `{"t":{"broker-a":[0,1]}}`', read_assignment),
        Option("tags", "`*`", "tag expression, filtered in the broker: `paid || shipped`", tag_expression),
        Option(
            "sql",
            "–",
            "SQL92 condition over message properties, filtered in the broker; excludes `tags`: "
            "`price > 10 AND region IN ('EU', 'US')`",
            sql_expression,
        ),
        Option(
            "startingOffsets",
            "`latest` stream, `earliest` batch",
            "where a new query starts: `earliest`, `latest`, `group` (what `group` has committed), `-1000` (so many "
            'messages before the end of each queue), or `{"t":{"broker-a":{"0":12}}}` (-2 earliest, -1 latest)',
            read_start,
        ),
        Option(
            "groupOffsetReset",
            "`latest`",
            "with startingOffsets=group or groupMode=shared: `earliest` or `latest`, where a new query starts in "
            "queues of which nothing is committed",
            choice("earliest", "latest"),
        ),
        Option(
            "startingTimestamp",
            "–",
            "start at the first message stored then: milliseconds, ISO-8601 (UTC, whatever the session's time zone, "
            "unless it says otherwise) or relative (`-10m`)",
            read_start_time,
        ),
        Option(
            "startingOffsetsByTimestamp",
            "–",
            'the same by topic, `{"t":1700000000000}`, or by queue, `{"t":{"broker-a":{"0":"-10m"}}}`',
            read_times,
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            "`error`",
            "where a queue has messages and none is that young: `error`, or `latest` to start at its end",
            choice("error", "latest"),
        ),
        Option("endingOffsets", "`latest`", "batch: where reading ends: `latest` or JSON (no -2)", read_end),
        Option("endingTimestamp", "–", "batch: read what was stored before then", moment),
        Option(
            "endingOffsetsByTimestamp",
            "–",
            "the same by topic or queue, as startingOffsetsByTimestamp",
            read_times,
        ),
        Option(
            "maxOffsetsPerTrigger",
            "–",
            "stream: messages per micro-batch, shared over the queues by backlog; none starves",
            integer(at_least=1),
        ),
        Option(
            "maxBytesPerTrigger",
            "–",
            "stream: bytes per micro-batch as the broker stores them, never more unless one message alone is: `64m`",
            size_bytes(at_least=1, at_most=1 << 50),
        ),
        Option(
            "minOffsetsPerTrigger",
            "–",
            "stream: no micro-batch before so many messages wait",
            integer(at_least=1),
        ),
        Option(
            "maxTriggerDelay",
            "`15m`",
            "stream: with minOffsetsPerTrigger, the longest time between two micro-batches while messages wait",
            duration_ms,
        ),
        Option(
            "minPartitions",
            "–",
            f"split queues so that there are at least so many tasks, {MOST_PARTITIONS:,} at most",
            integer(at_least=1, at_most=MOST_PARTITIONS),
        ),
        Option(
            "maxRecordsPerPartition",
            "–",
            f"split queues so that no task reads more; more than {MOST_PARTITIONS:,} tasks of a batch are an error",
            integer(at_least=1),
        ),
        Option(
            "failOnDataLoss",
            "`true`",
            "false: what is gone is warned about, skipped and counted instead of ending the query",
            boolean,
        ),
        Option(
            "group",
            "`spark-<uuid>`",
            "stream: consumer group that reports its progress; by default drawn with the first offset and kept in it",
            check_group,
        ),
        Option(
            "groupMode",
            "`exclusive`",
            "`exclusive`: this query alone reads for the group. `shared`: several queries divide its queues",
            choice("exclusive", "shared"),
        ),
        Option(
            "allocateStrategy",
            "`averagely`",
            "how a shared group's queues are divided: `averagely`, `circle`, `consistent-hash`, `config` (those of "
            "`assign`), `machine-room` or `machine-room:ROOM,…`, `machine-room-nearby` or `machine-room-nearby:ROOM`",
            read_strategy,
        ),
        Option("commitOffsets", "`true`", "stream: report progress as the group's committed offsets", boolean),
        *VALUE_OPTIONS,
        Option(
            "readMode",
            "`broker`",
            "`direct`: tasks on the broker's machine, or with its disk, read the files themselves; others fall back",
            choice("broker", "direct"),
        ),
        Option(
            "store",
            "–",
            "batch: a store directory, or a folder of them, read with no broker; without `subscribe` all its topics",
            directory,
        ),
        Option(
            "fetchOffset.numRetries",
            "`3`",
            "tries after a failed request for offsets or messages; not set, a stream that runs tries for a minute",
            integer(0, 10_000),
        ),
        Option(
            "fetchOffset.retryIntervalMs",
            "`200`",
            "pause before the first of these, ms; each next is five times as long, up to 5000",
            integer(0, 3_600_000),
        ),
        *ACCESS_OPTIONS,
    ),
    foreign=CLUSTER_KAFKA_NAMES | KAFKA_NAMES | OTHER_NAMES,
)
