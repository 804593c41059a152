"""Unique ids for many messages: what `message_id.UniqueIds` hands out one by one, written as a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.records.message_id import UNIQUE_ID_CHARACTERS, UNIQUE_PREFIX_CHARACTERS
from rmqspark.protocol.records.properties import PAIR_END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# The two hex digits of every byte, and their hashes; of which those of every 16-bit number are made.
_BYTE_DIGITS: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), "V2")
_BYTE_HASHES: Final = _BYTE_DIGITS.view(np.uint8).reshape(-1, 2) @ np.array([31, 1], np.uint32)


def _all_hex_digits() -> NDArray[np.void]:
    """Without a loop over the numbers: each process of a task that writes makes this table anew."""
    table = np.empty((256, 256, 2), "V2")
    table[:, :, 0] = _BYTE_DIGITS[:, np.newaxis]
    table[:, :, 1] = _BYTE_DIGITS
    return table.view("V4").ravel()


# The four hex digits of every 16-bit number, 256 KiB: three look-ups write the 48 bits of a sequence number.
_HEX_DIGITS: Final = _all_hex_digits()
_HEX_HASHES: Final = np.add.outer(_BYTE_HASHES * np.uint32(31**2), _BYTE_HASHES).ravel()
_SEQUENCE_CHARACTERS: Final = UNIQUE_ID_CHARACTERS - UNIQUE_PREFIX_CHARACTERS

_NAME: Final = b"UNIQ_KEY\x01"
_NUMBER: Final = [("high", "V4"), ("middle", "V4"), ("low", "V4")]
_KEY: Final = np.dtype([("prefix", f"V{UNIQUE_PREFIX_CHARACTERS}"), *_NUMBER])
_PAIR: Final = np.dtype([("prefix", f"V{len(_NAME) + UNIQUE_PREFIX_CHARACTERS}"), *_NUMBER, ("end", "u1")])
UNIQUE_KEY_PAIR_BYTES: Final = _PAIR.itemsize
"""How long the property UNIQ_KEY is in a record."""


class IdRange(NamedTuple):
    """Ids one after another: a prefix of 20 hex digits, and the number of the first."""

    prefix: str
    first: int

    def skip(self, count: int) -> IdRange:
        """Those after the first `count`."""
        return self._replace(first=self.first + count)

    def sequences(self, count: int) -> NDArray[np.int64]:
        """The numbers of the first `count`."""
        return np.arange(self.first, self.first + count, dtype=np.int64)


def unique_keys(prefix: str, sequences: NDArray[np.int64]) -> Column:
    """One id per sequence number (48 bits each) under a prefix of 20 hex digits.

    The caller decides what the numbers are: `UniqueIds.reserve` gives fresh ones; a sink that must write the same ids
    when it repeats a batch derives prefix and numbers from what it repeats.
    """
    return _column(_numbered(_KEY, np.void(_checked(prefix)), sequences))


def unique_key_pairs(ranges: Sequence[IdRange], counts: Sequence[int]) -> Column:
    """The first `counts[i]` ids of each range as the properties of records that have no others."""
    prefixes = [_NAME + _checked(each.prefix) for each in ranges]
    is_one, kind = len(set(prefixes)) == 1, f"V{len(prefixes[0])}"
    prefix = np.void(prefixes[0]) if is_one else np.repeat(np.frombuffer(b"".join(prefixes), kind), counts)
    table = _numbered(_PAIR, prefix, _sequences(ranges, counts))
    table["end"] = PAIR_END
    return _column(table)


def unique_key_hashes(aheads: Sequence[str], ranges: Sequence[IdRange], counts: Sequence[int]) -> NDArray[np.int32]:
    """Java's hash of a text and each id behind it: `aheads[i]` and the first `counts[i]` ids of `ranges[i]`."""
    sequences = _sequences(ranges, counts)
    high, middle, low = (_HEX_HASHES[sequences >> shift & 0xFFFF] for shift in (32, 16, 0))
    texts = [ahead + each.prefix for ahead, each in zip(aheads, ranges, strict=True)]
    shared = [java_hash(text) * 31**_SEQUENCE_CHARACTERS & 0xFFFFFFFF for text in texts]
    hashes: NDArray[np.uint32] = high * np.uint32(31**8 & 0xFFFFFFFF) + middle * np.uint32(31**4) + low
    hashes += np.uint32(shared[0]) if len(set(shared)) == 1 else np.repeat(np.array(shared, np.uint32), counts)
    return hashes.view(np.int32)


def _sequences(ranges: Sequence[IdRange], counts: Sequence[int]) -> NDArray[np.int64]:
    numbers = [each.sequences(count) for each, count in zip(ranges, counts, strict=True)]
    return numbers[0] if len(numbers) == 1 else np.concatenate(numbers)


def _checked(prefix: str) -> bytes:
    if len(prefix) != UNIQUE_PREFIX_CHARACTERS:
        raise InvalidArgument(
            f"The prefix of a unique id has {UNIQUE_PREFIX_CHARACTERS} characters, not {len(prefix)}."
        )
    return prefix.encode()


def _numbered(
    row: np.dtype[np.void], prefix: np.void | NDArray[np.void], sequences: NDArray[np.int64]
) -> NDArray[np.void]:
    table = np.empty(len(sequences), row)
    table["prefix"] = prefix
    for digits, shift in (("high", 32), ("middle", 16), ("low", 0)):
        table[digits] = _HEX_DIGITS[sequences >> shift & 0xFFFF]
    return table


def _column(table: NDArray[np.void]) -> Column:
    return Column(table.view(np.uint8), np.arange(len(table) + 1, dtype=np.int64) * table.itemsize)
