"""readMode=direct: tasks read the files of the broker's store themselves; the broker gives only offsets.

The broker says which store it has and where that lies. A task that finds this very store there (its id counts, not the
path) reads it; one that does not, on another machine say, reads through the broker and says so once per process. The
same goes for each message that the files cannot vouch for (`store/direct/read.py`): the newest few, which the broker
has not written to its queue files yet; those whose file expired under the task; those of a broker that died in the
middle; and those of a topic that was deleted and made anew after the offsets were planned. So what is lost and what is
not is always the broker's word, as without direct reads.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.shared import shared_client
from rmqspark.errors import StoreError
from rmqspark.source.tasks.choice import Choice
from rmqspark.source.tasks.columns import columns_of
from rmqspark.source.tasks.fetch import fetch
from rmqspark.source.values.arrow import rows_of_a_batch
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.direct.view import StoreView, identity_of
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from rmqspark.source.partitions import DirectPartition, StorePlace
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions
    from rmqspark.source.values.arrow import ArrowColumns
    from rmqspark.source.values.value_columns import ValueColumns
    from rmqspark.store.direct.view import Identity

CHUNK_BYTES = 4 << 20

_log = logging.getLogger(__name__)
_said: set[str] = set()  # paths of stores that this process could not read, once said


def read_direct(partition: DirectPartition, schema: StructType) -> Iterator[Any]:
    """The Arrow batches of a partition. Raises what reading from the broker raises."""
    options = partition.options
    columns = columns_of(options, schema, *(wanted.queue for wanted in partition.ranges))
    view = open_store(partition.place)
    if view is None:
        for each in partition.ranges:
            yield from _from_broker(each, options, columns)
        return
    choice = Choice(options)
    wanted = [
        Wanted(queue.topic, queue.queue_id, start, end, topic_deleted_ms)
        for queue, start, end, topic_deleted_ms, _ in partition.ranges
    ]
    with view:
        late = view.pages_may_come_late
        for found in read_ranges(
            view, wanted, limits_of(schema), choice.tag_codes, check_crc=late, pages_may_come_late=late
        ):
            if isinstance(found, Unread):
                unread = partition.ranges[found.number]._replace(start=found.start, end=found.end)
                yield from _from_broker(unread, options, columns)
            else:
                yield from columns.batches(choice.of(found))


def _from_broker(wanted: QueueRange, options: TaskOptions, columns: ArrowColumns | ValueColumns) -> Iterator[Any]:
    for records in fetch(shared_client(options.namesrv, options.access), wanted, options):
        yield from columns.batches(records)


def limits_of(schema: StructType) -> Limits:
    """How much is read in one piece: one Arrow batch."""
    return Limits(rows_of_a_batch(schema), CHUNK_BYTES)


def open_store(place: StorePlace) -> StoreView | None:
    """The store, if it is there and the one that is meant; None where it is not."""
    files = PosixFileSystem(place.path)
    found = identity_of(files)
    if reason := _why_not(place, found):
        _say(place, reason)
        return None
    try:
        return StoreView(files)
    except (OSError, StoreError) as error:
        _say(place, str(error))
        return None


def _why_not(place: StorePlace, found: Identity | None) -> str:
    """Why what lies there is not the broker's, "" where it is. A copy has the store's id and incarnation."""
    if found is None:
        return "it is not there, or may not be read"
    if (found.store_id, found.incarnation) != (place.store_id, place.incarnation):
        return "there is another store"
    if place.opening not in ("", found.opening):
        return "there is a copy of it, or it has been opened since"
    return ""


def _say(place: StorePlace, reason: str) -> None:
    if place.path not in _said:
        _said.add(place.path)
        _log.warning(
            "readMode=direct: the store %s at %s cannot be read from here (%s); messages come from the broker.",
            place.store_id, place.path, reason,
        )  # fmt: skip
