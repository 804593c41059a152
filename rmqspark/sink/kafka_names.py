"""What to write instead of the options of Spark's Kafka sink that have no meaning here; as
`source.kafka_names`, and beside what `client.cluster_options` has."""

from __future__ import annotations

from typing import Final

KAFKA_NAMES: Final = {
    "subscribe": "Use topic.",
    "subscribepattern": "Use topic, or a column topic.",
    "assign": "Use topic, and partitioner=column for its queues.",
    "includeheaders": "Write a column properties, a map.",
    "kafka.key.serializer": "Leave it out: columns are strings, body a string or binary.",
    "kafka.value.serializer": "Leave it out: column body is a string or binary.",
    "kafka.acks": "Leave it out: the broker's flush mode says when a message is safe (flush_disk_type).",
    "kafka.enable.idempotence": "Use deliveryGuarantee: a stream writes exactly once anyway.",
    "kafka.transactional.id": "Use transactionalId.",
    "kafka.compression.type": "Use compression.",
    "kafka.batch.size": "Use batchBytes.",
    "kafka.max.request.size": "Use batchBytes.",
    "kafka.partitioner.class": "Use partitioner.",
}
