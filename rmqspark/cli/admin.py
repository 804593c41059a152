"""`rmq admin`: REST and console, as a process of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.admin.config import AdminConfig
from rmqspark.cli.admin_libraries import check_installed
from rmqspark.cli.credentials import use_tls
from rmqspark.cli.options import ServersNamesrv
from rmqspark.cli.servers import Host, namesrv_of, port_flag
from rmqspark.cli.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
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
    from rmqspark.cli.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with administration(chosen, called) as url:
            print(f"REST and console at {url}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)


@asynccontextmanager
async def administration(config: AdminConfig, namesrv: str | None) -> AsyncIterator[str]:
    """REST and console while the block runs; gives their URL."""
    from rmqspark.admin.app import make_app
    from rmqspark.admin.server import serving
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import SystemClock
    from rmqspark.settings import by_name
    from rmqspark.store.config import StoreConfig

    app = make_app(config, namesrv, SystemClock(), by_name(BrokerConfig, StoreConfig))
    async with serving(app, config) as url:
        yield url
