"""What the values of a send that may vary are made of, byte by byte, where sends are read in columns.

It is what `UsualSends.take_alike` holds them to, or less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from rmqspark.broker.sending.send_stencils import PLAIN
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes

HEADER_AT: Final = 8  # in a frame
LOOKED_UP: Final = ("topic", "queue_id")
"""What only whoever knows the topics can judge."""
_ANYTHING, DIGIT, _FIRST_DIGIT, _ID, _KEY, UNQUOTED = 0, 1, 2, 4, 8, 16
CLASSES: Final = np.zeros(256, np.uint8)
"""Of each byte, what it may be."""
for _class, _members in (
    (DIGIT, b"0123456789"),
    (_FIRST_DIGIT, b"123456789"),
    (_ID, bytes(byte for byte in range(256) if bytes([byte]).isalnum())),
    (_KEY, PLAIN.replace(b" ", b"")),
    (UNQUOTED, bytes(byte for byte in range(32, 127) if byte not in b'"\\')),
):
    CLASSES[list(_members)] |= _class
_POWERS: Final = 10 ** np.arange(18, -1, -1)


class SplitName(Protocol):
    """Takes topic and queue id out of a name, which has both as they stand in headers. To be told apart by value."""

    def __call__(self, name: bytes) -> tuple[bytes, bytes]: ...

    def __hash__(self) -> int: ...


class ByLength(NamedTuple):
    """The topic in so many bytes, the queue id behind it."""

    topic_bytes: int

    def __call__(self, name: bytes) -> tuple[bytes, bytes]:
        return name[: self.topic_bytes], name[self.topic_bytes :]


class Between(NamedTuple):
    """Topic, the same text in all names, queue id; or the other way round."""

    text: bytes
    is_topic_first: bool

    def __call__(self, name: bytes) -> tuple[bytes, bytes]:
        first, _, last = name.partition(self.text)
        return (first, last) if self.is_topic_first else (last, first)


def classes_of(name: str, width: int, *, is_json: bool) -> list[int]:
    """What the bytes of a value must be."""
    if name == "opaque" and not is_json:
        return [_ANYTHING] * width
    if name == "opaque":
        return [_FIRST_DIGIT] + [DIGIT] * (width - 1)
    return [{"born": DIGIT, Property.UNIQ_KEY: _ID, Property.KEYS: _KEY}[name]] * width


def are_of(classes: Bytes, values: NDArray[np.uint8]) -> bool:
    """Whether each column of values is of its class."""
    return bool(((CLASSES.take(values) & classes) == classes).all())


def numbers_of(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The number that each row writes in digits."""
    numbers: NDArray[np.int64] = np.einsum("ij,j->i", digits - np.uint8(ord("0")), _POWERS[-digits.shape[1] :])
    return numbers


def texts_of(columns: NDArray[np.uint8]) -> list[bytes]:
    """The text that each row is."""
    texts: list[bytes] = np.ascontiguousarray(columns).view(f"V{columns.shape[1]}").ravel().tolist()
    return texts
