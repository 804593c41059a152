"""Java's `String.hashCode`, on which tag filters and the key index of RocketMQ rest.

h = 31 h + unit, over the UTF-16 units of the string, in signed 32-bit arithmetic. A broker stores the hash of a
message's TAGS in the queue entry (sign-extended to 64 bits; 0 where there are none; spec: storage, section 3).

The vectorised form works on eight bytes at a time. Within a word neighbouring bytes are folded as 31 a + b, then pairs
as 31² a + b, then quads as 31⁴ a + b: the lanes (16, then 32 bits wide) never overflow into each other. Words are laid
against the *end* of a span, so that only its first word is partial; the bytes before the span are masked to zero, and
leading zeros do not change such a hash.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.buffers.spans import sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MASK32: Final = 0xFFFFFFFF
_LONGEST_CACHED: Final = 64
_BLOCK: Final = 8192  # rows whose temporaries stay in the processor's cache

_LOW_BYTES: Final = np.uint64(0x00FF00FF00FF00FF)
_LOW_PAIRS: Final = np.uint64(0x0000FFFF0000FFFF)
_LOW_QUAD: Final = np.uint64(_MASK32)
_HIGH_BITS: Final = 0x8080808080808080
_31, _31_POW_2 = np.uint64(31), np.uint64(31**2)
_SHIFT_8, _SHIFT_16, _SHIFT_32 = np.uint64(8), np.uint64(16), np.uint64(32)
# _KEEP[n] keeps the last n bytes of a word.
_KEEP: Final = np.array([(1 << 64) - (1 << 8 * (8 - n)) for n in range(9)], np.uint64)


def java_hash(text: str) -> int:
    """`text.hashCode()` of Java: a signed 32-bit integer."""
    if len(text) <= _LONGEST_CACHED:
        return _short_hash(text)
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2").astype(np.uint32)
    powers = np.full(len(units), 31, np.uint32)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    return int(np.dot(units, powers[::-1]).astype(np.int32))


@lru_cache(maxsize=4096)
def _short_hash(text: str) -> int:
    """Tags come from a small set: most calls end in the cache."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = value * 31 + (high << 8 | low) & _MASK32
    return value - (1 << 32) if value >> 31 else value


def tags_code(tags: str | None) -> int:
    """The queue entry's code for a TAGS property: its Java hash, 0 where there are no tags."""
    return java_hash(tags) if tags else 0


def java_hash_spans(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The hash of each UTF-8 span of `buffer`; 0 for spans of length 0, and of length -1 (absent).

    ASCII is hashed in bulk; spans with other characters one distinct value at a time.
    """
    return hash_and_measure(buffer, starts, lengths)[0]


def hash_and_measure(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The hash of each span, as `java_hash_spans` has it, and how many characters Java counts in it: as many as bytes,
    where these are ASCII."""
    hashes, units = np.zeros(len(starts), np.int32), lengths
    if lengths.max(initial=0) <= 0:
        return hashes, units
    ends = starts + np.maximum(lengths, 0)
    if int(starts.min()) < 8:  # the first word of such a span may begin before the buffer
        buffer = np.concatenate((np.zeros(8, np.uint8), buffer))
        ends = ends + 8
    if len(buffer) < 8:
        return hashes, units
    words = sliding(buffer, "<u8")
    for first in range(0, len(starts), _BLOCK):
        rows = slice(first, first + _BLOCK)
        if _hash_ascii(words, ends[rows], lengths[rows], hashes[rows]):
            units = lengths.copy() if units is lengths else units
            _hash_others(buffer, ends[rows], lengths[rows], hashes[rows], units[rows])
    return hashes, units


def hash_ascii_rows(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The hash of each row of a table of ASCII: hardly a fixed cost, but more for each row than `java_hash_spans`."""
    hashes: NDArray[np.uint32] = np.einsum("ij,j->i", rows.astype(np.uint32), _powers(rows.shape[1]))
    return hashes.view(np.int32)


@lru_cache(maxsize=64)
def _powers(count: int) -> NDArray[np.uint32]:
    """31 to the power of `count` - 1, and so on down to 0."""
    return np.array([pow(31, exponent, 1 << 32) for exponent in reversed(range(count))], np.uint32)


def _hash_ascii(
    words: NDArray[np.uint64], ends: NDArray[np.int64], lengths: NDArray[np.int64], hashes: NDArray[np.int32]
) -> bool:
    """Writes the hash of each span as if it were ASCII; tells whether any is not."""
    total = np.zeros(len(ends), np.uint64)
    seen = 0
    power = 1
    rows: NDArray[np.int64] | slice = slice(None)
    while len(ends):
        shortest, longest = int(lengths.min()), int(lengths.max())
        word = words[ends - 8]
        if shortest < 8:
            word &= _KEEP[max(shortest, 0)] if shortest == longest else _KEEP[np.clip(lengths, 0, 8)]
        seen |= int(np.bitwise_or.reduce(word))
        total[rows] += _fold(word, power)
        power = power * 31**8 & _MASK32
        if longest <= 8:
            break
        if shortest > 8:
            ends, lengths = ends - 8, lengths - 8
            continue
        longer = np.flatnonzero(lengths > 8)
        rows = longer if isinstance(rows, slice) else rows[longer]
        ends, lengths = ends[longer] - 8, lengths[longer] - 8
    hashes[:] = total.astype(np.uint32).view(np.int32)
    return bool(seen & _HIGH_BITS)


def _fold(word: NDArray[np.uint64], power: int) -> NDArray[np.uint64]:
    """The hash of the eight bytes of each word, the first one in its lowest bits, times `power`. Modulo 2**32."""
    first = word & _LOW_BYTES
    first *= _31
    word >>= _SHIFT_8
    word &= _LOW_BYTES
    word += first
    first = word & _LOW_PAIRS
    first *= _31_POW_2
    word >>= _SHIFT_16
    word &= _LOW_PAIRS
    word += first
    first = word & _LOW_QUAD
    first *= np.uint64(31**4 * power & _MASK32)
    word >>= _SHIFT_32
    word *= np.uint64(power)
    word += first
    return word


def _hash_others(
    buffer: NDArray[np.uint8],
    ends: NDArray[np.int64],
    lengths: NDArray[np.int64],
    hashes: NDArray[np.int32],
    units: NDArray[np.int64],
) -> None:
    known: dict[bytes, tuple[int, int]] = {}
    for row, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
        encoded = buffer[end - length : end].tobytes() if length > 0 else b""
        if encoded.isascii():
            continue
        if encoded not in known:
            text = encoded.decode("utf-8", "replace")
            known[encoded] = java_hash(text), len(text.encode("utf-16-be")) // 2
        hashes[row], units[row] = known[encoded]
