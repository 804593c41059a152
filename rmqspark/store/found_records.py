"""What queues and index get of records that are in the log as they are: those that came from a master, and the last
ones that a recovery found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.store.dispatcher import Dispatch, QueuedEntries
from rmqspark.store.recovery.redispatch import Redispatcher
from rmqspark.store.recovery.whole_halves import WholeHalves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Readable, TagsCodes
    from rmqspark.store.index.index import Index
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.recovery.scan import Records

log = structlog.get_logger("rmqspark.store")


class FoundEntries:
    """The entries of records in the log, and `more` that follow them: those of one queue are put with one write, so all
    or none are there. See `dispatcher.Queued`."""

    def __init__(
        self, redispatcher: Redispatcher, found: Sequence[Records], more: Sequence[QueuedEntries] = ()
    ) -> None:
        self._redispatcher = redispatcher
        self._found = found
        self._more = more
        self._dispatched: Sequence[tuple[ConsumeQueue, TagsCodes]] = ()

    def take_offsets(self) -> None:
        """They have theirs."""

    def put(self) -> None:
        before = self._redispatcher.refused
        self._dispatched = self._redispatcher.dispatch(self._found, self._more)
        if self._redispatcher.refused > before == 0:  # once: whoever writes such things may write many
            behind = self._found[0].physical_offset
            log.warning("a message of the log is in no queue, there is none as it says", behind=behind)

    def readable(self) -> Iterator[Readable]:
        for queue, tags_codes in self._dispatched:
            yield queue.topic, queue.queue_id, queue.max_offset, tags_codes

    def without(self, topic: str) -> FoundEntries:
        """Of what was found the redispatcher leaves out the messages of deleted topics itself."""
        more = [entries for entries in self._more if entries.without(topic) is not None]
        return FoundEntries(self._redispatcher, self._found, more)


class FoundRecords:
    """Of one store. `halves` says which of them are kept back."""

    def __init__(self, contents: Contents) -> None:
        self.halves: Final = WholeHalves(contents.log)
        self._redispatcher = Redispatcher(contents.queues, contents.deletions)
        self._index = contents.index

    def dispatch_of(self, found: Sequence[Records], end_offset: int) -> Dispatch:
        """What is to be done for these, one at least, where nothing else is in the log up to `end_offset`."""
        store_timestamp_ms = int(found[-1].batch.store_timestamps_ms[-1])
        queued = FoundEntries(self._redispatcher, found)
        return Dispatch(end_offset, store_timestamp_ms, (queued,), self._add_to_index(found))

    def in_front_of(self, dispatch: Dispatch) -> Dispatch:
        """What is kept back, and this: it follows in the log, so there is nothing to wait for any more."""
        waiting = self.halves.let_go()
        more = [queued for queued in dispatch.queued if isinstance(queued, QueuedEntries)]
        others = [queued for queued in dispatch.queued if not isinstance(queued, QueuedEntries)]
        calls = [call for call in (self._add_to_index(waiting), dispatch.add_to_index) if call is not None]
        return dispatch._replace(
            queued=(FoundEntries(self._redispatcher, waiting, more), *others),
            add_to_index=partial(_call, calls) if calls else None,
        )

    def _add_to_index(self, found: Sequence[Records]) -> Callable[[], None] | None:
        """What does so, where there is one."""
        return partial(_append_records, self._index, found) if self._index is not None else None


def _append_records(index: Index, found: Sequence[Records]) -> None:
    for records in found:
        index.append_records(None, records.batch, records.batch.positions + records.physical_offset)


def _call(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()
