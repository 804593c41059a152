"""Headers as they travel, string to string, and back.

RocketMQ's rules (spec: remoting, section 2.2): integers are decimal, booleans are "true" in any case or else false,
and what is absent or cannot be read has the default of its field. Where that default is null and the request cannot
do without, RocketMQ dies of a null dereference; we name the field.
"""

from __future__ import annotations

import re
import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from rmqspark.errors import HeaderError
from rmqspark.protocol.learned import learned

if TYPE_CHECKING:
    from collections.abc import Mapping

H = TypeVar("H", bound=msgspec.Struct)

_BOOL_TEXT = {True: "true", False: "false"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class _Field(NamedTuple):
    name: str
    kind: type
    required: bool
    lowest: int
    highest: int


def to_fields(header: msgspec.Struct | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """`extra`, then the header's fields as strings in declaration order; those that are None are left out."""
    fields = {**extra} if extra else {}
    if header is None:
        return fields
    for name in header.__struct_fields__:
        value = getattr(header, name)
        if value is None:
            continue
        kind = type(value)
        fields[name] = value if kind is str else _BOOL_TEXT[value] if kind is bool else str(value)
    return fields


def from_fields(fields: Mapping[str, str], header_type: type[H]) -> H:
    """Builds a header from strings by RocketMQ's rules. Raises HeaderError naming a field that is needed."""
    try:
        return msgspec.convert(fields, learned(header_type), strict=False)
    except msgspec.ValidationError:
        return _from_odd_fields(fields, header_type)


def _from_odd_fields(fields: Mapping[str, str], header_type: type[H]) -> H:
    values: dict[str, Any] = {}
    for field in _fields_of(header_type):
        text = fields.get(field.name)
        value = None if text is None else _parse(field, text)
        if value is not None:
            values[field.name] = value
        elif field.required:
            raise HeaderError(_complaint(header_type.__name__, field, text))
    return header_type(**values)


def _parse(field: _Field, text: str) -> str | int | bool | None:
    """None for what cannot be read, which RocketMQ treats as absent."""
    if field.kind is str:
        return text
    if field.kind is bool:
        return text.lower() == "true"
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if field.lowest <= number <= field.highest else None


def _complaint(header: str, field: _Field, text: str | None) -> str:
    if text is None:
        return f"{header} lacks the field {field.name!r}."
    return f"{header} has {text[:40]!r} for {field.name!r}, which is no integer from {field.lowest} to {field.highest}."


@cache
def _fields_of(header_type: type[msgspec.Struct]) -> tuple[_Field, ...]:
    return tuple(_describe(field) for field in msgspec.structs.fields(header_type))


def _describe(field: msgspec.structs.FieldInfo) -> _Field:
    """Unwraps `Annotated[int, Meta(...)] | None` to the scalar and its range."""
    annotation = field.type
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = (part for part in typing.get_args(annotation) if part is not types.NoneType)
    lowest, highest = -(2**63), 2**63 - 1
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, meta = typing.get_args(annotation)
        lowest, highest = meta.ge, meta.le
    return _Field(field.name, annotation, field.required, lowest, highest)
