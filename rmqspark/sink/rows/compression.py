"""Bodies compressed by the sender, where the user asks for it. Readers see by the sys flag what to undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPRESSED_FROM_BYTES = 4096  # RocketMQ's compressMsgBodyOverHowmuch: smaller bodies are not worth it

_KINDS = {"zlib": SysFlag.COMPRESSION_ZLIB, "lz4": SysFlag.COMPRESSION_LZ4, "zstd": SysFlag.COMPRESSION_ZSTD}


def compressed(bodies: Column, kind: str) -> tuple[Column, NDArray[np.int32]]:
    """The bodies with the large ones compressed, where that makes them smaller, and the sys flag of each row."""
    starts, lengths = bodies.spans()
    sys_flags = np.zeros(len(starts), np.int32)
    large = np.flatnonzero(lengths >= COMPRESSED_FROM_BYTES)
    if kind == "none" or not len(large):
        return bodies, sys_flags
    from rmqspark.protocol.records.compression import compress  # brings the compressors, which most queries need not

    raw = bodies.values.data
    values: list[bytes | memoryview] = [
        raw[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    for row in large.tolist():
        smaller = compress(values[row], _KINDS[kind])
        if len(smaller) < len(values[row]):  # else it could pass the limit that it keeps as it is
            values[row] = smaller
            sys_flags[row] = SysFlag.COMPRESSED | _KINDS[kind]
    if not sys_flags.any():
        return bodies, sys_flags
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return Column(np.frombuffer(b"".join(values), np.uint8), offsets), sys_flags
