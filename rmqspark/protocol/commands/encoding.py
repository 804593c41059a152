"""Commands encoded into buffers to write, one after the other: a request or response, its header in either
serialization, its body as it is (spec: remoting, sections 1 and 2).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import UNSET

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.codes import VERSION, Language
from rmqspark.protocol.commands.binary_header import BinaryHeader, encode_binary_header
from rmqspark.protocol.commands.command import (
    JSON,
    MAX_HEADER_BYTES,
    MAX_RESPONSE_HEADER_BYTES,
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    ROCKETMQ,
)
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.protocol.headers.fields import to_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.protocol.commands.command import Buffer, LanguageName, Serialize
    from rmqspark.protocol.commands.file_region import Part
    from rmqspark.protocol.signature import Sign

P = TypeVar("P", "Buffer", "Part")  # requests lie in memory, answers may lie in files

_PREFIX: Final = struct.Struct(
    ">I"  # bytes that follow
    "I"  # serialization type << 24 | header length
)


class _Outgoing(msgspec.Struct, gc=False):
    """A JSON header: members in the order fastjson has them, absent ones UNSET."""

    code: int
    extFields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


_json_encoder = msgspec.json.Encoder()


def encode_request(
    code: int,
    opaque: int,
    header: msgspec.Struct | None = None,
    body: Buffer | Sequence[Buffer] = b"",
    *,
    oneway: bool = False,
    serialize: Serialize = "JSON",
    extra: Mapping[str, str] | None = None,
    language: LanguageName = "PYTHON",
    sign: Sign | None = None,
) -> list[Buffer]:
    """A request as buffers to write in order: the head, then the parts of the body, which are not copied.

    `extra` are fields beside those of the header; `sign` adds last who sends it. InvalidArgument where a field is no
    Unicode, as what is typed may be.
    """
    fields = to_fields(header, extra)
    if sign is not None:
        sign(fields, body)
    flag = ONEWAY_FLAG if oneway else 0
    try:
        if serialize == "ROCKETMQ":
            return _binary_frame(code, opaque, flag, language, None, fields, body)
        return _json_frame(code, opaque, flag, language, None, fields, body)
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{error.object!r:.80} is not valid Unicode.", hint="It goes out in UTF-8.") from None


def encode_response(
    opaque: int,
    code: int,
    header: msgspec.Struct | None = None,
    body: Buffer | Sequence[P] = b"",
    *,
    remark: str | None = None,
    extra: Mapping[str, str] | None = None,
    serialize: Serialize = "JSON",
) -> list[P]:
    """A response in parts to write in order. It says JAVA, at which no client changes its ways."""
    fields = to_fields(header, extra)
    if serialize == "ROCKETMQ":
        return _binary_frame(code, opaque, RESPONSE_FLAG, "JAVA", remark, fields, body)
    return _json_frame(code, opaque, RESPONSE_FLAG, "JAVA", remark, fields, body)


def _json_frame(
    code: int,
    opaque: int,
    flag: int,
    language: LanguageName,
    remark: str | None,
    fields: dict[str, str],
    body: Buffer | Sequence[P],
) -> list[P]:
    head = _json_encoder.encode(
        _Outgoing(code, fields or UNSET, flag, language, opaque, UNSET if remark is None else remark, "JSON", VERSION)
    )
    return _frame(JSON, flag, head, body)


def _binary_frame(
    code: int,
    opaque: int,
    flag: int,
    language: LanguageName,
    remark: str | None,
    fields: dict[str, str],
    body: Buffer | Sequence[P],
) -> list[P]:
    header = BinaryHeader(code, Language[language], VERSION, opaque, flag, remark, fields)
    return _frame(ROCKETMQ, flag, encode_binary_header(header), body)


def _frame(serialize_type: int, flag: int, head: bytes, body: Buffer | Sequence[P]) -> list[P]:
    max_bytes = MAX_RESPONSE_HEADER_BYTES if flag & RESPONSE_FLAG else MAX_HEADER_BYTES
    if len(head) > max_bytes:
        raise InvalidArgument(
            f"The header fields take {len(head)} bytes, over the limit of {max_bytes}.",
            hint="Shorten the properties of the message.",
        )
    if isinstance(body, bytes):
        parts: list[P] = [body] if body else []
        body_size = len(body)
    else:
        parts = [part for part in ((body,) if isinstance(body, (bytearray, memoryview)) else body) if len(part)]
        body_size = sum([part.nbytes if isinstance(part, memoryview) else len(part) for part in parts])
    if flag & RESPONSE_FLAG and _PREFIX.size + len(head) + body_size > MAX_FRAME_BYTES:
        raise InvalidArgument(
            f"The answer has {len(head) + body_size} bytes; clients take none above {MAX_FRAME_BYTES}.",
            hint="Ask for less at a time.",
        )
    prefix = _PREFIX.pack(4 + len(head) + body_size, serialize_type << 24 | len(head))
    parts.insert(0, prefix + head)
    return parts
