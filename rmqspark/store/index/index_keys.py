"""From messages to what the index enters for them: a hash per key, in the order of the log.

The key of a message in the index is `topic#key`, once for UNIQ_KEY and once for each token of KEYS (RocketMQ's
IndexService.buildKey and DefaultMessageStore's dispatcher). Of many records nothing is joined: Java's hash of a
concatenation is hash(left) * 31^length(right) + hash(right), so topics and keys are hashed where they lie.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, copy_spans, gather_rows, spacing, words_at
from rmqspark.protocol.java_hash import hash_and_measure, hash_ascii_rows, java_hash, java_hash_spans
from rmqspark.protocol.records.record import SysFlag
from rmqspark.protocol.records.unique_keys import unique_key_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Pieces
    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.bulk.row_properties import RowProperties
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.protocol.records.unique_keys import IdRange

_BLANK = ord(" ")  # separates the tokens of KEYS
_LOW_32 = 0xFFFFFFFF
_SMALL_TABLE_BYTES = 1 << 17
_SMALL_TABLE_WIDTH = 64
_TABLE_WIDTH = 256
_FIRST_NOT_ASCII = 0x80


class KeyBatch(NamedTuple):
    """Keys to be entered, one row each, physical offsets ascending. `hashes` are absolute values."""

    hashes: NDArray[np.int32]
    physical_offsets: NDArray[np.int64]
    store_timestamps_ms: NDArray[np.int64]

    def rows(self, start: int, stop: int | None = None) -> KeyBatch:
        chosen = slice(start, stop)
        return KeyBatch(self.hashes[chosen], self.physical_offsets[chosen], self.store_timestamps_ms[chosen])


def key_hash(topic: str, key: str) -> int:
    """What an index file stores for a key: |hashCode|, 0 for the one number that has no absolute value."""
    signed = java_hash(f"{topic}#{key}")
    return 0 if signed == -(2**31) else abs(signed)


class SingleKeys:
    """Keys of messages that came one by one. In columns: the garbage collector looks after each tuple, and there are
    thousands before they are hashed together."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._physical_offsets: list[int] = []
        self._timestamps_ms: list[int] = []

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Sequence[bytes], physical_offsets: Sequence[int], store_timestamp_ms: int) -> None:
        """Takes keys, each `topic#key` in UTF-8, of messages stored at the same time."""
        self._keys += keys
        self._physical_offsets += physical_offsets
        self._timestamps_ms += [store_timestamp_ms] * len(keys)

    def hashed(self) -> KeyBatch:
        """All of them, to be entered."""
        return keys_of(self._keys, self._physical_offsets, self._timestamps_ms)


