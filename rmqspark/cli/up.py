"""`rmq up`: name server and broker in one process, ready for the first message."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.servers import DEFAULT_STORE, Advertise, ConfigFile, broker_settings, make_broker, read_config
from rmqspark.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.broker.broker import Broker
    from rmqspark.namesrv.server import NameServer

ENDPOINTS = "endpoints.json"
_BROKER = "broker-a"
_FREE_BYTES = 2 * 1024**3


def up(
    store: Annotated[
        Path, typer.Option(help="Where everything is kept; the broker's files are in DIR/broker-a.")
    ] = DEFAULT_STORE,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    advertise: Advertise = None,
    namesrv_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 9876,
    broker_port: Annotated[
        int, typer.Option(min=0, max=65535, help="0 takes any free pair (port and port - 2).")
    ] = 10911,
    admin_port: Annotated[
        int, typer.Option(min=0, max=65535, help="For REST and console, which are not there yet.")
    ] = 8088,
    brokers: Annotated[int, typer.Option(min=1, help="More than one is not there yet; see rmq broker.")] = 1,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond loopback without authentication.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Starts a queue: name server and broker, until Ctrl-C.

    The ports are printed, and written to DIR/endpoints.json once everything answers.
    Examples: rmq up | rmq up --store /tmp/q --namesrv-port 0 --broker-port 0
    """
    del admin_port  # taken so that scripts need not change when REST comes
    if brokers > 1:
        raise NotSupported(
            "rmq up starts one broker for now.",
            hint="Start more with: rmq broker --name broker-b --port 10921 --store rmq-store/broker-b",
        )
    from rmqspark.cli.serving import run_until_stopped
    from rmqspark.clock import SystemClock
    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.namesrv.server import NameServer

    names = NamesrvConfig(bind_address=host, listen_port=namesrv_port, insecure=insecure)
    flags = {
        "broker_name": _BROKER,
        "bind_address": host,
        "broker_ip1": advertise,
        "listen_port": broker_port,
        "insecure": insecure,
    }
    broker_config, store_config = broker_settings({"min_free_bytes": _FREE_BYTES, **read_config(config)}, flags)

    async def serve(stopped: Any) -> None:
        async with NameServer(names, clock=SystemClock()) as namesrv:
            registered = replace(broker_config, namesrv_addr=namesrv.address)
            async with make_broker(registered, store_config, store / _BROKER) as broker:
                endpoints = store / ENDPOINTS
                _write_atomically(endpoints, json.dumps(_endpoints(namesrv, broker)))
                try:
                    _greet(namesrv, broker, store)
                    await stopped
                finally:
                    endpoints.unlink(missing_ok=True)

    run_until_stopped(serve)


def _endpoints(namesrv: NameServer, broker: Broker) -> Mapping[str, Any]:
    pid = os.getpid()
    return {
        "namesrv": namesrv.address,
        "brokers": [broker.address],
        "admin": None,
        "pids": {"namesrv": pid, "brokers": [pid], "admin": None},
    }


def _greet(namesrv: NameServer, broker: Broker, store: Path) -> None:
    elsewhere = "" if namesrv.address == "127.0.0.1:9876" else f" --namesrv {namesrv.address}"
    print(
        f"name server  {namesrv.address}\n"
        f"broker       {broker.address}  ({broker.name}, files in {store / _BROKER})\n\n"
        f"Try:   rmq send hello world{elsewhere}\n"
        f"       rmq consume hello{elsewhere}\n"
        f"Spark: spark.read.format('rmq').option('namesrv', '{namesrv.address}').load('hello')\n\n"
        "Ctrl-C stops it.",
        flush=True,
    )


def _write_atomically(path: Path, text: str) -> None:
    """Whoever waits for the file finds all of it."""
    draft = path.with_suffix(".tmp")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)
