"""How a broker is told of its metrics: which exporter, and what all series are labelled with. Pure.

RocketMQ: MetricsExporterType, BrokerMetricsManager.init. It passes over labels that it cannot read; here they are an
error, before anything starts.
"""

from __future__ import annotations

import re
from typing import Final

from rmqspark.errors import InvalidArgument, NotThereYet

_TYPES: Final = ("DISABLE", "OTLP_GRPC", "PROM", "LOG")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def exports(exporter_type: str) -> bool:
    """Whether metrics_exporter_type asks for Prometheus' exporter. Raises InvalidArgument for what is no type,
    NotThereYet for one of RocketMQ's that this broker lacks."""
    name = exporter_type.strip().upper()
    name = _TYPES[int(name)] if name in ("0", "1", "2", "3") else name
    if name in ("DISABLE", "PROM"):
        return name == "PROM"
    hint = "Use PROM, which Prometheus scrapes, or DISABLE."
    if name in _TYPES:
        raise NotThereYet(f"metrics_exporter_type {name} is not supported.", hint=hint)
    raise InvalidArgument(f"metrics_exporter_type is {exporter_type!r}, but must be DISABLE or PROM.", hint=hint)


def labels_of(text: str) -> dict[str, str]:
    """What metrics_label says: k:v,k:v. Raises InvalidArgument for a pair that is none, or a name that no label has."""
    labels = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = pair.partition(":")
        if not colon or ":" in value or not _LABEL.fullmatch(name) or name.startswith("__"):
            raise InvalidArgument(
                f"metrics_label has {pair!r}, which is no label.", hint="Write it as name:value,name:value."
            )
        labels[name] = value
    return labels
