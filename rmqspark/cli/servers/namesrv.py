"""`rmq namesrv`: a name server as a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.servers.flags import SAID_OTHERWISE, Host, port_flag
from rmqspark.cli.servers.making import make_name_server
from rmqspark.cli.servers.open_files import current_limit, limits_within
from rmqspark.cli.servers.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits

if TYPE_CHECKING:
    import asyncio


@with_settings(NamesrvConfig, Limits, leave_out=SAID_OTHERWISE)
def namesrv(
    port: Annotated[
        int | None,
        typer.Option("--port", "--listen-port", min=0, max=65535, help="Default: 9876; 0 takes any free one."),
    ] = None,
    host: Host = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Runs a name server until Ctrl-C.

    Example: rmq namesrv --port 9876
    """
    flags = {**settings, "listen_port": port, "bind_address": host, "insecure": insecure or None}
    sources = Sources(read_config(config), flags)
    chosen, limits = sources.settings(NamesrvConfig), sources.settings(Limits)
    from rmqspark.cli.servers.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with make_name_server(chosen, limits_within(current_limit(), limits)) as server:
            print(f"Name server at {server.address}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)
