"""What the log says of connections that a server closes: each at level debug, and now and then how many there were.

Thousands may be closed in a second, by a crowd or an attack; a line for each would be one more way to fill a disk.
"""

from __future__ import annotations

import structlog

log = structlog.get_logger("rmqspark.remoting")


class Closings:
    """Counts the connections that a server has closed since its last report."""

    def __init__(self) -> None:
        self._count = 0
        self._last_peer = ""
        self._last_reason = ""

    def note(self, peer: str, reason: str) -> None:
        """A connection is being closed."""
        log.debug("connection closed", peer=peer, reason=reason)
        self._count += 1
        self._last_peer, self._last_reason = peer, reason

    def report(self) -> None:
        """One line, if there were any. To be called every few seconds."""
        if self._count:
            log.info("connections closed", count=self._count, last_peer=self._last_peer, last_reason=self._last_reason)
            self._count = 0
