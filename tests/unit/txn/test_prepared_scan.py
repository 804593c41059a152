"""Finding out from the log alone which half messages were committed."""

from __future__ import annotations

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.half_messages.prepared_scan import prepared_offsets

SEGMENT_BYTES = 4096


def message(sys_flag: int, prepared_offset: int) -> Draft:
    record = encode_record(topic="t", body=b"x" * 500, sys_flag=sys_flag, prepared_transaction_offset=prepared_offset)
    return Draft("t", 0, record)


def test_committed_messages_are_found_over_all_files() -> None:
    """From the place asked for on, whatever lies between them; other kinds of messages do not count."""
    config = StoreConfig(mapped_file_size_commit_log=SEGMENT_BYTES, max_hash_slot_num=100, max_index_num=400)
    store = MessageStore.open("store", config, files=MemoryFileSystem(), clock=ManualClock(), entropy=SystemEntropy())
    kinds = (0, SysFlag.PREPARED, SysFlag.COMMITTED, SysFlag.ROLLED_BACK)
    places = [store.append([message(kinds[n % 4], n)])[0].physical_offset for n in range(30)]
    assert store.end_offset > 3 * SEGMENT_BYTES
    committed = {n for n in range(30) if n % 4 == 2}
    assert prepared_offsets(store, 0) == committed
    assert prepared_offsets(store, places[11]) == {n for n in committed if n >= 11}
    assert prepared_offsets(store, store.end_offset) == set()
    store.close()
