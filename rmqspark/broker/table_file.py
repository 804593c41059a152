"""Keeps a table in memory and its file under config/ in step.

Tables change on the event loop; writing a file durably takes milliseconds and belongs in a thread. So changes are
written some time later: at once, and awaited, where somebody is told that they are there to stay (a topic created),
with the next round of the broker's clock elsewhere (offsets committed). Many changes then share one write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from rmqspark.errors import NotWritable
from rmqspark.store.disk_errors import advice
from rmqspark.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.protocol.bodies_base import Body
    from rmqspark.store.json_table import JsonTable


class Revised(Protocol):
    """A table whose `revision` moves with every change that has to be remembered."""

    @property
    def revision(self) -> int: ...


class TableFile:
    """One table's file. `encode` gives the table in the form of the file."""

    def __init__(self, file: JsonTable, table: Revised, encode: Callable[[], Body]) -> None:
        self._file = file
        self._table = table
        self._encode = encode
        self._saved_revision = table.revision
        self._writing = asyncio.Lock()

    @property
    def is_saved(self) -> bool:
        """Whether the file holds what the table holds now."""
        return self._table.revision == self._saved_revision

    async def save(self) -> None:
        """Returns once the file holds at least what the table holds now. Raises NotWritable if it cannot be written."""
        async with self._writing:
            revision = self._table.revision
            if revision == self._saved_revision:
                return
            text = self._encode().encode().decode()
            try:
                await in_thread(self._file.save, text)
            except OSError as error:
                refusal = f"{self._file.path} cannot be written: {error}."
                raise NotWritable(refusal, hint=advice(error)) from error
            self._saved_revision = revision


async def save_in_order(*files: TableFile) -> None:
    """Writes one file when those before it are safe: whenever a kill comes, what is on disk of a change is its first
    part. Raises NotWritable at the first that cannot be written, and leaves out those behind it."""
    for file in files:
        await file.save()
