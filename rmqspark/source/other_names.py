"""What to write instead of options that Spark itself, our sink and RocketMQ's own connector for Spark name; as
`kafka_names`.

The connector is rocketmq-spark of apache/rocketmq-externals, with the settings of its DStream as well. What it calls as
we do (nameServer, group, startingOffsets …) is not here.
"""

from __future__ import annotations

from typing import Final

_BY_THE_MEGABYTE: Final = "Leave it out: a request brings as many messages as fit into its answer."
_OF_THE_SINK: Final = (
    *("deliveryguarantee", "transactionalid", "txnappid", "transactionversion", "txnversion", "onstaleversion"),
    *("onreplaymismatch", "partitioner", "compression", "batchbytes", "autocreatetopic", "queues"),
)
_OF_THE_STREAM: Final = "Give it where the stream is written, not where it is read."
_PATIENCE: Final = "Use fetchOffset.numRetries and fetchOffset.retryIntervalMs."

OTHER_NAMES: Final = {
    "paths": 'Name several topics in one string: .load("orders,payments").',  # what load() makes of a list
    "topics": "Use subscribe.",
    "checkpointlocation": _OF_THE_STREAM,
    "queryname": _OF_THE_STREAM,
    **dict.fromkeys(_OF_THE_SINK, "It is the sink's."),
    "subexpression": "Use tags, or sql.",
    "pullbatchsize": _BY_THE_MEGABYTE,
    "pulltimeout": _PATIENCE,
    "pulltimeoutms": _PATIENCE,
    "consumer.topic": "Use subscribe.",
    "consumer.tag": "Use tags.",
    "consumer.offset": "Use startingOffsets, or startingTimestamp.",
    "pull.max.batch.size": _BY_THE_MEGABYTE,
    "pull.max.speed.per.partition": "Use maxOffsetsPerTrigger.",
    "pull.timeout.ms": _PATIENCE,
}
