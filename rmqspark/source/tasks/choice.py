"""Which messages a task wants that reads files itself: what a broker does for others, with the same code.

Tags are tested by their hash in the queue's entries, before a record is read, and then themselves. An SQL92 expression
is about properties, so it takes the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.filters import TagFilter
from rmqspark.source.tasks.tags import matching

if TYPE_CHECKING:
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.protocol.sql.filter import SqlFilter
    from rmqspark.source.task_options import TaskOptions


class Choice:
    """The messages that the options `tags` or `sql` name; without them all. `tag_codes` are for entries."""

    def __init__(self, options: TaskOptions) -> None:
        self._tags = TagFilter.parse(options.tags) if options.tags else None
        self._sql = None if options.sql is None else _parsed(options.sql)
        self.tag_codes = None if self._tags is None else self._tags.codes

    def of(self, records: RecordBatch) -> RecordBatch:
        """Those of the records that are wanted. Their tags' hashes have been tested."""
        if self._sql is not None:
            return records.where(self._sql.matching(records))
        return records if self._tags is None else matching(records, self._tags)


def _parsed(expression: str) -> SqlFilter:
    from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar, which only those who filter wait for

    return SqlFilter.parse(expression)
