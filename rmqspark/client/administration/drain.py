"""When a reader that is behind will have caught up, if things go on as they do. Pure."""

from __future__ import annotations


def seconds_to_catch_up(lag: int, behind_ms: int | None, consumed_per_second: float | None) -> int | None:
    """Seconds until nothing waits; 0 if nothing does, None where it is unknown or the reader does not catch up.

    What comes in is taken from the backlog itself: `lag` messages were stored in the last `behind_ms`.
    """
    if not lag:
        return 0
    if not consumed_per_second or behind_ms is None:
        return None
    stored_per_second = lag * 1000 / max(behind_ms, 1_000)
    gain = consumed_per_second - stored_per_second
    return round(lag / gain) if gain > 0 else None
