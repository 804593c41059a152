"""A table and its file: what is written, and where the work is done."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.state.table_file import TableFile
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    import pytest


def test_a_table_is_written_as_it_was_and_encoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many offsets there are, the loop goes on; what is committed meanwhile is for the next time."""
    encoded_by = []
    encode = ConsumerOffsetTable.encode

    def noted(table: ConsumerOffsetTable) -> bytes:
        encoded_by.append(threading.current_thread())
        return encode(table)

    monkeypatch.setattr(ConsumerOffsetTable, "encode", noted)
    offsets, json = ConsumerOffsets(), JsonTable(MemoryFileSystem(), "config/consumerOffset.json")
    file = TableFile(json, offsets, lambda: offsets.table(0))
    offsets.commit("g", "orders", 0, 1)
    write = file.snapshot()
    offsets.commit("g", "orders", 0, 2)
    asyncio.run(write())
    stored = json.load(lambda text: ConsumerOffsetTable.decode(text.encode()))
    assert stored is not None
    assert stored.offsetTable == {"orders@g": {0: 1}}
    assert not file.is_saved
    assert encoded_by
    assert threading.main_thread() not in encoded_by
