"""The body of a batch send (request 320): several messages of one topic in one request.

The elements follow each other (spec: semantics, section 4.1; RocketMQ's MessageDecoder.encodeMessages):

    size 4 | magic 4 (0) | body crc 4 (0) | flag 4 | body 4 + n | properties 2 + n

Magic and checksum are written as zeros and not looked at; the broker makes an ordinary record of every element.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import BodyError, InvalidMessage
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.records.record import Buffer

MAX_ELEMENTS: Final = 65536

_HEAD: Final = Struct(">iIIii")
_PROPERTIES_LENGTH: Final = Struct(">h")
_FIXED_BYTES: Final = _HEAD.size + _PROPERTIES_LENGTH.size


class BatchElement(NamedTuple):
    """One message of a batch, properties encoded. A decoded body is a view of the request's."""

    body: Buffer
    properties: bytes = b""
    flag: int = 0


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """The request body. Raises InvalidMessage for properties that are too long."""
    parts: list[Buffer] = []
    for body, properties, flag in elements:
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise InvalidMessage(f"The properties take {len(properties)} bytes; {MAX_PROPERTIES_BYTES} are allowed.")
        size = _FIXED_BYTES + len(body) + len(properties)
        parts += (_HEAD.pack(size, 0, 0, flag, len(body)), body, _PROPERTIES_LENGTH.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(body: Buffer, *, max_elements: int = MAX_ELEMENTS) -> list[BatchElement]:
    """The elements, in order. Raises BodyError for sizes that contradict each other, or too many elements."""
    view = memoryview(body)
    elements: list[BatchElement] = []
    at = 0
    while at < len(view):
        if len(elements) == max_elements:
            raise BodyError(f"A batch of more than {max_elements} messages.", hint="Send it in several batches.")
        element, at = _decode_element(view, at)
        elements.append(element)
    return elements


def _decode_element(view: memoryview, at: int) -> tuple[BatchElement, int]:
    room = len(view) - at
    if room < _FIXED_BYTES:
        raise BodyError(f"Byte {at} of the batch: {room} bytes are too few for a message.")
    size, _, _, flag, body_length = _HEAD.unpack_from(view, at)
    if not (_FIXED_BYTES <= size <= room and 0 <= body_length <= size - _FIXED_BYTES):
        raise BodyError(
            f"Byte {at} of the batch: a message of {size} bytes with a body of {body_length} where {room} are left."
        )
    body_at = at + _HEAD.size
    body_end = body_at + body_length
    (properties_length,) = _PROPERTIES_LENGTH.unpack_from(view, body_end)
    if properties_length != size - _FIXED_BYTES - body_length:
        raise BodyError(f"Byte {at} of the batch: body and properties do not add up to the size, {size}.")
    end = at + size
    return BatchElement(view[body_at:body_end], bytes(view[body_end + 2 : end]), flag), end
