"""`rmq up`: a name server and brokers, ready for the first message, and REST and console beside them.

One broker shares the process of the name server. More than one is a process each, so that each has a core for itself;
the name server's process looks after them. REST and console are always a process of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.admin.config import AdminConfig
from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.flags import DEFAULT_STORE, SAID_OTHERWISE, Advertise, Host
from rmqspark.cli.servers.making import BrokerSettings, make_broker, make_name_server
from rmqspark.cli.servers.open_files import current_limit, limits_within
from rmqspark.cli.servers.setting_flags import (
    STORE_ROOT_VARIABLE,
    ConfigFile,
    Insecure,
    Sources,
    read_config,
    with_settings,
)
from rmqspark.cli.terminal.credentials import use_tls
from rmqspark.cli.up.admin_order import AdminOrder
from rmqspark.cli.up.admin_wanted import wanted
from rmqspark.cli.up.beside import check_they_can_talk, tell_of_unknown, tell_of_unserved, without_clients_switch
from rmqspark.cli.up.endpoints import ENDPOINTS, announced, claimed, write_endpoints
from rmqspark.cli.up.greeting import Running, broker_name, greet, say_what_to_try
from rmqspark.errors import InvalidArgument, StoreError
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.address import format_address, parse_address
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    import asyncio

    from rmqspark.cli.up.admin_process import AdminProcess
    from rmqspark.namesrv.server import NameServer

    Serve = Callable[[asyncio.Future[None]], Awaitable[None]]

_PORTS_APART = 10
_LAST_PORT = 65_535
_MOST_BROKERS = 26  # broker-a to broker-z
_FREE_BYTES = 2 * 1024**3  # instead of RocketMQ's ratios, which would delete messages on a laptop with a full disk
_Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")]


@with_settings(BrokerConfig, StoreConfig, Limits, AdminConfig, leave_out=SAID_OTHERWISE | {"admin_port"}, hidden=True)
def up(
    store: Annotated[
        Path, typer.Option(help="Where everything is kept; the broker's files are in DIR/broker-a.", metavar="DIR")
    ] = DEFAULT_STORE,
    host: Host = None,
    advertise: Advertise = None,
    namesrv_port: _Port = 9876,
    broker_port: Annotated[
        int | None,
        typer.Option(
            "--broker-port",
            "--listen-port",
            min=0,
            max=65535,
            help="Default: 10911; port - 2 is opened too. 0 takes any free pair.",
        ),
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="REST and console. Default: 8088, or any free one. 0 takes any free one."),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin/--no-admin", help="Whether there are REST and console.")] = True,
    brokers: Annotated[
        int,
        typer.Option(
            min=1,
            max=_MOST_BROKERS,
            help="More than one is a process each, their ports ten apart; one that dies is started again.",
        ),
    ] = 1,
    demo: Annotated[
        bool, typer.Option("--demo", help="A sample topic with traffic, a consumer and, where PySpark is, a query.")
    ] = False,
    insecure: Insecure = False,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Starts a queue: name server, broker and console, until Ctrl-C.

    The ports are printed, and written to DIR/endpoints.json once everything answers. Every setting of broker and
    store is a flag too (rmq broker --help lists them), for instance --flush-disk-type SYNC_FLUSH.

    Examples: rmq up | rmq up --demo | rmq up --brokers 4 | rmq up --store /tmp/q --namesrv-port 0 --broker-port 0
    """
    flags = {
        **settings,
        "bind_address": host,
        "broker_ip1": advertise,
        "listen_port": broker_port,
        "insecure": insecure or None,
        "admin_port": admin_port,
    }
    sources = Sources({"min_free_bytes": _FREE_BYTES, **read_config(config)}, flags)
    chosen = BrokerSettings.of(sources)
    chosen = chosen._replace(broker=without_clients_switch(chosen.broker, sources))
    check_they_can_talk(chosen.broker)
    use_tls(chosen.broker.tls_client)  # REST, console and the demo call servers as the brokers do
    names = _namesrv_beside(chosen.broker, sources.file, namesrv_port, store)
    beside = wanted(sources, store) if admin else None
    if sources.store_root() is not None:
        around = os.environ.get(STORE_ROOT_VARIABLE)
        said = f"${STORE_ROOT_VARIABLE}" if around else f"storePathRootDir of {config}"
        _leave_aside(said, "--store says where rmq up keeps its files")
    if sources.file.get("namesrv_addr"):
        _leave_aside(f"namesrvAddr of {config}", "rmq up has a name server of its own")
    from rmqspark.cli.servers.serving import run_until_stopped

    if brokers > 1:
        if sources.says("broker_name"):
            said = f"brokerName of {config}" if settings["broker_name"] is None else "--broker-name"
            _leave_aside(said, f"the brokers are {broker_name(0)} to {broker_name(brokers - 1)}")
        serve = _serve_many(names, _numbered(chosen, brokers), beside, store, demo=demo)
    else:
        serve = _serve_one(names, chosen, beside, store, demo=demo)
    with claimed(store):
        run_until_stopped(serve)


def _leave_aside(said: str, reason: str) -> None:
    print(f"{said} is left aside: {reason}.", file=sys.stderr)


