"""The sink's options by name: the table that errors and docs/spark.md are made from.

Apart from `options`, whose values go into every task: a task need not know what they were read from.
"""

from __future__ import annotations

from rmqspark.client.cluster_options import ACCESS_OPTIONS, NAMESRV
from rmqspark.client.cluster_options import KAFKA_NAMES as CLUSTER_KAFKA_NAMES
from rmqspark.options import Option, OptionTable, boolean, choice, integer, size_bytes
from rmqspark.protocol.headers.txn import MAX_VERSION
from rmqspark.protocol.names import MOST_QUEUES, check_row_target, check_transactional
from rmqspark.sink.kafka_names import KAFKA_NAMES
from rmqspark.sink.other_names import OTHER_NAMES


def transactional_id(value: str) -> str:
    return check_transactional("transactional id", value)


TRANSACTION_OPTIONS = (
    Option(
        "deliveryGuarantee",
        "`exactly-once` (stream), `at-least-once` (batch)",
        "what becomes of a batch that is run again: nothing is added, or its rows are written again",
        choice("at-least-once", "exactly-once"),
    ),
    Option(
        "transactionalId",
        "`spark-<query id>`",
        "who writes; on a batch write it means exactly-once",
        transactional_id,
        aliases=("txnAppId",),
    ),
    Option(
        "transactionVersion",
        "the batch id",
        "batch: which of its writes this is, a number that grows; a version at or below the last adds nothing",
        integer(at_least=0, at_most=MAX_VERSION),
        aliases=("txnVersion",),
    ),
    Option(
        "onStaleVersion",
        "`fail`",
        "a version below the last one (the checkpoint was deleted or restored): `fail`, or `skip` what it writes",
        choice("fail", "skip"),
    ),
    Option(
        "onReplayMismatch",
        "`warn`",
        "a batch run again has other rows than were committed, which stay: `warn` or `fail`",
        choice("warn", "fail"),
    ),
)

SINK_OPTIONS = OptionTable(
    owner="sink",
    options=(
        NAMESRV,
        Option(
            "topic",
            "the column",
            'topic to write to; `save("t")` is the same',
            lambda value: check_row_target(value),
            aliases=("path",),
        ),
        *TRANSACTION_OPTIONS,
        Option(
            "partitioner",
            "`hash` with a shardingKey column, else `roundRobin`",
            "which queue a row goes to: `hash` of shardingKey (in turn without that column), `roundRobin`, or "
            "`column`: queueId",
            choice("hash", "roundRobin", "column"),
        ),
        Option(
            "compression",
            "`none`",
            "bodies of 4 KiB and more: `none`, `zlib`, `lz4`, `zstd`",
            choice("none", "zlib", "lz4", "zstd"),
        ),
        Option(
            "batchBytes",
            "`1m`",
            "size of one send; unless it is set, four times that once a task has written so much for each queue, "
            "where no column divides the rows",
            size_bytes(at_least=64 << 10, at_most=8 << 20),
        ),
        Option("autoCreateTopic", "`false`", "create a topic that does not exist", boolean),
        Option("queues", "`8`", "queues of a topic that is created", integer(at_least=1, at_most=MOST_QUEUES)),
        *ACCESS_OPTIONS,
    ),
    foreign=CLUSTER_KAFKA_NAMES | OTHER_NAMES | KAFKA_NAMES,
    ignored=frozenset({"checkpointlocation", "queryname"}),
)
