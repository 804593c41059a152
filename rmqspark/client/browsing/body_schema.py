"""The Spark schema that fits JSON bodies, as `spark.read.json` infers it, with names in the order in which they came.

A type is one of Spark's names, a `Struct`, an `Array`, or None for a value that was null wherever it was.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LONG_BITS = 63
_DECIMAL_DIGITS = 38
_MOST_LEVELS = 64  # of objects and lists within each other; what is within those is a string


@dataclass(frozen=True)
class Struct:
    """Fields by name."""

    fields: dict[str, Kind]


@dataclass(frozen=True)
class Array:
    """Items of one type."""

    item: Kind


Kind = str | Struct | Array | None


@dataclass
class Sample:
    """What was seen: bodies, those among them that are no JSON object, the fields and how many bodies have each."""

    bodies: int = 0
    not_objects: int = 0
    fields: Struct = field(default_factory=lambda: Struct({}))
    present: dict[str, int] = field(default_factory=dict)

    def add(self, body: bytes) -> None:
        """Looks at one body more."""
        self.bodies += 1
        try:
            document = json.loads(body.decode("utf-8", "replace"))  # as Spark's source reads it
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            self.not_objects += 1
            return
        self.fields = _merged_structs(self.fields, _struct(document))
        for name in {_encodable(name): None for name in document}:
            self.present[name] = self.present.get(name, 0) + 1


def kind_of(value: Any, level: int = 1) -> Kind:
    """The type of a value that was parsed from JSON, and is that deep in its body."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return _kind_of_whole(value)
        case float():
            return "double"
        case dict() | list() if level > _MOST_LEVELS:
            return "string"
        case dict():
            return _struct(value, level + 1)
        case list():
            return Array(_all_merged(kind_of(item, level + 1) for item in value))
        case _:
            return "string"


def _struct(document: dict[str, Any], level: int = 1) -> Struct:
    return Struct({_encodable(name): kind_of(item, level) for name, item in document.items()})


def _encodable(name: str) -> str:
    """Half of a surrogate pair, which JSON can escape and UTF-8 cannot hold, becomes a question mark."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def merged(one: Kind, other: Kind) -> Kind:
    """The narrowest type that holds the values of both; as a last resort string, which holds any JSON."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    if isinstance(one, Struct) and isinstance(other, Struct):
        return _merged_structs(one, other)
    if isinstance(one, Array) and isinstance(other, Array):
        return Array(merged(one.item, other.item))
    return _merged_numbers(one, other) if _is_number(one) and _is_number(other) else "string"


def one_case(fields: Struct) -> tuple[Struct, list[str]]:
    """Of fields whose names differ in case alone the first, for Spark takes the others for the same column; and the
    names of those that are left out, those within others by their path."""
    kept: dict[str, Kind] = {}
    left_out, taken = [], set()
    for name, kind in fields.fields.items():
        if name.lower() in taken:
            left_out.append(name)
            continue
        taken.add(name.lower())
        kept[name], within = _one_case_within(kind)
        left_out += [f"{name}.{path}" for path in within]
    return Struct(kept), left_out


def _one_case_within(kind: Kind) -> tuple[Kind, list[str]]:
    match kind:
        case Struct():
            return one_case(kind)
        case Array(item):
            kept, left_out = _one_case_within(item)
            return Array(kept), left_out
        case _:
            return kind, []


def ddl(fields: Struct) -> str:
    """`id bigint, customer struct<name: string>`, as `.schema(...)` takes it."""
    return ", ".join(f"{quoted(name)} {type_name(kind)}" for name, kind in fields.fields.items())


def type_name(kind: Kind) -> str:
    """The type in Spark's words; what was always null or had no field is a string."""
    match kind:
        case Struct(fields) if fields:
            return f"struct<{', '.join(f'{quoted(name)}: {type_name(item)}' for name, item in fields.items())}>"
        case Array(item):
            return f"array<{type_name(item)}>"
        case str():
            return kind
        case _:
            return "string"


def quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _kind_of_whole(value: int) -> str:
    if value.bit_length() <= _LONG_BITS:
        return "bigint"
    digits = len(str(abs(value)))
    return f"decimal({digits},0)" if digits <= _DECIMAL_DIGITS else "double"


def _all_merged(kinds: Iterable[Kind]) -> Kind:
    return reduce(merged, kinds, None)


def _merged_structs(one: Struct, other: Struct) -> Struct:
    fields = dict(one.fields)
    for name, kind in other.fields.items():
        fields[name] = merged(fields.get(name), kind)
    return Struct(fields)


def _is_number(kind: Kind) -> bool:
    return isinstance(kind, str) and kind.startswith(("bigint", "double", "decimal"))


def _merged_numbers(one: Kind, other: Kind) -> str:
    """Decimals hold longs; with a double among them all are doubles."""
    names = {type_name(one), type_name(other)}
    if "double" in names:
        return "double"
    digits = max((int(name[8:-3]) for name in names if name.startswith("decimal")), default=0)
    return f"decimal({max(digits, 20)},0)"
