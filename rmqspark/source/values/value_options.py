"""The options that say what bodies are, and what becomes of one that does not parse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqspark.errors import InvalidArgument
from rmqspark.options import Option, choice, names
from rmqspark.protocol.names import check_row_target
from rmqspark.source.values.schema import COLUMNS, nearest_column

if TYPE_CHECKING:
    from collections.abc import Mapping

PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"


def _metadata_columns(value: str) -> tuple[str, ...]:
    found = names(value)
    for name in found:
        if name not in COLUMNS:
            nearest = nearest_column(name)
            meant = f"did you mean {nearest!r}?" if nearest else f"there are {', '.join(COLUMNS)}."
            raise ValueError(f"the source has no column {name!r}; {meant}")
    return found


VALUE_OPTIONS = (
    Option(
        "valueFormat",
        "`binary`",
        "what bodies are: `binary`; `json`, parsed against `.schema(...)`; `string`, UTF-8 text",
        choice("binary", "json", "string"),
    ),
    Option(
        "mode",
        "`PERMISSIVE`",
        "json: a body that does not parse has null fields (`PERMISSIVE`), is left out (`DROPMALFORMED`), or ends the "
        "query (`FAILFAST`)",
        choice(PERMISSIVE, DROPMALFORMED, FAILFAST),
    ),
    Option(
        "badRecordsTopic",
        "–",
        "json: topic that gets each body that does not parse, with the reason and where it came from, at least once",
        lambda value: check_row_target(value),
    ),
    Option(
        "metadataColumns",
        "–",
        "json, string: names of the schema that are columns of the message, as in the table above: `queueOffset,tags`",
        _metadata_columns,
    ),
)


@dataclass(frozen=True)
class ValueOptions:
    """How bodies are read where they are not handed out as they are. `format` is "json" or "string"."""

    format: str
    mode: str = PERMISSIVE
    bad_records_topic: str | None = None
    metadata_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ValueOptions | None:
        """From options as read; None for bodies as they come. InvalidArgument where they contradict each other."""
        value_format = values.get("valueFormat", "binary")
        _check_meanings(values, value_format)
        if value_format == "binary":
            return None
        mode, topic = values.get("mode", PERMISSIVE), values.get("badRecordsTopic")
        if topic is not None and mode == FAILFAST:
            raise InvalidArgument("badRecordsTopic has no meaning with mode=FAILFAST, which ends at the first of them.")
        return cls(value_format, mode, topic, values.get("metadataColumns", ()))


def _check_meanings(values: Mapping[str, Any], value_format: str) -> None:
    wanted = {"metadataColumns": ("json", "string"), "mode": ("json",), "badRecordsTopic": ("json",)}
    for name, formats in wanted.items():
        if name in values and value_format not in formats:
            raise InvalidArgument(f"Option {name!r} has no meaning with valueFormat={value_format}.")
