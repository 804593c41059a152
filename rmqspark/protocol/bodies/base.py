"""What all JSON bodies have in common: members named as on the wire, defaults for what is absent, two dialects."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Self

import msgspec

from rmqspark.errors import BodyError
from rmqspark.protocol import fastjson
from rmqspark.protocol.learned import learned

MAX_REQUEST_VALUES: Final = 320_000
"""Members and elements in the body of a request: a registration of 30,000 topics has 300,000."""
MAX_REQUEST_CONTAINERS: Final = 80_000
"""Objects and arrays among them. `{}` is two bytes on the wire and some hundred in memory."""
MAX_LOOSE_REQUEST_BYTES: Final = 1 << 20
MAX_LOOSE_REQUEST_VALUES: Final = 100_000
"""What the tolerant parser is given of a request: it is written in Python and takes its time."""

_BOUNDED_FROM_BYTES: Final = 64 * 1024


class Body(msgspec.Struct):
    """Base of all JSON bodies. Members that are None are not written; members that are null are read as absent."""

    def encode(self, *, standard: bool = False) -> bytes:
        """The body in fastjson's dialect, or in the standard JSON that GET_ROUTEINFO has for newer clients."""
        return fastjson.dumps(self, standard=standard)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Reads either dialect; unknown members are ignored. Raises BodyError naming what is wrong."""
        return cls._decode(data, None)

    @classmethod
    def decode_request(cls, data: bytes | bytearray | memoryview) -> Self:
        """The same for what anybody may send: bounded in memory and time. Raises BodyError."""
        check_extent(data)
        if len(data) <= MAX_LOOSE_REQUEST_BYTES:
            return cls._decode(data, MAX_LOOSE_REQUEST_VALUES)
        try:
            body: Self = _decoder(cls).decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise BodyError(f"{cls.__name__}: {error}.") from None
        return body

    @classmethod
    def _decode(cls, data: bytes | bytearray | memoryview, max_loose_values: int | None) -> Self:
        if not len(data):
            raise BodyError(f"{cls.__name__}: the body is empty.")
        try:
            body: Self = _decoder(cls).decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return cls._decode_loosely(data, max_loose_values)
        return body

    @classmethod
    def _decode_loosely(cls, data: bytes | bytearray | memoryview, max_values: int | None) -> Self:
        try:
            return msgspec.convert(fastjson.loads(data, max_values=max_values), learned(cls), strict=False)
        except msgspec.ValidationError as error:
            raise BodyError(f"{cls.__name__}: {error}.") from error
        except BodyError as error:
            raise BodyError(f"{cls.__name__}: {error.message}") from error


def check_extent(data: bytes | bytearray | memoryview) -> None:
    """Raises BodyError for JSON that would become more values than a request may have. It counts what separates them,
    before anything is made of it, so separators inside strings count too."""
    if len(data) < _BOUNDED_FROM_BYTES:
        return
    raw = bytes(data)
    containers = raw.count(b"{") + raw.count(b"[")
    values = containers + raw.count(b",")
    if values > MAX_REQUEST_VALUES or containers > MAX_REQUEST_CONTAINERS:
        raise BodyError(
            f"A request body with {values} values, {containers} of them objects or arrays; "
            f"{MAX_REQUEST_VALUES} and {MAX_REQUEST_CONTAINERS} are allowed."
        )


@cache
def _decoder(body_type: type[Body]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(learned(body_type), strict=False)
