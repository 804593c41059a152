"""`rmq up`: name server and broker in one process, ready for the first message."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers import DEFAULT_STORE, SAID_OTHERWISE, Advertise, BrokerSettings, Host, make_broker
from rmqspark.cli.setting_flags import ConfigFile, Insecure, Sources, read_config, with_settings
from rmqspark.client.addresses import DEFAULT_NAMESRV
from rmqspark.errors import InvalidArgument, NotSupported, StoreError, StoreLocked
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.address import format_address, parse_address
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    import asyncio

    from rmqspark.broker.broker import Broker
    from rmqspark.namesrv.server import NameServer

ENDPOINTS = "endpoints.json"
BROKER_DIRECTORY = "broker-a"
_FREE_BYTES = 2 * 1024**3  # instead of RocketMQ's ratios, which would delete messages on a laptop with a full disk
_Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")]


@with_settings(BrokerConfig, StoreConfig, Limits, leave_out=SAID_OTHERWISE, hidden=True)
def up(
    store: Annotated[
        Path, typer.Option(help="Where everything is kept; the broker's files are in DIR/broker-a.", metavar="DIR")
    ] = DEFAULT_STORE,
    host: Host = None,
    advertise: Advertise = None,
    namesrv_port: _Port = 9876,
    broker_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Default: 10911; port - 2 is opened too. 0 takes any free pair."),
    ] = None,
    admin_port: Annotated[
        int, typer.Option(min=0, max=65535, help="For REST and console, which are not there yet.")
    ] = 8088,
    brokers: Annotated[int, typer.Option(min=1, help="More than one is not there yet; see rmq broker.")] = 1,
    insecure: Insecure = False,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Starts a queue: name server and broker, until Ctrl-C.

    The ports are printed, and written to DIR/endpoints.json once everything answers. Every setting of broker and
    store is a flag too (rmq broker --help lists them), for instance --flush-disk-type SYNC_FLUSH.

    Examples: rmq up | rmq up --store /tmp/q --namesrv-port 0 --broker-port 0
    """
    del admin_port  # taken so that scripts need not change when REST comes
    if brokers > 1:
        raise NotSupported(
            "rmq up starts one broker for now.",
            hint="Start more with: rmq broker --name broker-b --port 10921 --store rmq-store/broker-b",
        )
    flags = {
        **settings,
        "bind_address": host,
        "broker_ip1": advertise,
        "listen_port": broker_port,
        "insecure": insecure or None,
    }
    sources = Sources({"min_free_bytes": _FREE_BYTES, **read_config(config)}, flags)
    chosen = BrokerSettings.of(sources)
    names = _namesrv_beside(chosen.broker, sources.file, namesrv_port)
    if sources.store_root() is not None:
        print(
            f"storePathRootDir of {config} is left aside: --store says where rmq up keeps its files.", file=sys.stderr
        )
    from rmqspark.cli.serving import run_until_stopped
    from rmqspark.clock import SystemClock
    from rmqspark.namesrv.server import NameServer

    async def serve(stopped: asyncio.Future[None]) -> None:
        async with NameServer(names, clock=SystemClock(), limits=chosen.limits) as namesrv:
            registered = replace(chosen.broker, namesrv_addr=_from_here(namesrv, names.bind_address))
            async with make_broker(chosen._replace(broker=registered), store / BROKER_DIRECTORY) as broker:
                endpoints = _endpoints(namesrv, broker)
                with announced(store / ENDPOINTS, endpoints):
                    _greet(endpoints["namesrv"], broker, store)
                    await stopped

    with claimed(store):
        run_until_stopped(serve)


def _namesrv_beside(broker: BrokerConfig, file: Mapping[str, Any], port: int) -> NamesrvConfig:
    """In a file for `rmq up`, where to listen is the broker's; the name server listens there too, on its own port."""
    elsewhere = Sources({name: value for name, value in file.items() if name != "listen_port"}, {"listen_port": port})
    return replace(elsewhere.settings(NamesrvConfig), bind_address=broker.bind_address, insecure=broker.insecure)


@contextmanager
def claimed(store: Path) -> Iterator[None]:
    """One `rmq up` per directory. What one that was killed left in endpoints.json is gone before anybody reads it."""
    if store.exists() and not store.is_dir():
        raise InvalidArgument(f"--store {store} is not a directory.")
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(store, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(
                f"Another rmq up has its files in {store}.", hint="Stop it, or choose another place with --store DIR."
            ) from None
        (store / ENDPOINTS).unlink(missing_ok=True)
        yield
    finally:
        os.close(directory)


@contextmanager
def announced(path: Path, endpoints: Mapping[str, Any]) -> Iterator[None]:
    """The file is there while everything answers; whoever waits for it finds all of it."""
    draft = path.with_suffix(".tmp")
    try:
        draft.write_text(json.dumps(endpoints) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.", hint="Is the disk full?") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _endpoints(namesrv: NameServer, broker: Broker) -> Mapping[str, Any]:
    """What clients are told: the name server under the same host as the broker."""
    host, _ = parse_address(broker.address)
    pid = os.getpid()
    return {
        "namesrv": format_address(host, namesrv.port),
        "brokers": [broker.address],
        "admin": None,
        "pids": {"namesrv": pid, "brokers": [pid], "admin": None},
    }


def _from_here(namesrv: NameServer, bind_address: str) -> str:
    """The name server's address for the broker beside it, also where it listens on all addresses."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)
    return format_address(host, namesrv.port)


def _greet(namesrv: str, broker: Broker, store: Path) -> None:
    elsewhere = "" if namesrv == DEFAULT_NAMESRV else f" --namesrv {namesrv}"
    print(
        f"name server  {namesrv}\n"
        f"broker       {broker.address}  ({broker.name}, files in {store / BROKER_DIRECTORY})\n\n"
        f"Try:   rmq send hello world{elsewhere}\n"
        f"       rmq consume hello{elsewhere}\n"
        f"Spark: spark.read.format('rmq').option('namesrv', '{namesrv}').load('hello')\n\n"
        "Ctrl-C stops it.",
        flush=True,
    )
