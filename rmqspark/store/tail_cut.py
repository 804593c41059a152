"""A slave's tail that its master does not have is taken back, out of the log and all that was made of it.

What was there is kept in a file (`cut_tails.py`): it may be the only copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.store.cut_tails import keep_tail

if TYPE_CHECKING:
    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.files import FileSystem
    from rmqspark.store.flush import Flusher
    from rmqspark.store.identity import StoreIdentity


class TailCut:
    """Cuts the log of one store, and what follows from it."""

    def __init__(
        self,
        files: FileSystem,
        contents: Contents,
        dispatcher: Dispatcher,
        gate: WriteGate,
        flusher: Flusher,
        identity: StoreIdentity,
    ) -> None:
        self._files = files
        self._contents = contents
        self._dispatcher = dispatcher
        self._gate = gate
        self._flusher = flusher
        self._identity = identity

    def run(self, physical_offset: int) -> str:
        """Takes back all from a record's begin on, durably; what was there is kept in the file whose path is returned.
        Offsets known from before may mean other messages then: the incarnation rises. Raises OSError; NotWritable where
        the store takes nothing; ValueError while a flush is under way.

        Each step can be followed by a kill: the checkpoint comes first, and what is left is found and cut once more.
        Where the disk refuses a step nobody can say what is there until the store is opened again.
        """
        self._gate.check(from_master=True)  # after a failed fsync another would prove nothing
        self._flusher.flush()
        if self._dispatcher.fault is not None:
            raise self._dispatcher.fault
        log = self._contents.log
        tail = log.segments.read(physical_offset, log.end_offset - physical_offset)
        kept = keep_tail(self._files, physical_offset, tail)
        try:
            self._take_back(physical_offset)
        except BaseException as error:
            hint = "Start the broker again: it finds what is there."
            self._gate.shut_for_good(f"A tail of the log was cut off by half: {error}.", hint)
            raise
        return kept

    def _take_back(self, physical_offset: int) -> None:
        self._identity.raise_incarnation()
        self._flusher.lower_checkpoint(physical_offset)
        self._contents.cut(physical_offset)
        self._dispatcher.rewind(physical_offset)
        self._flusher.flush(thorough=True)
