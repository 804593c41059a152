"""Things as people say them: how long, how much, how many; what the operating system refused."""

from __future__ import annotations

import os

_UNITS_S = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SIZE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_FROM = 2  # 119 s is said so, 120 s is 2 min


def duration(duration_ms: int) -> str:
    """`45 s`, `12 min`, `3 h`, `4 days`: in the largest unit of which there are two."""
    seconds = max(0, duration_ms) // 1000
    unit, size = next(((unit, size) for unit, size in _UNITS_S if seconds >= _FROM * size), ("s", 1))
    return f"{seconds // size:,} {unit}"


def size(size_bytes: int) -> str:
    """`512 bytes`, `1.5 KiB`, `3.0 GiB`."""
    power = min((max(size_bytes, 1).bit_length() - 1) // 10, len(_SIZE_UNITS) - 1)
    return counted(size_bytes, "byte") if not power else f"{size_bytes / 1024**power:.1f} {_SIZE_UNITS[power]}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 row`, `2,000 rows`; `plural` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def sentence(text: str) -> str:
    """With an end, so that another one may follow: RocketMQ's servers say some without."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def os_error_story(error: OSError) -> str:
    """What the operating system refused, in its words: 'rmq-store: Permission denied'."""
    reason = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {reason}" if error.filename is not None else reason
