"""Which half messages were committed, as the log itself tells.

A committed message carries the physical offset of its half (RocketMQ's preparedTransactionOffset). The record that says
"this half is done with" may be missing, where a power loss tore the two apart, or where Apache RocketMQ, which writes
it up to three seconds later, was killed. So whoever opens a store with halves that seem open looks here first, and
delivers none of them twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from rmqspark.store.message_store import MessageStore


def prepared_offsets(store: MessageStore, physical_offset: int) -> set[int]:
    """Physical offsets of the halves whose committed messages lie at or behind `physical_offset`, a record's start."""
    found: set[int] = set()
    for batch in store.records.since(physical_offset):
        committed = np.flatnonzero(batch.sys_flags & SysFlag.TRANSACTION_MASK == SysFlag.COMMITTED)
        if len(committed):
            found.update(batch.prepared_transaction_offsets[committed].tolist())
    return found
