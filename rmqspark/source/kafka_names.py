"""What to write instead of the options of Spark's Kafka source that have no meaning here.

Names are lower case, as Spark hands them over; one that ends with a dot stands for all that begin with it. Options that
both sources have (subscribe, startingOffsets, maxOffsetsPerTrigger …) have Kafka's names and are not here. The list is
that of Spark's "Structured Streaming + Kafka Integration Guide" (4.x), with the settings of Kafka's consumer that have
a counterpart; for any other `kafka.` setting see `OptionTable`, and for what source and sink have in common
`client.cluster_options`.
"""

from __future__ import annotations

from typing import Final

KAFKA_NAMES: Final = {
    "includeheaders": "Message properties are always there: column properties, a map.",
    "kafka.group.id": "Use group.",
    "groupidprefix": "Use group.",
    "topic": "Use subscribe.",
    "kafkaconsumer.polltimeoutms": "Use fetchOffset.numRetries and fetchOffset.retryIntervalMs.",
    "kafka.auto.offset.reset": "Use startingOffsets, and groupOffsetReset with startingOffsets=group.",
    "kafka.enable.auto.commit": "Use commitOffsets.",
    "kafka.max.poll.records": "Use maxOffsetsPerTrigger or maxRecordsPerPartition.",
    "kafka.fetch.max.bytes": "Use maxBytesPerTrigger.",
    "kafka.max.partition.fetch.bytes": "Use maxBytesPerTrigger.",
    "kafka.isolation.level": "Leave it out: only what is committed is ever read.",
    "kafka.key.deserializer": "Leave it out: bodies come as bytes, column body; keys as text, column keys.",
    "kafka.value.deserializer": "Leave it out: bodies come as bytes, column body.",
    "kafka.partition.assignment.strategy": "Use allocateStrategy, with groupMode=shared.",
    "kafka.interceptor.classes": "Leave it out: change rows in Spark.",
    "kafka.session.timeout.ms": "Leave it out: with groupMode=shared the brokers' consume_group_lock_live_time counts.",
    "kafka.client.rack": "Leave it out: queues are read from the broker that has them.",
    "kafka.request.timeout.ms": "Use fetchOffset.numRetries and fetchOffset.retryIntervalMs.",
    "kafka.retry.backoff.ms": "Use fetchOffset.retryIntervalMs.",
}
