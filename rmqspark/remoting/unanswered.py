"""What is said of a server that has not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import Conflict, RequestTimeout
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from rmqspark.remoting.access import Tls


class GaveUp(ConnectionError):
    """Over TLS, and behind the handshake, the other side has said why it does not go on."""


def timed_out(address: str, code: int, timeout_ms: int) -> RequestTimeout:
    """For a request of that code."""
    name = next((known.name for known in RequestCode if known == code), "request")
    return RequestTimeout(f"{address} did not answer {name} ({int(code)}) within {timeout_ms} ms.")


def unanswered(tls: Tls | None) -> str:
    """What may be behind a connection that was closed before it answered anything: the server cannot say so itself."""
    if tls is None:
        return "it was closed before its first answer, as by a server that demands TLS (tls_enable)"
    return "it was closed before its first answer, as by a server that wants another certificate of its clients"


def remedy(tls: Tls | None) -> str:
    """What to do about it, if that is what it was."""
    if tls is None:
        return "If so, say RMQ_TLS_ENABLE=true, tlsEnable=true in Spark, or access=Access(tls=Tls(…))."
    return f"If so, name one with {tls.names.cert_path}."


def remedy_for(cause: Exception | None, tls: Tls | None) -> str:
    """What to do where the other side has said why it closes before its first answer: of clients it is their
    certificate that it looks at."""
    return (
        f"Name a certificate that it accepts with {tls.names.cert_path}." if tls and isinstance(cause, GaveUp) else ""
    )


def waits_for_itself() -> Conflict:
    """Of a thread that brings connections or answers, where a callback of its would wait for one."""
    return Conflict(
        "A callback of a future cannot wait for an answer: it runs on the thread that brings it. Nothing was sent.",
        hint="Send with send_async there, and do not wait for its result; or hand the work to another thread.",
    )