def keys_of(keys: Sequence[bytes], physical_offsets: Sequence[int], timestamps_ms: Sequence[int]) -> KeyBatch:
    """Hashes single keys, each `topic#key` in UTF-8."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    text = b"".join(keys)
    joined = np.frombuffer(text, np.uint8)
    width = len(keys[0]) if keys else 0
    if 0 < width <= _TABLE_WIDTH and (lengths == width).all() and text.isascii():  # as ids of one topic are
        hashes = hash_ascii_rows(joined.reshape(-1, width))
    else:
        hashes = java_hash_spans(joined, np.cumsum(lengths) - lengths, lengths)
    return KeyBatch(_absolute(hashes), np.array(physical_offsets, np.int64), np.array(timestamps_ms, np.int64))


def keys_of_records(topic: str | None, records: RecordBatch, physical_offsets: Positions) -> KeyBatch:
    """Hashes all keys of checked records. Those of rolled back messages have none.

    `topic` is the one topic of all of them; None says that they have several.
    """
    buffer, topic_hashes = records.buffer, _topic_hashes(topic, records)
    is_indexed = (records.sys_flags & SysFlag.TRANSACTION_MASK) != SysFlag.ROLLED_BACK
    rows, unique = _present(records.property_spans(b"UNIQ_KEY"), is_indexed)
    hashes = _hashed(buffer, topic_hashes, rows, unique)
    keyed, keys = _present(records.property_spans(b"KEYS"), is_indexed)
    if len(keyed):
        owners, tokens = _tokens(buffer, keyed, keys)
        rows, hashes = _in_order(rows, hashes, owners, _hashed(buffer, topic_hashes, owners, tokens))
    return KeyBatch(_absolute(hashes), physical_offsets[rows], records.store_timestamps_ms[rows])


def keys_of_rows(
    topic: str,
    bulks: Sequence[BulkRows],
    properties: RowProperties | None,
    physical_offsets: Positions,
    store_timestamp_ms: int,
) -> KeyBatch:
    """Hashes the unique ids of rows, and the tokens of their keys; `properties` are those of all of them."""
    ids, counts = [bulk.ids for bulk in bulks], [len(bulk.crcs) for bulk in bulks]
    hashes = unique_key_hashes([f"{topic}#"] * len(bulks), ids, counts)
    if properties is not None and properties.keys.rows.lengths.any():
        owners, tokens = _tokens_of_pieces(properties.keys)
        topic_hashes = np.array([java_hash(f"{topic}#") & _LOW_32], np.uint32)
        rows, hashes = _in_order(
            np.arange(len(hashes)), hashes, owners, _hashed(properties.keys.values, topic_hashes, owners, tokens)
        )
        physical_offsets = physical_offsets[rows]
    return KeyBatch(_absolute(hashes), physical_offsets, np.full(len(hashes), store_timestamp_ms))


def keys_of_topic_rows(
    runs: Sequence[TopicRun], ids: IdRange, physical_offsets: Positions, store_timestamp_ms: int
) -> KeyBatch:
    """Hashes the ids of rows for many queues, which count on through all of them and are the only keys there are."""
    counts = [run.rows for run in runs]
    ranges = [ids.skip(end - count) for end, count in zip(accumulate(counts), counts, strict=True)]
    hashes = unique_key_hashes([f"{run.topic}#" for run in runs], ranges, counts)
    return KeyBatch(_absolute(hashes), physical_offsets, np.full(len(hashes), store_timestamp_ms))


def keys_of_tables(
    topic_hashes: NDArray[np.uint32],
    tables: Sequence[NDArray[np.uint8]],
    physical_offsets: Positions,
    store_timestamp_ms: int,
) -> KeyBatch:
    """Hashes keys of messages, of each one of each of these tables, behind the hash of its `topic#`. Keys are of ASCII,
    those of a table as long as each other."""
    hashes = np.empty((len(physical_offsets), len(tables)), np.int32)
    for column, table in enumerate(tables):
        left = topic_hashes * np.uint32(pow(31, table.shape[1], 1 << 32))
        hashes[:, column] = (hash_ascii_rows(table).view(np.uint32) + left).view(np.int32)
    offsets = np.repeat(physical_offsets, len(tables))
    return KeyBatch(_absolute(hashes.reshape(-1)), offsets, np.full(len(offsets), store_timestamp_ms))


def has_more_keys(records: RecordBatch, limit: int) -> bool:
    """Whether the KEYS of checked records could make more entries than that."""
    return _has_more_tokens(records.buffer, records.property_spans(b"KEYS"), limit)


def rows_have_more_keys(rows: BulkRows, limit: int) -> bool:
    """The same of rows."""
    properties = rows.properties
    return properties is not None and _has_more_tokens(properties.keys.values, properties.keys.rows, limit)


def _has_more_tokens(buffer: Bytes, spans: Spans, limit: int) -> bool:
    """Counts blanks only where it must."""
    if int((np.maximum(spans.lengths, 0) + 1 >> 1).sum()) <= limit:  # of one character each, blanks between
        return False
    text, _ = _one_after_another(buffer, spans.take(spans.lengths > 0))
    return int(np.count_nonzero(text == _BLANK)) > limit


def _absolute(hashes: NDArray[np.int32]) -> NDArray[np.int32]:
    """|hash|, the lowest number, which has no absolute value, becoming 0."""
    return np.abs(hashes) & np.int32(2**31 - 1)


def _in_order(
    rows: Positions, hashes: NDArray[np.int32], others: Positions, other_hashes: NDArray[np.int32]
) -> tuple[Positions, NDArray[np.int32]]:
    """Both together, record by record, the first ones first."""
    if len(rows) == len(others) and (rows == others).all():
        return np.repeat(rows, 2), np.stack((hashes, other_hashes), axis=1).reshape(-1)
    rows = np.concatenate((rows, others))
    order = np.argsort(rows, kind="stable")
    return rows[order], np.concatenate((hashes, other_hashes))[order]


def _topic_hashes(topic: str | None, records: RecordBatch) -> NDArray[np.uint32]:
    """The hash of `topic#`: one for all records, or one for each."""
    if topic is not None:
        return np.array([java_hash(f"{topic}#") & _LOW_32], np.uint32)
    return java_hash_spans(records.buffer, *records.topics).view(np.uint32) * np.uint32(31) + np.uint32(ord("#"))


def _present(spans: Spans, is_indexed: NDArray[np.bool_] | np.bool_) -> tuple[Positions, Spans]:
    """The rows that have a value, and their values."""
    chosen = (spans.lengths > 0) & is_indexed
    if chosen.all():
        return np.arange(len(chosen)), spans
    rows = np.flatnonzero(chosen)
    return rows, spans.take(rows)


def _tokens(buffer: Bytes, rows: Positions, spans: Spans) -> tuple[Positions, Spans]:
    """The blank-separated tokens of each span, none of which is empty, with the row each comes from, in order."""
    text, places = _one_after_another(buffer, spans)
    blanks = np.flatnonzero(text == _BLANK)
    if len(blanks) == len(rows):
        return rows, spans
    starts = np.concatenate((np.zeros(1, np.int64), blanks[:-1] + 1))
    is_token = starts < blanks
    starts, ends = starts[is_token], blanks[is_token]
    owners = np.searchsorted(places, starts, "right") - 1
    return rows[owners], Spans(spans.starts[owners] + (starts - places[owners]), ends - starts)


def _tokens_of_pieces(pieces: Pieces) -> tuple[Positions, Spans]:
    """The same of values that follow each other, one of which is there at least; most have no blank."""
    rows, spans = _present(pieces.rows, np.True_)
    values = pieces.values[int(spans.starts[0]) : int(spans.starts[-1] + spans.lengths[-1])]
    return _tokens(pieces.values, rows, spans) if (values == _BLANK).any() else (rows, spans)


def _one_after_another(buffer: Bytes, spans: Spans) -> tuple[Bytes, Positions]:
    """The spans in one text, a blank behind each, and where each begins there."""
    places = np.cumsum(spans.lengths + 1) - (spans.lengths + 1)
    text = np.full(int(spans.lengths.sum()) + len(spans.lengths), _BLANK, np.uint8)
    copy_spans(buffer, spans, text, places)
    return text, places


def _hashed(buffer: Bytes, topic_hashes: NDArray[np.uint32], rows: Positions, keys: Spans) -> NDArray[np.int32]:
    """The hash of each key behind that of its row's topic."""
    left = topic_hashes if len(topic_hashes) == 1 else topic_hashes[rows]
    if (table := _small_table(buffer, keys)) is not None:
        return (left * np.uint32(pow(31, table.shape[1], 1 << 32))).view(np.int32) + hash_ascii_rows(table)
    left, keys = _move_shared_prefix(buffer, left, keys)
    hashes, units = hash_and_measure(buffer, *keys)
    longest = int(units.max(initial=0))
    if len(units) and int(units.min()) == longest:
        return (left * np.uint32(pow(31, longest, 1 << 32))).view(np.int32) + hashes
    powers = np.full(longest + 1, 31, np.uint32)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    return (left * powers[units]).view(np.int32) + hashes


