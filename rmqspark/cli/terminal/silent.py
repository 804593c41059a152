"""Which brokers do not answer, told on standard error: what the others know is shown all the same, and the exit code is
that of a listing that went well."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqspark.cli.terminal.output import complain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.cluster.silence import Silence


@contextmanager
def telling() -> Iterator[Silence]:
    """Around all that a verb asks. What is an error all the same says who was silent by itself."""
    from rmqspark.client.cluster.silence import Silence, story

    silence = Silence()
    yield silence
    for broker_name, why in silence.reasons.items():
        complain(story(broker_name, why))
