"""Settings are data beside the code they configure: frozen dataclasses whose fields carry unit and meaning.

`setting` declares one field; `load` fills a dataclass from a file, the environment and flags, later ones winning.
`--help` and docs/operations.md are made from the same fields, so a setting is described once.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(default: Any, meaning: str, *, unit: str = "") -> Any:
    """Declares a setting: its default, what it means in one sentence, and its unit (ms, bytes, ...) if it has one."""
    return field(default=default, metadata={"meaning": meaning, "unit": unit})
