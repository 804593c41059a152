"""Values in the shape of a struct of the protocol: what its annotations ask for, with something wrong now and then.

Fields are filled by what they are called: one named after a topic gets the name of one that exists, so that requests
come past the first check and into the code behind it.
"""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from rmqspark.testing.fuzz import hostile

if TYPE_CHECKING:
    from random import Random

WRONG_KIND: Final = 0.02
LEFT_OUT: Final = 0.04
HOSTILE_NAME: Final = 0.15


class Names(NamedTuple):
    """Who is there for the requests to name. Nothing that others depend on belongs in here."""

    topics: tuple[str, ...] = ("fuzz-a", "fuzz-b", "%RETRY%fuzz-g", "TBW102")
    groups: tuple[str, ...] = ("fuzz-g", "fuzz-h", "TOOLS_CONSUMER")
    brokers: tuple[str, ...] = ("fuzz-broker", "fuzz-broker-2")
    ids: tuple[str, ...] = ("fuzz-id",)
    """Of transactions, their runs and attempts."""
    addresses: tuple[str, ...] = ("127.0.0.1:1", "10.0.0.1:10911", "[::1]:2")


class _Field(NamedTuple):
    name: str
    annotation: Any
    required: bool


def fields_of(rng: Random, header: type[msgspec.Struct], names: Names) -> dict[str, str]:
    """The fields of a header as strings."""
    fields: dict[str, str] = {}
    for field in _fields(header):
        if rng.random() < (LEFT_OUT if field.required else 0.3):
            continue
        value = _value(rng, field.annotation, field.name, names)
        fields[field.name] = value if isinstance(value, str) else str(value).lower()
    return fields


def members_of(rng: Random, kind: type[msgspec.Struct], names: Names) -> dict[str, Any]:
    """The members of a JSON body."""
    return {
        field.name: _value(rng, field.annotation, field.name, names)
        for field in _fields(kind)
        if rng.random() >= LEFT_OUT
    }


def _value(rng: Random, annotation: Any, name: str, names: Names) -> Any:
    if rng.random() < WRONG_KIND:
        return hostile.junk(rng)
    kind, inside = _kind(annotation)
    if kind is str:
        return _text(rng, name, names)
    if kind is int:
        return hostile.integer(rng)
    if kind is bool:
        return rng.random() < 0.5
    if kind is float:
        return rng.random() * 10 ** rng.randrange(9)
    if kind is list:
        return [_value(rng, inside[0], name, names) for _ in range(_count(rng))]
    if kind is dict:
        return {
            str(_value(rng, inside[0], name, names)): _value(rng, inside[1], name, names) for _ in range(_count(rng))
        }
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return members_of(rng, kind, names)
    return hostile.junk(rng)


def _count(rng: Random) -> int:
    return rng.choice((0, 1, 1, 2, 3, 12))


_POOLS: Final = (
    ("topic", "topics"),
    ("group", "groups"),
    ("brokername", "brokers"),
    ("addr", "addresses"),
    ("transactionalid", "ids"),
    ("run", "ids"),
    ("attempt", "ids"),
)
_LETTERS: Final = {"a": "groups", "b": "topics", "c": "topics"}  # of SendMessageRequestHeaderV2


def _text(rng: Random, name: str, names: Names) -> str:
    lowered = name.lower()
    pool = _LETTERS.get(name) or next((pool for part, pool in _POOLS if part in lowered), None)
    if pool is None or rng.random() < HOSTILE_NAME:
        return hostile.text(rng)
    return str(rng.choice(getattr(names, pool)))


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[_Field, ...]:
    return tuple(_Field(info.encode_name, info.type, info.required) for info in msgspec.structs.fields(kind))


def _kind(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The class behind `Annotated[...]`, `... | None` and `list[...]`, and the arguments of the last."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _kind(typing.get_args(annotation)[0])
    if origin in (types.UnionType, typing.Union):
        return _kind(next(part for part in typing.get_args(annotation) if part is not types.NoneType))
    return (annotation, ()) if origin is None else (origin, typing.get_args(annotation))
