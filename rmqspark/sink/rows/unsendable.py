"""The error of a row that cannot be sent, which says where the row is found.

A task sees rows and no keys of them, so a row goes by its number: among those of its task, from 0. The task is that of
a partition of the frame: `df.where("spark_partition_id() = 3").offset(17).limit(1)` is row 17 of partition 3.
"""

from __future__ import annotations

from pyspark import TaskContext

from rmqspark.errors import InvalidMessage, InvalidQueue


def unsendable(row: int, story: str, hint: str = "") -> InvalidMessage:
    """An error of the row with this number among those of its task."""
    return InvalidMessage(f"{_named(row)} cannot be sent: {story}.", hint=hint)


def without_queue(row: int, queue_id: int | None, topic: str, queue_count: int) -> InvalidQueue:
    """The same of one whose column names no queue of its topic."""
    story = "is null" if queue_id is None else f"is {queue_id}"
    return InvalidQueue(
        f"{_named(row)} cannot be sent: column 'queueId' {story}; topic {topic!r} has queues 0 to {queue_count - 1}.",
        hint="Give each row one of these, or leave out partitioner=column.",
    )


def _named(row: int) -> str:
    task = TaskContext.get()
    return f"Row {row} of this task's input" + ("" if task is None else f" (partition {task.partitionId()})")
