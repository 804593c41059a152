"""What a Spark query says of the cluster it talks to: source and sink have these options in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rmqspark.errors import NotThereYet
from rmqspark.options import Option, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WITHOUT_TLS: Final = "This version talks to brokers without TLS; leave it out."
_WITHOUT_ACCESS: Final = "This version talks to brokers without access control; leave it out."

NAMESRV: Final = Option(
    "namesrv",
    "`$RMQ_NAMESRV`, `$NAMESRV_ADDR`, `127.0.0.1:9876`",
    "name servers, `host:port;host:port`",
    text,
    aliases=("nameServer", "namesrvAddr"),
)
LATER: Final[Mapping[str, str]] = MappingProxyType({"accessKey": _WITHOUT_ACCESS, "secretKey": _WITHOUT_ACCESS})


def refuse_tls(given: Iterable[str]) -> None:
    """Raises NotThereYet where an option is for encrypted connections: which there will be is not settled yet."""
    for name in given:
        if name.lower().startswith("tls"):
            raise NotThereYet(f"Option {name!r} is not there yet in this version.", hint=_WITHOUT_TLS)
