"""Spans of a buffer (starts, lengths) into Arrow arrays, without a Python object per row.

The way is a `binary_view` array whose entries point into the buffer as it is, cast to `binary`: Arrow then copies each
value once, at the speed of memory. An entry is 16 bytes: length, four bytes of prefix, buffer number, offset. Values of
12 bytes and less must stand in the entry itself, so those are gathered first. The prefix is left empty: only
comparisons look at it, and nobody sees the view.

Nothing here asks what makes PyArrow import more of itself. `pyarrow.array` and `scalar` look whether they are given
something of pandas', and import it to find out: a quarter of a second in every cold task. `Array.cast` imports
`pyarrow.compute`, which writes a Python function for each of some 300 others: 30 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow._compute import CastOptions, call_function  # where pyarrow.compute has them from

from rmqspark.protocol.buffers.spans import sliding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Spans

_INLINE_BYTES = 12
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE_VIEW = np.dtype([("length", "<i4"), ("value", f"V{_INLINE_BYTES}")])


def binary_array(buffer: Bytes, spans: Spans) -> Any:
    """A `binary` array of the spans; absent ones are null. They must lie within `buffer`."""
    starts, lengths = spans
    entries = np.zeros(len(starts), _VIEW)
    entries["length"] = lengths
    entries["offset"] = starts
    _inline_short(entries, buffer, starts, lengths)
    absent = lengths < 0
    validity = None
    if absent.any():
        entries[absent] = 0
        validity = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    view = pa.Array.from_buffers(pa.binary_view(), len(starts), [validity, pa.py_buffer(entries), pa.py_buffer(buffer)])
    return call_function("cast", [view], CastOptions.safe(pa.binary()))


def string_array(buffer: Bytes, spans: Spans) -> Any:
    """The same as `string`; bytes that are no UTF-8 become U+FFFD."""
    values = binary_array(buffer, spans)
    if is_text(values):
        return as_strings(values)
    return pa.array([value and value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def is_text(values: Any) -> bool:
    """Whether all values of a `binary` array are UTF-8. Of nearly all one look at their bytes says so."""
    data = values.buffers()[2]
    if data is None or np.frombuffer(data, np.uint8).max(initial=0) < 0x80:
        return True
    try:
        as_strings(values).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def binaries(values: Sequence[bytes]) -> Any:
    """A `binary` array of these values, which have 2 GiB at most together."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def numbers(values: NDArray[Any]) -> Any:
    """The numbers of a one-dimensional array as Arrow has them; without a copy where they lie side by side."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def repeated(value: str | int, count: int) -> Any:
    """The same `string` or `int` (of 32 bits) so many times."""
    if isinstance(value, int):
        return numbers(np.full(count, value, np.int32))
    return fixed_width_strings(np.tile(np.frombuffer(value.encode(), np.uint8), (count, 1)))


def as_strings(values: Any) -> Any:
    """Reads a `binary` array as `string`, without a look at the bytes."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)


def _inline_short(entries: NDArray[Any], buffer: Bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    short = np.flatnonzero((lengths <= _INLINE_BYTES) & (lengths >= 0))
    if not len(short):
        return
    if len(buffer) < _INLINE_BYTES or int(starts[short].max()) > len(buffer) - _INLINE_BYTES:
        buffer = np.concatenate((buffer, np.zeros(_INLINE_BYTES, np.uint8)))
    entries.view(_INLINE_VIEW)["value"][short] = sliding(buffer, f"V{_INLINE_BYTES}")[starts[short]]


def fixed_width_strings(rows: Bytes) -> Any:
    """A `string` array of the rows of a two-dimensional array of bytes."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])
