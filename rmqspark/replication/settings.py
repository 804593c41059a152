"""What master and slave need to know about each other's habits."""

from __future__ import annotations

from typing import NamedTuple


class HaSettings(NamedTuple):
    """RocketMQ's MessageStoreConfig has these under ha…; times in seconds."""

    heartbeat_s: float = 5.0
    """Whoever has nothing to say for so long says so."""
    housekeeping_s: float = 20.0
    """Whoever hears nothing for so long hangs up."""
    retry_s: float = 5.0
    """Between two tries of a slave to reach its master."""
    transfer_bytes: int = 32 << 10
    """Of the log, sent at a time."""
    sends_whole_log: bool = False
    """An empty slave gets all there is, not only the newest file."""
