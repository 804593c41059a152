"""Unique ids for many messages: what `message_id.UniqueIds` hands out one by one, written as a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.columns import Column
from rmqspark.protocol.message_id import UNIQUE_ID_CHARACTERS, UNIQUE_PREFIX_CHARACTERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The four hex digits of every 16-bit number, 256 KiB: three look-ups write the 48 bits of a sequence number.
_HEX_DIGITS: Final = np.frombuffer("".join(f"{value:04X}" for value in range(1 << 16)).encode(), "V4")


def unique_keys(prefix: str, sequences: NDArray[np.int64]) -> Column:
    """One id per sequence number (48 bits each) under a prefix of 20 hex digits.

    The caller decides what the numbers are: `UniqueIds.reserve` gives fresh ones; a sink that must write the same ids
    when it repeats a batch derives prefix and numbers from what it repeats.
    """
    if len(prefix) != UNIQUE_PREFIX_CHARACTERS:
        raise InvalidArgument(
            f"The prefix of a unique id has {UNIQUE_PREFIX_CHARACTERS} characters, not {len(prefix)}."
        )
    rows = len(sequences)
    table = np.empty(rows, [("prefix", "V20"), ("high", "V4"), ("middle", "V4"), ("low", "V4")])
    table["prefix"] = np.void(prefix.encode())
    for digits, shift in (("high", 32), ("middle", 16), ("low", 0)):
        table[digits] = _HEX_DIGITS[sequences >> shift & 0xFFFF]
    offsets = np.arange(rows + 1, dtype=np.int64) * UNIQUE_ID_CHARACTERS
    return Column(table.view(np.uint8), offsets)
