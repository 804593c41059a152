"""What all JSON bodies have in common: members named as on the wire, defaults for what is absent, two dialects."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from rmqspark.errors import BodyError
from rmqspark.protocol import fastjson


class Body(msgspec.Struct):
    """Base of all JSON bodies. Members that are None are not written; members that are null are read as absent."""

    def encode(self, *, standard: bool = False) -> bytes:
        """The body in fastjson's dialect, or in the standard JSON that GET_ROUTEINFO has for newer clients."""
        return fastjson.dumps(self, standard=standard)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Reads either dialect; unknown members are ignored. Raises BodyError naming what is wrong."""
        if not len(data):
            raise BodyError(f"{cls.__name__}: the body is empty.")
        try:
            body: Self = _decoder(cls).decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return cls._decode_loosely(data)
        return body

    @classmethod
    def _decode_loosely(cls, data: bytes | bytearray | memoryview) -> Self:
        try:
            return msgspec.convert(fastjson.loads(data), cls, strict=False)
        except msgspec.ValidationError as error:
            raise BodyError(f"{cls.__name__}: {error}.") from error
        except BodyError as error:
            raise BodyError(f"{cls.__name__}: {error.message}") from error


@cache
def _decoder(body_type: type[Body]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type, strict=False)
