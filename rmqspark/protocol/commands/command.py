"""Commands: the header and body inside a frame, decoded for servers and clients. `encoding.py` writes them.

A frame holds a word (serialization type and header length), the header and the body (RocketMQ's RemotingCommand;
spec: remoting, sections 1 and 2). Decoding has two speeds. `decode_envelope` reads a JSON header straight into the
struct its request has, in one pass of msgspec. What that refuses (a binary header, control characters in a string,
numbers beside strings, no fields at all) goes through `decode_command`, which takes whatever RocketMQ's own parser
takes, within bounds.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast

import msgspec

from rmqspark.errors import BodyError, DecodeError, FrameError, HeaderError
from rmqspark.protocol import fastjson
from rmqspark.protocol.codes import TRUNCATED_CODES, Language
from rmqspark.protocol.commands.binary_header import FIXED, MAX_FIELDS, BinaryHeader, decode_binary_header
from rmqspark.protocol.commands.binary_shapes import BinaryShapes
from rmqspark.protocol.headers.fields import H, from_fields
from rmqspark.protocol.headers.types import Int32
from rmqspark.protocol.learned import learned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_HEADER_BYTES: Final = 64 * 1024
"""What a server takes in a request, and a client therefore sends."""
MAX_RESPONSE_HEADER_BYTES: Final = 0xFFFFFF
"""Answers may have all that a 24-bit length can say: the ids of a large batch need more than a request does."""
JSON: Final = 0
ROCKETMQ: Final = 1

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

Buffer: TypeAlias = bytes | bytearray | memoryview
Serialize: TypeAlias = Literal["JSON", "ROCKETMQ"]
LanguageName: TypeAlias = Literal[
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
]

_MAX_HEADER_VALUES: Final = 2 * MAX_FIELDS  # the tolerant parser is written in Python and takes its time
_HEADER_WORD: Final = struct.Struct(">I")


class RawCommand(msgspec.Struct, gc=False):
    """A frame taken apart, nothing decoded. Header and body are views of the frame: they live as long as it does."""

    serialize_type: int
    header: memoryview
    body: memoryview


class Command(msgspec.Struct):
    """A command with its fields as strings, for when the request is not known or not one of ours."""

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: LanguageName = "JAVA"
    remark: str | None = None
    fields: dict[str, str] = {}

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


class Envelope(msgspec.Struct, Generic[H], gc=False):
    """A command with its fields in the struct they belong to. Names are the wire's."""

    code: Int32
    extFields: H
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: LanguageName = "JAVA"
    remark: str | None = None

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


