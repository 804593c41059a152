"""Queue entries, the checkpoint and delay levels as RocketMQ has them (spec: storage, TV-5, TV-7; semantics, TV-5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqspark.store.checkpoint import Checkpoint
from rmqspark.store.config import StoreConfig, parse_delay_levels
from rmqspark.store.queues.consume_queue import ENTRY_DTYPE

pytestmark = pytest.mark.golden
_GOLDEN = Path(__file__).parents[1]


def vectors(kind: str) -> list[Any]:
    return [
        pytest.param(json.loads(file.read_text()), id=file.stem) for file in sorted((_GOLDEN / kind).glob("*.json"))
    ]


@pytest.mark.parametrize("vector", vectors("queue_entry"))
def test_queue_entries(vector: dict[str, Any]) -> None:
    """An entry of a consume queue says where a message is, how long, and its tags' hash; written and read alike."""
    wire, meaning = bytes.fromhex(vector["wire"]), vector["meaning"]
    assert np.array([tuple(meaning.values())], ENTRY_DTYPE).tobytes() == wire
    assert dict(zip(meaning, np.frombuffer(wire, ENTRY_DTYPE)[0].tolist(), strict=True)) == meaning


@pytest.mark.parametrize("vector", vectors("checkpoint"))
def test_checkpoints(vector: dict[str, Any]) -> None:
    """The part of the checkpoint that RocketMQ knows begins with the three store times."""
    times = vector["meaning"].values()
    assert Checkpoint(*times).encode()[:40].hex() == vector["wire"]


@pytest.mark.parametrize("vector", vectors("delay"))
def test_delays(vector: dict[str, Any]) -> None:
    """RocketMQ's levels, and the time of delivery that they give."""
    meaning = vector["meaning"]
    levels = parse_delay_levels(StoreConfig().message_delay_level)
    assert list(levels) == meaning["levels_ms"]
    deliver_ms = meaning["store_timestamp_ms"] + levels[meaning["delay_level"] - 1]
    assert deliver_ms == meaning["deliver_timestamp_ms"] == int(vector["wire"], 16)