def _serve_one(
    names: NamesrvConfig, settings: BrokerSettings, beside: AdminConfig | None, store: Path, *, demo: bool
) -> Serve:
    """Name server and broker on one event loop."""
    from rmqspark.cli.up.admin_process import admin_process
    from rmqspark.clock import SystemClock

    async def serve(stopped: asyncio.Future[None]) -> None:
        fitting, clock = settings.within(current_limit(), servers=2), SystemClock()
        async with make_name_server(names, fitting.limits) as namesrv:
            address = _from_here(namesrv, names.bind_address)
            order = None if beside is None else AdminOrder(beside, address)
            async with (
                admin_process(order, clock) as admin,
                make_broker(fitting.registering_with(address), store / broker_name(0)) as broker,
            ):
                brokers = [Running(broker.name, broker.address, os.getpid())]
                async with _open(namesrv, lambda: brokers, admin, store, demo=demo):
                    await stopped

    return serve


def _serve_many(
    names: NamesrvConfig, settings: Sequence[BrokerSettings], beside: AdminConfig | None, store: Path, *, demo: bool
) -> Serve:
    """The name server here, and each broker in a process of its own."""
    from rmqspark.cli.processes.children import child_processes
    from rmqspark.cli.up.admin_process import admin_process
    from rmqspark.cli.up.broker_order import BrokerOrder
    from rmqspark.clock import SystemClock

    async def serve(stopped: asyncio.Future[None]) -> None:
        clock, limits = SystemClock(), limits_within(current_limit(), settings[0].limits)
        async with make_name_server(names, limits) as namesrv:
            address = _from_here(namesrv, names.bind_address)
            order = None if beside is None else AdminOrder(beside, address)
            orders = [
                BrokerOrder(told.registering_with(address), (store / told.broker.broker_name).absolute())
                for told in settings
            ]

            def running() -> list[Running]:
                return [Running(process.name, process.address, process.pid) for process in processes]

            def announce_again() -> None:
                _announce_again(store, _endpoints(namesrv, running(), admin))

            async with (
                admin_process(order, clock) as admin,
                child_processes(orders, clock, announce_again) as processes,
                _open(namesrv, running, admin, store, demo=demo),
            ):
                await stopped

    return serve


@asynccontextmanager
async def _open(
    namesrv: NameServer, running: Callable[[], Sequence[Running]], admin: AdminProcess, store: Path, *, demo: bool
) -> AsyncIterator[None]:
    """The queue answers, which people are told; when REST and console do, too, programs are, by endpoints.json; and
    the demo may begin."""
    from rmqspark.cli.processes.meanwhile import meanwhile
    from rmqspark.cli.sample.processes import Sample

    address = _address(namesrv, running())
    sample = Sample(address, store / "demo") if demo else None
    greet(address, running(), store)
    tell_of_unknown(namesrv, [broker.name for broker in running()])
    tell_of_unserved(store, map(broker_name, range(_MOST_BROKERS)), len(running()))
    await admin.ready()
    with announced(store / ENDPOINTS, _endpoints(namesrv, running(), admin)):
        say_what_to_try(address, admin.url, sample.lines if sample else ())
        async with (
            sample.running() if sample else nullcontext(),
            meanwhile(admin.keep_running(lambda: _announce_again(store, _endpoints(namesrv, running(), admin)))),
        ):
            yield


def _announce_again(store: Path, endpoints: Mapping[str, Any]) -> None:
    try:
        write_endpoints(store / ENDPOINTS, endpoints)
    except StoreError as error:  # everything serves; the pids in the file are old, that is all
        print(error, file=sys.stderr)


def _numbered(settings: BrokerSettings, count: int) -> list[BrokerSettings]:
    """The same settings for each broker but for its name and ports: ten apart, for metrics one, or any free ones."""
    first, first_metrics = settings.broker.listen_port, settings.broker.metrics_prom_exporter_port
    ports = [first + _PORTS_APART * number if first else 0 for number in range(count)]
    metrics_ports = [first_metrics + number if first_metrics else 0 for number in range(count)]
    if ports[-1] > _LAST_PORT:
        raise InvalidArgument(f"From port {first} on there is no room for {count} brokers, ten ports apart.")
    if metrics_ports[-1] > _LAST_PORT:
        raise InvalidArgument(f"From port {first_metrics} on there is no room for the metrics of {count} brokers.")
    names = map(broker_name, range(count))
    return [
        settings._replace(
            broker=replace(settings.broker, broker_name=name, listen_port=port, metrics_prom_exporter_port=metrics_port)
        )
        for name, port, metrics_port in zip(names, ports, metrics_ports, strict=True)
    ]


def _namesrv_beside(broker: BrokerConfig, file: Mapping[str, Any], port: int, store: Path) -> NamesrvConfig:
    """In a file for `rmq up`, where, how and to whom to listen is the broker's; the name server has its own port."""
    others = {name: value for name, value in file.items() if name != "listen_port"}
    names = Sources(others, {"listen_port": port, **broker.auth_settings}).settings(NamesrvConfig)
    shared = {"bind_address": broker.bind_address, "insecure": broker.insecure, **broker.tls_server_settings}
    return replace(names, auth_config_path=names.auth_config_path or str(store / "namesrv"), **shared)


def _endpoints(namesrv: NameServer, brokers: Sequence[Running], admin: AdminProcess) -> Mapping[str, Any]:
    return {
        "namesrv": _address(namesrv, brokers),
        "brokers": [broker.address for broker in brokers],
        "admin": admin.url,
        "pids": {"namesrv": os.getpid(), "brokers": [broker.pid for broker in brokers], "admin": admin.pid},
    }


def _address(namesrv: NameServer, brokers: Sequence[Running]) -> str:
    """What clients are told: the name server under the same host as the brokers."""
    host, _ = parse_address(brokers[0].address)
    return format_address(host, namesrv.port)


def _from_here(namesrv: NameServer, bind_address: str) -> str:
    """The name server's address for the broker beside it, also where it listens on all addresses."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)
    return format_address(host, namesrv.port)