class _JsonHeader(msgspec.Struct):
    """A JSON header as RocketMQ's own serializer writes it."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: LanguageName = "JAVA"
    remark: str | None = None
    extFields: dict[str, str] = {}


_json_header_decoder = msgspec.json.Decoder(learned(_JsonHeader))

_LANGUAGES: Final = {int(language): cast("LanguageName", language.name) for language in Language}

STOCK_START: Final = struct.Struct("12s")
STOCK_STARTS: Final = {f'{{"code":{code},"'.encode()[: STOCK_START.size]: code for code in range(10, 1000)}
"""What the headers of stock clients start with, for codes of two and three digits: nearly all there are."""


def split_frame(frame: Buffer, *, max_header_bytes: int = MAX_HEADER_BYTES) -> RawCommand:
    """Takes a frame (without its length) apart. Raises FrameError or HeaderError; the connection is lost then."""
    view = frame if type(frame) is memoryview else memoryview(frame)
    size = len(view)
    word = _HEADER_WORD.unpack_from(view)[0] if size >= 4 else -1
    header_bytes, serialize_type = word & 0xFFFFFF, word >> 24
    if header_bytes > size - 4 or header_bytes > max_header_bytes or serialize_type > ROCKETMQ:
        raise _bad_frame(size, serialize_type, header_bytes, max_header_bytes)
    return RawCommand(serialize_type, view[4 : 4 + header_bytes], view[4 + header_bytes :])


def _bad_frame(size: int, serialize_type: int, header_bytes: int, max_header_bytes: int) -> DecodeError:
    if size < 4:
        return FrameError(f"A frame of {size} bytes has no room for its header length.")
    if header_bytes > size - 4:
        return FrameError(f"A frame of {size} bytes claims a header of {header_bytes}.")
    if header_bytes > max_header_bytes:
        return HeaderError(f"A header of {header_bytes} bytes is over the limit of {max_header_bytes}.")
    return HeaderError(f"There is no header serialization type {serialize_type}.")


def peek_code(raw: RawCommand) -> int:
    """The command's code, for choosing the header type to decode. Cheap for headers of stock clients.

    Whoever checks rights must go by this and not by the code of the decoded envelope: in a forged header they differ.
    """
    if raw.serialize_type == JSON and len(raw.header) >= STOCK_START.size:
        code = STOCK_STARTS.get(STOCK_START.unpack_from(raw.header)[0])
        if code is not None:
            return code
    elif raw.serialize_type == ROCKETMQ and len(raw.header) >= FIXED.size:
        code, _, _, _, flag = FIXED.unpack_from(raw.header)
        return int(code if flag & RESPONSE_FLAG else TRUNCATED_CODES.get(code, code))
    return decode_command(raw).code


def decode_command(raw: RawCommand) -> Command:
    """Decodes a header of either type with its fields as strings. Raises HeaderError."""
    if raw.serialize_type == ROCKETMQ:
        return _from_binary(decode_binary_header(raw.header))
    try:
        header = _json_header_decoder.decode(raw.header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _from_loose_json(raw.header)
    _check_count(header.extFields)
    return Command(
        header.code, header.opaque, header.flag, header.version, header.language, header.remark, header.extFields
    )


def decode_envelope(raw: RawCommand, header_type: type[H]) -> Envelope[H]:
    """Decodes a header into the struct its request has. Raises HeaderError naming a field that is missing or wrong."""
    return envelope_decoder(header_type)(raw)


@cache
def envelope_decoder(header_type: type[H]) -> Callable[[RawCommand], Envelope[H]]:
    """`decode_envelope` for one kind of request."""
    # strict=False lets "5" be the integer it is meant to be
    decode_json = msgspec.json.Decoder(learned(Envelope[header_type]), strict=False).decode  # type: ignore[valid-type]
    shapes = BinaryShapes()

    def decode_shaped(raw: RawCommand) -> Envelope[H] | None:
        plain = shapes.read(raw.header)
        if plain is None or plain.flag & RESPONSE_FLAG:
            return None
        code, language, version, opaque, flag, fields = plain
        header = from_fields(fields, header_type)
        return Envelope(
            TRUNCATED_CODES.get(code, code), header, opaque, flag, version, _LANGUAGES.get(language, "OTHER")
        )

    def decode(raw: RawCommand) -> Envelope[H]:
        if raw.serialize_type == JSON:
            try:
                return decode_json(raw.header)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass  # perhaps only unusual: the tolerant way decides
        elif (envelope := decode_shaped(raw)) is not None:
            return envelope
        command = decode_command(raw)
        if raw.serialize_type == ROCKETMQ:
            shapes.learn(raw.header)
        header = from_fields(command.fields, header_type)
        return Envelope(
            command.code, header, command.opaque, command.flag, command.version, command.language, command.remark
        )

    return decode


def _from_binary(header: BinaryHeader) -> Command:
    name = cast("LanguageName", header.language.name)
    return Command(header.code, header.opaque, header.flag, header.version, name, header.remark, header.fields)


def _from_loose_json(data: memoryview) -> Command:
    try:
        members = fastjson.loads(data, max_values=_MAX_HEADER_VALUES)
    except BodyError as error:
        raise HeaderError(f"A command header cannot be read: {error.message}") from error
    if not isinstance(members, dict):
        raise HeaderError("A command header is not a JSON object.")
    remark = members.get("remark")
    return Command(
        _integer(members, "code"),
        _integer(members, "opaque"),
        _integer(members, "flag"),
        _integer(members, "version"),
        cast("LanguageName", Language.named(str(members.get("language", "JAVA"))).name),
        None if remark is None else str(remark),
        _scalar_fields(members.get("extFields")),
    )


def _integer(members: Mapping[Any, Any], name: str) -> int:
    value = members.get(name, 0)
    try:
        return msgspec.convert(value, Int32, strict=False)
    except msgspec.ValidationError as error:
        raise HeaderError(f"The {name!r} of a command header is no 32-bit integer.") from error


def _scalar_fields(members: object) -> dict[str, str]:
    """RocketMQ reads any scalar as the string it is written as; what is no scalar is no field."""
    if not isinstance(members, dict):
        return {}
    _check_count(members)
    fields: dict[str, str] = {}
    for key, value in members.items():
        match value:
            case str():
                fields[str(key)] = value
            case bool():
                fields[str(key)] = "true" if value else "false"
            case int() | float():
                fields[str(key)] = str(value)
    return fields


def _check_count(fields: Mapping[Any, Any]) -> None:
    if len(fields) > MAX_FIELDS:
        raise HeaderError(f"A header has more than {MAX_FIELDS} fields.")
