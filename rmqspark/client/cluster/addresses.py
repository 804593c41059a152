"""Where the name servers are: what the user said, else the environment, else this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_NAMESRV = "127.0.0.1:9876"
VARIABLES = ("RMQ_NAMESRV", "NAMESRV_ADDR")


def resolve_namesrv(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The name servers to use: `explicit`, else $RMQ_NAMESRV, else $NAMESRV_ADDR, else 127.0.0.1:9876.

    A variable that is empty counts as not set, as usual; an empty `explicit` is a slip, and no wish for the default.
    Several are written as RocketMQ writes them, "h1:9876;h2:9876". InvalidArgument says what is wrong with the rest.
    """
    if not isinstance(explicit, str | None):
        raise InvalidArgument(
            f"namesrv is {explicit!r:.80}, but must be text.",
            hint='Separate several with semicolons: "h1:9876;h2:9876".',
        )
    if explicit is not None:
        return ";".join(parse_addresses(explicit))
    for name in VARIABLES:
        if text := environ.get(name):
            return ";".join(parse_addresses(text, f"${name}"))
    return DEFAULT_NAMESRV


def parse_addresses(text: str, source: str = "namesrv") -> tuple[str, ...]:
    """ "h1:9876;h2:9876" → its addresses, each checked; `source` is how the user knows the setting."""
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    if not addresses:
        raise InvalidArgument(f"{source} is empty.", hint=f"Give it as host:port, for instance {DEFAULT_NAMESRV}.")
    for address in addresses:
        _check(address, source)
    return addresses


def _check(address: str, source: str) -> None:
    """Refuses what is not host:port, naming the setting it came from and the form that is right."""
    try:
        host, _ = parse_address(address)
    except InvalidArgument:
        host = ""
    if not host or not host.isprintable() or any(char in host for char in "/,@ "):
        raise InvalidArgument(
            f"{source} {address!r} is not an address.",
            hint=f"Write it as host:port, for instance {DEFAULT_NAMESRV}; separate several with semicolons.",
        )