def _small_table(buffer: Bytes, keys: Spans) -> Bytes | None:
    """A few thousand short ASCII keys of one length, as ids are, as rows of a table; None where they are anything
    else."""
    starts, lengths = keys
    width = int(lengths[0]) if len(lengths) else 0
    is_small = 0 < width <= _SMALL_TABLE_WIDTH and width * len(lengths) <= _SMALL_TABLE_BYTES
    if not is_small or (lengths != width).any():
        return None
    step = spacing(starts)
    table = (
        np.ndarray((len(starts), width), np.uint8, buffer, int(starts[0]), (step, 1))
        if step
        else gather_rows(buffer, starts, width)
    )
    return table if int(table.max()) < _FIRST_NOT_ASCII else None


def _move_shared_prefix(buffer: Bytes, left: NDArray[np.uint32], right: Spans) -> tuple[NDArray[np.uint32], Spans]:
    """Moves what all right strings begin with, in steps of eight bytes, to the left ones: it is hashed only once.
    Unique ids of one producer differ in their last digits only."""
    prefix = _shared_prefix(buffer, right)
    if not prefix or not prefix.isascii():
        return left, right
    prefix_hash, power = java_hash(prefix.decode()) & _LOW_32, pow(31, len(prefix), 1 << 32)
    return left * np.uint32(power) + np.uint32(prefix_hash), Spans(
        right.starts + len(prefix), right.lengths - len(prefix)
    )


def _shared_prefix(buffer: Bytes, spans: Spans) -> bytes:
    """What all strings begin with, as far as its length is a multiple of eight. The first and the last tell what it may
    be; the others are asked."""
    starts, lengths = spans
    if not len(starts):
        return b""
    first, last = (buffer[at : at + lengths.min()].tobytes() for at in (int(starts[0]), int(starts[-1])))
    shared = next((at for at in range(0, len(first), 8) if first[at : at + 8] != last[at : at + 8]), len(first)) & -8
    words = words_at(buffer, starts, shared // 8)
    while shared and (words[:, : shared // 8] != words[0, : shared // 8]).any():
        shared -= 8
    return first[:shared]
