"""`rmq broker`: one broker as a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.flags import DEFAULT_STORE, SAID_OTHERWISE, Advertise, Host, namesrv_of, port_flag
from rmqspark.cli.servers.making import BrokerSettings, make_broker
from rmqspark.cli.servers.open_files import current_limit
from rmqspark.cli.servers.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
from rmqspark.cli.terminal.options import ServersNamesrv
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    import asyncio

_WHO = frozenset({"broker_name", "broker_cluster_name", "broker_id"})


@with_settings(BrokerConfig, StoreConfig, Limits, leave_out=SAID_OTHERWISE | _WHO)
def broker(
    port: Annotated[
        int | None,
        typer.Option("--port", "--listen-port", min=0, max=65535, help="Default: 10911; port - 2 is opened too."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", "--store-path-root-dir", help="Directory of the store. Default: rmq-store/NAME."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "--broker-name", help="Default: broker-a.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "--broker-cluster-name", help="Default: DefaultCluster.")
    ] = None,
    id_: Annotated[int | None, typer.Option("--id", "--broker-id", min=0, help="0 is the master. Default: 0.")] = None,
    host: Host = None,
    advertise: Advertise = None,
    insecure: Insecure = False,
    namesrv: ServersNamesrv = None,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Runs one broker until Ctrl-C.

    Example: rmq broker --name broker-b --port 10921 --store /data/b --namesrv "10.0.0.1:9876;10.0.0.2:9876"
    """
    file = read_config(config)
    flags = {
        **settings,
        "listen_port": port,
        "broker_name": name,
        "broker_cluster_name": cluster,
        "broker_id": id_,
        "bind_address": host,
        "broker_ip1": advertise,
        "insecure": insecure or None,
        "namesrv_addr": namesrv_of(namesrv, file),
    }
    sources = Sources(file, flags)
    chosen = BrokerSettings.of(sources)
    directory = store or sources.store_root() or DEFAULT_STORE / chosen.broker.broker_name
    from rmqspark.cli.servers.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with make_broker(chosen.within(current_limit()), directory) as server:
            print(f"Broker {server.name} at {server.address}, store {directory}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)
