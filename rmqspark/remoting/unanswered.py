"""What may be behind a connection that a server has closed before it answered anything: it cannot say so itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.remoting.access import Tls


def unanswered(tls: Tls | None) -> str:
    """In words."""
    if tls is None:
        return "it was closed before its first answer, as by a server that demands TLS (tls_enable)"
    return "it was closed before its first answer, as by a server that wants another certificate of its clients"
