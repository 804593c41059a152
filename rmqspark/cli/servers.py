"""`rmq namesrv` and `rmq broker`: the two servers as processes of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.open_files import current_limit, limits_within, store_within
from rmqspark.cli.options import ServersNamesrv
from rmqspark.cli.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
from rmqspark.errors import PortInUse
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    import asyncio

    from rmqspark.broker.broker import Broker
    from rmqspark.namesrv.server import NameServer

# A flag may have a word of its own for a setting; it goes by the setting's name as well, which errors and hints have.
Host = Annotated[str | None, typer.Option("--host", "--bind-address", help="Address to listen on. Default: 127.0.0.1.")]
Advertise = Annotated[
    str | None, typer.Option("--advertise", "--broker-ip1", help="Host that clients are told (RocketMQ's brokerIP1).")
]
SAID_OTHERWISE = frozenset({"listen_port", "bind_address", "insecure", "broker_ip1", "namesrv_addr"})
_WHO = frozenset({"broker_name", "broker_cluster_name", "broker_id"})
DEFAULT_STORE = Path("rmq-store")


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
    from rmqspark.cli.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with make_name_server(chosen, limits_within(current_limit(), limits)) as server:
            print(f"Name server at {server.address}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)


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
    from rmqspark.cli.serving import run_until_stopped

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with make_broker(chosen.within(current_limit()), directory) as server:
            print(f"Broker {server.name} at {server.address}, store {directory}. Ctrl-C stops it.", flush=True)
            await stopped

    with port_flag("--port"):
        run_until_stopped(serve)


class BrokerSettings(NamedTuple):
    """All that a broker is told."""

    broker: BrokerConfig
    store: StoreConfig
    limits: Limits

    @classmethod
    def of(cls, sources: Sources) -> Self:
        return cls(sources.settings(BrokerConfig), sources.settings(StoreConfig), sources.settings(Limits))

    def registering_with(self, namesrv: str) -> Self:
        """The same for a broker that registers with this name server and no other."""
        return self._replace(broker=replace(self.broker, namesrv_addr=namesrv))

    def within(self, limit: int | None, *, servers: int = 1) -> Self:
        """The same for a broker in a process of so many servers that may have so many files open (None: any number)."""
        store = store_within(limit, self.store)
        return self._replace(store=store, limits=limits_within(limit, self.limits, store, servers=servers))


def make_name_server(config: NamesrvConfig, limits: Limits) -> NameServer:
    """A name server over the real clock and files."""
    from rmqspark.clock import SystemClock
    from rmqspark.namesrv.server import NameServer
    from rmqspark.store.posix_files import PosixFileSystem

    keeps_users = config.authentication_enabled and config.auth_config_path
    files = PosixFileSystem().within(config.auth_config_path) if keeps_users else None
    return NameServer(config, clock=SystemClock(), limits=limits, files=files)


def make_broker(settings: BrokerSettings, directory: Path) -> Broker:
    """A broker over the real clock, randomness and files. Raises UnusableFile for what it is to call others with: they
    would never hear of it."""
    from rmqspark.broker.broker import Broker
    from rmqspark.clock import SystemClock
    from rmqspark.entropy import SystemEntropy
    from rmqspark.store.posix_files import PosixFileSystem

    if (tls := settings.broker.tls_client) is not None:
        from rmqspark.remoting.tls.contexts import client_context

        client_context(tls)
    return Broker(
        settings.broker,
        settings.store,
        store_dir=directory,
        files=PosixFileSystem(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
        limits=settings.limits,
    )


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
