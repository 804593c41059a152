"""How values travel in JSON: offsets as text, for JavaScript loses what is beyond 2^53; times as RFC 3339 in UTC."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from rmqspark.display import exact_time


def time_of(timestamp_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`; what no calendar has stays a number."""
    return exact_time(timestamp_ms).replace("+00:00", "Z")


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
