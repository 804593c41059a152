"""Who says something of a broker, and whether that counts. Pure.

RocketMQ believes whoever comes, so that anybody who reaches a name server can take a living broker off it, or send its
clients and slaves elsewhere. Here a broker that is alive is spoken for by who registered it: over another connection
too, for connections break and brokers are started again before that is noticed. Where users are on that is the same
user, wherever it comes from; where nobody signs, whoever comes from the same host.
"""

from __future__ import annotations

from typing import NamedTuple


class Speaker(NamedTuple):
    """By which connection it comes, from which host, and as which user: "" where nobody signs."""

    connection_id: int
    host: str = ""
    user: str = ""

    def speaks_for(self, other: Speaker) -> bool:
        """Whether it may say more of a broker that the other has registered and that is alive."""
        if self.connection_id == other.connection_id:
            return True
        return self.user == other.user if other.user else self.host == other.host
