"""The properties of thousands of records as dicts, in a few passes over all of them.

Where every pair is whole (`name 0x01 value 0x02`, as every client and broker writes them), names and values are simply
the pieces between separators: one split for all records, and a dict takes as many pairs as its record has. Whether it
is so NumPy sees in one look; if not, each record goes through `decode_properties`, which knows what to skip.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.properties import NAME_END, PAIR_END, decode_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def property_maps(encoded: Sequence[bytes]) -> list[dict[str, str]]:
    """`decode_properties` of each."""
    area = b"".join(encoded)
    counts = _pair_counts(area, np.fromiter(map(len, encoded), np.int64, len(encoded)))
    if counts is None:
        return [decode_properties(text) for text in encoded]
    pieces = iter(area.decode("utf-8", "replace").replace("\x02", "\x01").split("\x01"))
    pairs = zip(pieces, pieces, strict=False)  # behind the last separator one empty piece is left
    return [dict(islice(pairs, count)) for count in counts.tolist()]


def _pair_counts(area: bytes, lengths: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """How many pairs each record has; None unless all pairs are whole and each record ends with one."""
    bytes_ = np.frombuffer(area, np.uint8)
    separators = np.flatnonzero(bytes_ - np.uint8(NAME_END) <= PAIR_END - NAME_END)
    kinds = bytes_[separators]
    ends = np.cumsum(lengths)
    whole = (
        (kinds[::2] == NAME_END).all()
        and (kinds[1::2] == PAIR_END).all()
        and (np.diff(separators, prepend=-1) > 1).all()  # no name and no value is empty
        and (bytes_[ends[lengths > 0] - 1] == PAIR_END).all()
    )
    return np.diff(np.searchsorted(separators[1::2], ends), prepend=0) if whole else None
