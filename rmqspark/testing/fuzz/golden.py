"""Frames that were once right: the golden vectors, to be broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def golden_frames(directory: Path) -> list[bytes]:
    """The wire bytes of all commands under `directory` (tests/golden); none where the tests are not there."""
    files = sorted((directory / "commands").glob("*.json"))
    return [bytes.fromhex(json.loads(file.read_text(encoding="utf-8"))["wire"]) for file in files]
