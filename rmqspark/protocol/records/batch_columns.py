"""Reading the elements of batch bodies (`batch.py`), all of them at once.

Bodies of batches laid end to end are a body, too: what comes in from many producers in one moment is read in one go.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqspark.errors import BodyError
from rmqspark.protocol.buffers.spans import Spans, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions

_FLAG_AT: Final = 12
_BODY_LENGTH_AT: Final = 16
_BODY_AT: Final = 20
_FIXED_BYTES: Final = _BODY_AT + 2  # of an element: what is not body and not properties
_SIZE: Final = Struct(">i")


class BatchColumns(NamedTuple):
    """The elements: where each ends, its flag, and where its body and its properties lie."""

    ends: Positions
    flags: NDArray[Any]
    bodies: Spans
    properties: Spans


def batch_columns(body: Bytes) -> BatchColumns:
    """The elements of a body, in order. Raises BodyError where sizes contradict each other; `decode_batch` says how."""
    sizes = _sizes(body)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    body_lengths = gather(body, starts + _BODY_LENGTH_AT, np.int32).astype(np.int64)
    room = sizes - _FIXED_BYTES
    _require((body_lengths >= 0) & (body_lengths <= room))
    body_starts = starts + _BODY_AT
    body_ends = body_starts + body_lengths
    properties_lengths = room - body_lengths
    _require(gather(body, body_ends, np.int16) == properties_lengths)
    return BatchColumns(
        ends,
        gather(body, starts + _FLAG_AT, np.int32),
        Spans(body_starts, body_lengths),
        Spans(body_ends + 2, properties_lengths),
    )


def _sizes(body: Bytes) -> Positions:
    """The sizes of elements that fill the body: one look if all are equal, a walk if not."""
    total, raw = len(body), body.data
    first = _SIZE.unpack_from(raw)[0] if total >= _FIXED_BYTES else 0
    if first >= _FIXED_BYTES and total % first == 0:
        sizes = np.ndarray((total // first,), ">i4", body, 0, (first,)).astype(np.int64)
        if (sizes == first).all():
            return sizes
    walked, at = [], 0
    while at < total:
        size = _SIZE.unpack_from(raw, at)[0] if total - at >= _FIXED_BYTES else 0
        if not _FIXED_BYTES <= size <= total - at:
            raise BodyError(f"Byte {at} of the batch: a message of {size} bytes where {total - at} are left.")
        walked.append(size)
        at += size
    return np.array(walked, np.int64)


def _require(holds: NDArray[np.bool_]) -> None:
    if not holds.all():
        raise BodyError(f"Message {int(holds.argmin())} of the batch: its lengths do not add up to its size.")
