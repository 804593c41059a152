"""Flags that servers have in common, and what is said of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqspark.errors import PortInUse

# A flag may have a word of its own for a setting; it goes by the setting's name as well, which errors and hints have.
Host = Annotated[str | None, typer.Option("--host", "--bind-address", help="Address to listen on. Default: 127.0.0.1.")]
Advertise = Annotated[
    str | None, typer.Option("--advertise", "--broker-ip1", help="Host that clients are told (RocketMQ's brokerIP1).")
]
SAID_OTHERWISE = frozenset({"listen_port", "bind_address", "insecure", "broker_ip1", "namesrv_addr"})
DEFAULT_STORE = Path("rmq-store")


@contextmanager
def port_flag(flag: str) -> Iterator[None]:
    """Servers do not know how a port was chosen; here a port in use is named with the flag of this verb."""
    try:
        yield
    except PortInUse as error:
        raise PortInUse(error.host, error.port, flag) from None


def namesrv_of(named: str | None, file: Mapping[str, Any]) -> str:
    """Which name servers a server calls: those of its flag or of $RMQ_NAMESRV, else those of its settings, where an
    empty text is none, else where all look."""
    from rmqspark.client.cluster.addresses import resolve_namesrv

    in_settings = os.environ.get("RMQ_NAMESRV_ADDR") or file.get("namesrv_addr")
    if named is None and in_settings is not None and not os.environ.get("RMQ_NAMESRV"):
        return str(in_settings)
    return resolve_namesrv(named)
