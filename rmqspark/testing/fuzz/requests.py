"""Requests of every kind that a server takes, half right and half wrong.

A request is made in the shape it should have, then broken at one of its levels: a value, the JSON, the record, the
header, the frame. Broken later it does not come as far, so each level gets its share.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.protocol.codes import Language
from rmqspark.protocol.commands.binary_header import BinaryHeader, encode_binary_header
from rmqspark.protocol.commands.command import JSON, MAX_HEADER_BYTES, ROCKETMQ
from rmqspark.protocol.headers.registry import REQUEST_HEADERS
from rmqspark.testing.fuzz import hostile
from rmqspark.testing.fuzz.bodies import body_of, encodable, written
from rmqspark.testing.fuzz.shapes import Names, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


class Frame(NamedTuple):
    """One frame; `readable` if framing and header are such that a server can go on to the next."""

    wire: bytes
    readable: bool


class Requests:
    """Frames, length field included, for a server that serves `codes`."""

    def __init__(
        self, rng: Random, codes: Sequence[int], *, seeds: Sequence[bytes] = (), names: Names | None = None
    ) -> None:
        self._rng = rng
        self._codes = codes
        self._seeds = seeds
        self._names = names or Names()
        self._opaque = 0

    def next(self) -> Frame:
        rng = self._rng
        draw = rng.random()
        if draw < 0.92:
            return self._request()
        if draw < 0.95 and self._seeds:
            return Frame(_framed(hostile.mutated(rng, rng.choice(self._seeds)[4:])), readable=False)
        if draw < 0.96:
            return Frame(hostile.noise(rng, 200), readable=False)
        wire = self._request().wire
        broken = _framed(hostile.mutated(rng, wire[4:])) if draw < 0.99 else hostile.mutated(rng, wire)
        return Frame(broken, readable=False)

    def _request(self) -> Frame:
        """One with nothing wrong but what is in its values."""
        rng = self._rng
        code = rng.choice(self._codes) if rng.random() < 0.97 else rng.randint(-(2**31), 2**31 - 1)
        header = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]
        fields = fields_of(rng, header, self._names) if header is not None else {}
        body = body_of(rng, code, fields, self._names)
        if rng.random() < 0.1:
            body = hostile.mutated(rng, body)
        if rng.random() < 0.05:
            fields[hostile.text(rng)] = hostile.text(rng)
        head, readable = self._head(code, fields)
        return Frame(_framed(head + body), readable)

    def _head(self, code: int, fields: dict[str, str]) -> tuple[bytes, bool]:
        """Header word and header; whether a server can read them."""
        rng = self._rng
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        flag = 0 if rng.random() < 0.9 else rng.choice((1, 2, 3, -1, 4))
        version = rng.choice((479, 479, 0, 37, 401, 475, 476))
        if rng.random() < 0.3:
            header, kind, readable = self._binary(code, flag, version, fields), ROCKETMQ, True
        else:
            readable = rng.random() < 0.97
            header, kind = self._json(code, flag, version, fields, usual=readable), JSON
        word = struct.pack(">I", kind << 24 | len(header) & 0xFFFFFF)
        return word + header, readable and len(header) <= MAX_HEADER_BYTES

    def _binary(self, code: int, flag: int, version: int, fields: dict[str, str]) -> bytes:
        clean = {encodable(key)[:32767]: encodable(value) for key, value in fields.items()}
        header = BinaryHeader(code, Language.JAVA, version, self._opaque, flag, None, clean)
        return encode_binary_header(header)

    def _json(self, code: int, flag: int, version: int, fields: dict[str, str], *, usual: bool) -> bytes:
        members: dict[str, Any] = {
            "code": code,
            "extFields": fields,
            "flag": flag,
            "language": "JAVA",
            "opaque": self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": version,
        }
        if usual:
            return json.dumps(members).encode()
        if self._rng.random() < 0.5:
            members[self._rng.choice(tuple(members))] = hostile.junk(self._rng)
        return written(self._rng, members)


def _framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame) & 0xFFFFFFFF) + frame
