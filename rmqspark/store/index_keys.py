"""From messages to what the index enters for them: a hash per key, in the order of the log.

The key of a message in the index is `topic#key`, once for UNIQ_KEY and once for each token of KEYS (RocketMQ's
IndexService.buildKey and DefaultMessageStore's dispatcher). Of many records nothing is joined: Java's hash of a
concatenation is hash(left) * 31^length(right) + hash(right), so topics and keys are hashed where they lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.protocol.java_hash import java_hash, java_hash_spans
from rmqspark.protocol.record import SysFlag
from rmqspark.protocol.spans import Spans, copy_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.record_batch import RecordBatch
    from rmqspark.protocol.spans import Bytes, Positions

_BLANK = ord(" ")  # separates the tokens of KEYS
_NOT_ASCII = 0x80


class KeyBatch(NamedTuple):
    """Keys to be entered, one row each, physical offsets ascending. `hashes` are absolute values."""

    hashes: NDArray[np.int32]
    physical_offsets: NDArray[np.int64]
    store_timestamps_ms: NDArray[np.int64]

    def rows(self, start: int, stop: int | None = None) -> KeyBatch:
        chosen = slice(start, stop)
        return KeyBatch(self.hashes[chosen], self.physical_offsets[chosen], self.store_timestamps_ms[chosen])


class IndexKey(NamedTuple):
    """One key of one message. `key` is `topic#key` in UTF-8."""

    key: bytes
    physical_offset: int
    store_timestamp_ms: int


def key_hash(topic: str, key: str) -> int:
    """What an index file stores for a key: |hashCode|, 0 for the one number that has no absolute value."""
    signed = java_hash(f"{topic}#{key}")
    return 0 if signed == -(2**31) else abs(signed)


def keys_of(entries: Sequence[tuple[bytes, int, int]]) -> KeyBatch:
    """Hashes single keys, given as IndexKey."""
    keys, physical_offsets, timestamps_ms = zip(*entries, strict=True)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    joined = np.frombuffer(b"".join(keys), np.uint8)
    hashes = java_hash_spans(joined, np.cumsum(lengths) - lengths, lengths)
    return KeyBatch(_absolute(hashes), np.array(physical_offsets, np.int64), np.array(timestamps_ms, np.int64))


def keys_of_records(topic: str | None, records: RecordBatch, physical_offsets: Positions) -> KeyBatch:
    """Hashes all keys of checked records. Those of rolled back messages have none.

    `topic` is the one topic of all of them; None says that they have several.
    """
    topic_hashes = _topic_hashes(topic, records)
    unique = records.property_spans(b"UNIQ_KEY")
    rows, tokens = _tokens(records.buffer, records.property_spans(b"KEYS"))
    kind = records.sys_flags & SysFlag.TRANSACTION_MASK
    rolled_back = kind == SysFlag.ROLLED_BACK
    has_unique = unique.lengths > 0
    timestamps_ms = records.store_timestamps_ms
    if len(rows) or not has_unique.all() or rolled_back.any():
        owners, unique = _in_order(np.flatnonzero(has_unique), unique, rows, tokens, rolled_back)
        topic_hashes, physical_offsets = topic_hashes[owners], physical_offsets[owners]
        timestamps_ms = timestamps_ms[owners]
    return KeyBatch(_absolute(_joined_hashes(records.buffer, topic_hashes, unique)), physical_offsets, timestamps_ms)


def _absolute(hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    """|hash|, the lowest number becoming 0."""
    absolute = np.abs(hashes)
    absolute[absolute < 0] = 0
    return absolute


def _topic_hashes(topic: str | None, records: RecordBatch) -> NDArray[np.uint32]:
    """The hash of `topic#` for every record."""
    if topic is not None:
        return np.full(len(records), java_hash(f"{topic}#") & 0xFFFFFFFF, np.uint32)
    return java_hash_spans(records.buffer, *records.topics).view(np.uint32) * np.uint32(31) + np.uint32(ord("#"))


def _joined_hashes(buffer: Bytes, left: NDArray[np.uint32], right: Spans) -> NDArray[np.int32]:
    """The hash of each left string with its right one behind it."""
    units = right.lengths
    others = _rows_with(buffer, right, lambda text: text >= _NOT_ASCII)
    if len(others):
        units = units.copy()
        units[others] = [_utf16_length(buffer, start, end) for start, end in _ends(right, others)]
    powers = np.full(int(units.max(initial=0)) + 1, 31, np.uint32)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    return (left * powers[units]).view(np.int32) + java_hash_spans(buffer, *right)


def _in_order(
    unique_rows: Positions, unique: Spans, token_rows: Positions, tokens: Spans, excluded: NDArray[np.bool_]
) -> tuple[Positions, Spans]:
    """UNIQ_KEY first, then the tokens of KEYS, record by record: which record each key belongs to, and the keys."""
    rows = np.concatenate((unique_rows, token_rows))
    order = np.argsort(rows, kind="stable")
    order = order[~excluded[rows[order]]]
    starts = np.concatenate((unique.starts[unique_rows], tokens.starts))
    lengths = np.concatenate((unique.lengths[unique_rows], tokens.lengths))
    return rows[order], Spans(starts[order], lengths[order])


def _tokens(buffer: Bytes, spans: Spans) -> tuple[Positions, Spans]:
    """The blank-separated tokens of each span, and the row each comes from; ascending."""
    rows = np.flatnonzero(spans.lengths > 0)
    starts, lengths = spans.starts[rows], spans.lengths[rows]
    several = _rows_with(buffer, Spans(starts, lengths), lambda text: text == _BLANK)
    if not len(several):
        return rows, Spans(starts, lengths)
    single = np.ones(len(rows), np.bool_)
    single[several] = False
    found = list(zip(rows[single].tolist(), starts[single].tolist(), lengths[single].tolist(), strict=True))
    for index, (start, end) in zip(several.tolist(), _ends(Spans(starts, lengths), several), strict=True):
        at = start
        for token in buffer[start:end].tobytes().split(b" "):
            if token:
                found.append((int(rows[index]), at, len(token)))
            at += len(token) + 1
    found.sort()
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, 0], Spans(table[:, 1], table[:, 2])


def _rows_with(buffer: Bytes, spans: Spans, wanted: Callable[[Bytes], NDArray[np.bool_]]) -> Positions:
    """Which spans, none of them empty, contain such a byte."""
    starts = np.cumsum(spans.lengths) - spans.lengths
    text = np.empty(int(spans.lengths.sum()), np.uint8)
    copy_spans(buffer, spans, text, starts)
    places = np.flatnonzero(wanted(text))
    return np.unique(np.searchsorted(starts, places, "right") - 1)


def _ends(spans: Spans, rows: Positions) -> list[tuple[int, int]]:
    return list(zip(spans.starts[rows].tolist(), spans.ends[rows].tolist(), strict=True))


def _utf16_length(buffer: Bytes, start: int, end: int) -> int:
    return len(buffer[start:end].tobytes().decode("utf-8", "replace").encode("utf-16-be")) // 2
