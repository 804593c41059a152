"""What Spark keeps in a checkpoint, as far as tests look at it or take it away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rmqspark.source.offsets import Offsets

if TYPE_CHECKING:
    from pathlib import Path


def newest(checkpoint: Path, log: str) -> int:
    """The number of the last batch in the log `offsets` or `commits`."""
    return max(int(file.name) for file in (checkpoint / log).glob("[0-9]*"))


def offset_of(checkpoint: Path) -> Offsets:
    """The newest offset."""
    written = (checkpoint / "offsets" / str(newest(checkpoint, "offsets"))).read_text()
    return Offsets.from_json(json.loads(written.splitlines()[2]))


def forget(checkpoint: Path, log: str, number: int) -> None:
    """Takes a batch out of a log."""
    for name in (f"{number}", f".{number}.crc"):
        (checkpoint / log / name).unlink()


def forget_commit(checkpoint: Path) -> int:
    """Takes the newest entry out of the commit log, as if the driver had died just before it was written."""
    number = newest(checkpoint, "commits")
    forget(checkpoint, "commits", number)
    return number
