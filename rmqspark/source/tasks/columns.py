"""What a task makes of records, as the options say: bodies as they are, or parsed.

What does it is imported by the tasks that need it: the driver's processes, which start one after the other, do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster.shared import shared_client

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.task_options import TaskOptions
    from rmqspark.source.values.arrow import ArrowColumns
    from rmqspark.source.values.value_columns import ValueColumns


def columns_of(
    options: TaskOptions, schema: StructType, queue: MessageQueue, *more: MessageQueue
) -> ArrowColumns | ValueColumns:
    """What makes batches of the records of these queues, for a schema that was checked."""
    if options.values is None:
        from rmqspark.source.values.arrow import ArrowColumns

        return ArrowColumns(schema, queue, *more)
    from rmqspark.source.values.bad_records import BadRecords
    from rmqspark.source.values.value_columns import ValueColumns

    topic = options.values.bad_records_topic
    bad_records = None
    if topic is not None:
        bad_records = BadRecords(shared_client(options.namesrv, options.access), topic, options.retry)
    return ValueColumns(schema, options.values, bad_records, queue, *more)


def check_bad_records(options: TaskOptions) -> None:
    """Raises TopicNotFound before anything is read, if bodies that do not parse could not be sent."""
    if options.values is not None and options.values.bad_records_topic is not None:
        from rmqspark.source.values.bad_records import check_bad_records_topic

        client = shared_client(options.namesrv, options.access)
        check_bad_records_topic(client, options.values.bad_records_topic, options.retry)
