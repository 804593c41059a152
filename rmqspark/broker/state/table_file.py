"""Keeps a table in memory and its file under config/ in step.

Tables change on the event loop; encoding a large one takes a tenth of a second, writing it durably milliseconds, and
both belong in a thread. What is encoded is a copy, which the loop makes in a fraction of that time. So changes are
written some time later: at once, and awaited, where somebody is told that they are there to stay (a topic created),
with the next round of the broker's clock elsewhere (offsets committed). Many changes then share one write. In which
order tables are written is `BrokerTables`' to say.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from rmqspark.errors import NotWritable
from rmqspark.store.disk_errors import advice
from rmqspark.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.protocol.bodies.base import Body
    from rmqspark.store.json_table import JsonTable


class Revised(Protocol):
    """A table whose `revision` moves with every change that has to be remembered."""

    @property
    def revision(self) -> int: ...


class TableFile:
    """One table's file. `copy` gives the table in the form of the file, and nothing that changes with the table."""

    def __init__(self, file: JsonTable, table: Revised, copy: Callable[[], Body]) -> None:
        self._file = file
        self._table = table
        self._copy = copy
        self._saved_revision = table.revision

    @property
    def is_saved(self) -> bool:
        """Whether the file holds what the table holds now."""
        return self.holds(self._table.revision)

    def holds(self, revision: int) -> bool:
        """Whether the file holds what the table held at that revision, or later."""
        return self._saved_revision >= revision

    def snapshot(self) -> Callable[[], Awaitable[None]]:
        """What writes the table as it is now, whatever becomes of it until then; it raises NotWritable if it cannot.
        One at a time."""
        return partial(self._write, self._table.revision, self._copy())

    async def _write(self, revision: int, copy: Body) -> None:
        try:
            await in_thread(lambda: self._file.save(copy.encode().decode()))
        except OSError as error:
            raise NotWritable(f"{self._file.path} cannot be written: {error}.", hint=advice(error)) from error
        self._saved_revision = revision
