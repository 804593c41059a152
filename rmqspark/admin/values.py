"""How values travel in JSON: offsets as text, for JavaScript loses what is beyond 2^53; times as RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_OF_10_000_MS = 253_402_300_800_000  # the year that datetime does not have


def time_of(timestamp_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`; what no calendar has stays a number."""
    if not 0 <= timestamp_ms < _FIRST_OF_10_000_MS:
        return str(timestamp_ms)
    text = (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


Offset = Annotated[
    int, PlainSerializer(str, return_type=str), WithJsonSchema({"type": "string", "pattern": r"^-?\d+$"})
]
Time = Annotated[
    int, PlainSerializer(time_of, return_type=str), WithJsonSchema({"type": "string", "format": "date-time"})
]


class Document(BaseModel):
    """What REST answers with and the console shows: frozen, its names in camelCase on the wire. None is unknown."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", serialize_by_alias=True
    )
