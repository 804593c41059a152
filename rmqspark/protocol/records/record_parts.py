"""Where the variable parts of the records in a buffer lie: found, and checked, in all of them at once.

Nothing inside a record is believed before this has seen it: each length is checked before the next part is looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import Spans, gather
from rmqspark.protocol.records import record as layout
from rmqspark.protocol.records.record import MAGIC_V1, MAGIC_V2, check_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.head_columns import HeadColumns


class Parts(NamedTuple):
    bodies: Spans
    topics: Spans
    properties: Spans

    @classmethod
    def alike(cls, heads: HeadColumns, body_bytes: int, topic_bytes: int, properties_bytes: int) -> Parts:
        """Of records of version 1 with IPv4 hosts whose parts are all as long as each other."""

        def spans(at: int, length: int) -> Spans:
            return Spans(heads.positions + at, np.full(len(heads), length, np.int64))

        topics_at = layout.HEAD_BYTES + body_bytes + 1
        return cls(
            spans(layout.HEAD_BYTES, body_bytes),
            spans(topics_at, topic_bytes),
            spans(topics_at + topic_bytes + 2, properties_bytes),
        )


def equal_parts(heads: HeadColumns) -> Parts | None:
    """The parts of records that are divided like the first of them; None if some are not, or it is an unusual one.

    Then the first one's lengths are everybody's: the bytes that say them are the same in all.
    """
    size = heads.size_of_all
    if not size or not isinstance(heads.hosts_shift, int):
        return None
    begin, raw = int(heads.positions[0]), heads.buffer.data
    if check_record(raw, begin, check_crc=False) != size or heads.table["magic"][0] != MAGIC_V1:
        return None
    body_length = int(heads.table["body_length"][0])
    body_end = layout.HEAD_BYTES + body_length
    topic_length = raw[begin + body_end]
    properties = body_end + 1 + topic_length + 2
    lengths_at = ((layout.SIZE_AT, 8), (layout.BODY_LENGTH_AT, layout.HEAD_BYTES), (body_end, properties))
    if not all(_repeats(heads, start, end) for start, end in lengths_at):
        return None
    return Parts.alike(heads, body_length, topic_length, size - properties)


def _repeats(heads: HeadColumns, start: int, end: int) -> bool:
    """Whether these bytes are the same in all records, which are equally long and follow each other."""
    width = min(8, 1 << (end - start).bit_length() - 1)
    for at in {*range(start, end - width, width), end - width}:
        first = int(heads.positions[0]) + at
        words = np.ndarray((len(heads),), f"u{width}", heads.buffer, first, (heads.size_of_all,))
        if (words != words[0]).any():
            return False
    return True


def divided(heads: HeadColumns) -> Parts:
    """The parts of each record. Raises RecordError for the first bad one, in the words of `check_record`."""

    def require(good: NDArray[np.bool_]) -> None:
        if not good.all():
            blame(heads, ~good, check_crc=False)

    shift, buffer = heads.hosts_shift, heads.buffer
    magics = heads.table["magic"]
    long_topics = magics != MAGIC_V1
    second_version = bool(long_topics.any())
    topic_width: Positions | int = long_topics.astype(np.int64) + 1 if second_version else 1
    if second_version:
        require((magics == MAGIC_V1) | (magics == MAGIC_V2))
    room = heads.sizes - (layout.HEAD_BYTES + 2) - shift - topic_width
    require((heads.table["size"] == heads.sizes) & (room >= 0))

    body_starts = heads.positions + (layout.HEAD_BYTES + shift)
    moved = heads.table["body_length"] if isinstance(shift, int) else heads.gathered("body_length", np.int32, shift)
    body_lengths = moved.astype(np.int64)
    require(_within(body_lengths, room))
    room -= body_lengths

    body_ends = body_starts + body_lengths
    topic_lengths = buffer[body_ends].view(np.int8).astype(np.int64)
    if second_version:
        topic_lengths = np.where(long_topics, gather(buffer, body_ends, np.int16), topic_lengths)
    require(_within(topic_lengths, room))
    room -= topic_lengths

    topic_starts = body_ends + topic_width
    topic_ends = topic_starts + topic_lengths
    require(gather(buffer, topic_ends, np.int16) == room)
    return Parts(Spans(body_starts, body_lengths), Spans(topic_starts, topic_lengths), Spans(topic_ends + 2, room))


def _within(lengths: Positions, room: Positions) -> NDArray[np.bool_]:
    """Whether 0 <= length <= room, where room is not negative: unsigned, a negative length is a huge one."""
    return lengths.view(np.uint64) <= room.view(np.uint64)


def blame(heads: HeadColumns, suspects: NDArray[np.bool_], *, check_crc: bool) -> NoReturn:
    """Raises the error of the first bad record, which is a suspect or lies before the first of them."""
    raw = heads.buffer.data
    last = int(suspects.argmax())
    for at, size in zip(heads.positions[: last + 1].tolist(), heads.sizes.tolist(), strict=False):
        found = check_record(raw[: at + size], at, check_crc=check_crc)
        if found != size:
            break
    raise RecordError(f"At byte {at}: a record of {found} bytes where one of {size} was announced.")
