"""Drafts that get their places: what an append of them writes into their records, and what is to be dispatched.

`singles.py` does the same for messages about which nothing is unusual, at half the cost.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.records.record import QUEUE_OFFSET_AT, STORE_TIMESTAMP_AT, SYS_FLAG_AT, SysFlag, patch_record
from rmqspark.store.appending.single_entries import SingleEntries
from rmqspark.store.draft import Appended
from rmqspark.store.queues.consume_queue import ENTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.draft import Draft
    from rmqspark.store.files import Buffer
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues

_LOW_SYS_FLAG_AT: Final = SYS_FLAG_AT + 3
_put_place = Struct(">qq").pack_into  # queue offset, physical offset
_put_stamp = Struct(">q8s").pack_into  # store timestamp, store host
_pack_entry = ENTRY.pack
_UNUSUAL: Final = SysFlag.TRANSACTION_MASK | SysFlag.HOSTS_MASK
_MOST_JOINED_BYTES: Final = 1 << 20
_WITHOUT_QUEUE_ENTRY: Final = (SysFlag.PREPARED, SysFlag.ROLLED_BACK)


class PlacedDrafts:
    """The drafts of one append. Changes nothing but them: queues advance when the log has been written."""

    def __init__(self, queues: ConsumeQueues, now_ms: int, store_host: bytes) -> None:
        self._queues = queues
        self._now_ms = now_ms
        self._store_host = store_host
        self.queued = SingleEntries(queues)
        self.appended: list[Appended] = []
        self.keys: list[bytes] = []  # for the index, and beside each the physical offset of its message
        self.key_offsets: list[int] = []

    def place(self, drafts: Sequence[Draft], physical_offset: int) -> None:
        """Drafts that lie one after another from `physical_offset` on."""
        now_ms, store_host, queued = self._now_ms, self._store_host, self.queued
        appended, keys, key_offsets = self.appended, self.keys, self.key_offsets
        for draft in drafts:
            record, topic = draft.record, draft.topic
            size = len(record)
            queue = self._queues.get_or_make(topic, draft.queue_id)
            if record[_LOW_SYS_FLAG_AT] & _UNUSUAL:
                self._place_unusual(draft, queue, physical_offset)
            else:
                queue_offset, tags_code = queued.offset_in(queue), draft.tags_code
                _put_place(record, QUEUE_OFFSET_AT, queue_offset, physical_offset)
                _put_stamp(record, STORE_TIMESTAMP_AT, now_ms, store_host)
                entry_code = now_ms + queue.delay_ms if queue.delay_ms else tags_code
                queued.add(queue, _pack_entry(physical_offset, size, entry_code), tags_code)
                for index_key in draft.index_keys:
                    keys.append(f"{topic}#{index_key}".encode())
                    key_offsets.append(physical_offset)
                appended.append(Appended(physical_offset, queue_offset, size, now_ms))
            physical_offset += size

    def _place_unusual(self, draft: Draft, queue: ConsumeQueue, physical_offset: int) -> None:
        """Messages of transactions, some of which have no place in a queue or the index, and hosts with IPv6."""
        now_ms, size = self._now_ms, len(draft.record)
        kind = draft.record[_LOW_SYS_FLAG_AT] & SysFlag.TRANSACTION_MASK
        has_entry = kind not in _WITHOUT_QUEUE_ENTRY
        queue_offset = self.queued.offset_in(queue) if has_entry else 0
        patch_record(
            draft.record,
            0,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            store_timestamp_ms=now_ms,
            store_host=self._store_host,
        )
        if has_entry:
            entry_code = now_ms + queue.delay_ms if queue.delay_ms else draft.tags_code
            self.queued.add(queue, _pack_entry(physical_offset, size, entry_code), draft.tags_code)
        if kind != SysFlag.ROLLED_BACK:
            for index_key in draft.index_keys:
                self.keys.append(f"{draft.topic}#{index_key}".encode())
                self.key_offsets.append(physical_offset)
        self.appended.append(Appended(physical_offset, queue_offset, size, now_ms))


def in_one(records: Sequence[bytearray]) -> Buffer | Sequence[Buffer]:
    """One buffer, unless copying costs more than a longer system call."""
    if len(records) == 1:
        return records[0]
    return b"".join(records) if sum(map(len, records)) <= _MOST_JOINED_BYTES else records
