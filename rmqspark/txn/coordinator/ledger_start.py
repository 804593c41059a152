"""Where the ledger starts: all that is needed of its queue lies from there on.

What lies before may expire, and nothing behind does, however long a transactional id is idle (`needed_offset`). The
start is noted in config/txnLedger.json. An older one would do as well, it only takes longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from rmqspark.errors import DamagedFile
from rmqspark.protocol.learned import learned
from rmqspark.store.json_table import JsonTable
from rmqspark.threads import in_thread

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore

log = structlog.get_logger("rmqspark.txn")


class _Noted(msgspec.Struct):
    """`incarnation` is the store's when this was noted: where the log was cut since, as a slave's is, other events may
    be there."""

    queueOffset: int
    incarnation: int = -1


class LedgerStart:
    """The offset of the first event that is needed, and where it lies in the log."""

    def __init__(self, store: MessageStore, files: FileSystem) -> None:
        self._store = store
        self._file = JsonTable(files, "config/txnLedger.json")
        self.queue_offset = 0
        self.physical_offset = 0

    @property
    def needed_offset(self) -> int:
        """Physical offset from which on the log must be kept."""
        return min(self.physical_offset, self._store.end_offset)

    def find(self, low: int, high: int) -> None:
        """As noted in this log, else all there is: the events from `low` up to `high`. Nothing in the log is needed for
        it until it is said where the first one lies."""
        noted = self._noted()
        first = noted.queueOffset if noted else 0
        if low > first:  # another broker has had the store, or this is the copy of a master's that has not all of it
            log.error(
                "the ledger may lack its beginning: a batch decided there that is run again is written again",
                first=first,
                next=low,
            )
        is_ours = noted is not None and noted.incarnation == self._store.incarnation
        self.queue_offset = noted.queueOffset if noted and is_ours and low <= noted.queueOffset <= high else low
        self.physical_offset = self._store.end_offset

    def _noted(self) -> _Noted | None:
        """None where nothing is noted, or nothing that can be read: then all there is has to be."""
        try:
            return self._file.load(lambda text: msgspec.json.decode(text, type=learned(_Noted)))
        except DamagedFile as error:
            log.warning("where the ledger begins cannot be read, all of it is", reason=str(error))
            return None

    async def move(self, queue_offset: int, physical_offset: int) -> None:
        """All there is is said again from there on, and on the disk. Raises OSError."""
        text = msgspec.json.encode(_Noted(queue_offset, self._store.incarnation)).decode()
        await in_thread(self._file.save, text)
        self.queue_offset, self.physical_offset = queue_offset, physical_offset
