"""`rmq admin`: REST and console, as a process of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.admin.config import AdminConfig
from rmqspark.cli.machine.admin_libraries import check_installed
from rmqspark.cli.servers.flags import Host, namesrv_of, port_flag
from rmqspark.cli.servers.making import administration
from rmqspark.cli.servers.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
from rmqspark.cli.terminal.credentials import use_tls
from rmqspark.cli.terminal.options import ServersNamesrv
from rmqspark.remoting.tls.settings import TlsClientSettings

if TYPE_CHECKING:
    import asyncio

_SAID_OTHERWISE = frozenset({"admin_port", "bind_address", "insecure"})


@with_settings(AdminConfig, leave_out=_SAID_OTHERWISE)
def admin(
    port: Annotated[
        int | None,
        typer.Option("--port", "--admin-port", min=0, max=65535, help="Default: 8088; 0 takes any free one."),
    ] = None,
    host: Host = None,
    insecure: Insecure = False,
    namesrv: ServersNamesrv = None,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Runs REST and console until Ctrl-C.

    /docs has the requests, / the pages, /metrics the figures for Prometheus. Beyond this machine it takes tokens, best
    told by the environment: RMQ_ADMIN_TOKEN may change things, RMQ_READ_TOKEN may look.

    Example: rmq admin --port 8088 --namesrv "10.0.0.1:9876;10.0.0.2:9876"
    """
    file = read_config(config)
    flags = {**settings, "admin_port": port, "bind_address": host, "insecure": insecure or None}
    sources = Sources(file, flags)
    chosen, called = sources.settings(AdminConfig), namesrv_of(namesrv, file) or None
    check_installed()
    if sources.says("tls_enable"):
        use_tls(sources.settings(TlsClientSettings).tls_client)
    from rmqspark.cli.servers.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with administration(chosen, called) as url:
            print(f"REST and console at {url}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)
