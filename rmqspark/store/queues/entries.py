"""Consume queue entries for many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.store.queues.consume_queue import ENTRY_DTYPE

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.queues.consume_queue import Entries


def entries_of(physical_offsets: Positions, sizes: Positions, tags_codes: Positions | int) -> Entries:
    """One entry per record, in their order; the tags codes may be one for all."""
    entries = np.empty(len(sizes), ENTRY_DTYPE)
    entries["physical_offset"] = physical_offsets
    entries["size"] = sizes
    entries["tags_code"] = tags_codes
    return entries
