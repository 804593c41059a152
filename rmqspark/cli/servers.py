"""`rmq namesrv` and `rmq broker`: the two servers as processes of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.options import Namesrv, with_settings
from rmqspark.errors import InvalidArgument
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.settings import describe, load, parse_file, snake_case
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    from rmqspark.broker.broker import Broker

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings: TOML, or a stock RocketMQ broker.conf as it is.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")]
Advertise = Annotated[str | None, typer.Option(help="Host that clients are told (RocketMQ's brokerIP1).")]
_SAID_OTHERWISE = frozenset(
    {"listen_port", "broker_name", "broker_cluster_name", "broker_id", "bind_address", "broker_ip1", "namesrv_addr"}
)
# In a stock broker.conf, but said here by --store, or meant for parts that a single master does not have.
_STORE_KEYS = frozenset({"store_path_root_dir", "store_path_commit_log"})
DEFAULT_STORE = Path("rmq-store")
_Config = TypeVar("_Config")


@with_settings(NamesrvConfig, leave_out=frozenset({"listen_port", "bind_address"}))
def namesrv(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 9876; 0 takes any free one.")] = None,
    host: Host = None,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Runs a name server until Ctrl-C.

    Example: rmq namesrv --port 9876
    """
    file = read_config(config)
    flags = {**settings, "listen_port": port, "bind_address": host}
    chosen = load(
        NamesrvConfig, file=file, environment=os.environ, flags=flags, known_elsewhere=_names(BrokerConfig, StoreConfig)
    )
    from rmqspark.cli.serving import run_until_stopped
    from rmqspark.clock import SystemClock
    from rmqspark.namesrv.server import NameServer

    async def serve(stopped: Any) -> None:
        async with NameServer(chosen, clock=SystemClock()) as server:
            print(f"Name server at {server.address}. Ctrl-C stops it.", flush=True)
            await stopped

    run_until_stopped(serve)


@with_settings(BrokerConfig, StoreConfig, leave_out=_SAID_OTHERWISE)
def broker(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 10911; port - 2 is opened too.")] = None,
    store: Annotated[Path | None, typer.Option(help="Directory of the store. Default: rmq-store/NAME.")] = None,
    name: Annotated[str | None, typer.Option(help="Default: broker-a.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Default: DefaultCluster.")] = None,
    id_: Annotated[int | None, typer.Option("--id", min=0, help="0 is the master. Default: 0.")] = None,
    host: Host = None,
    advertise: Advertise = None,
    namesrv: Namesrv = None,
    config: ConfigFile = None,
    *,
    settings: Mapping[str, Any],
) -> None:
    """Runs one broker until Ctrl-C.

    Example: rmq broker --name broker-b --port 10921 --store /data/b --namesrv "10.0.0.1:9876;10.0.0.2:9876"
    """
    from rmqspark.client.addresses import resolve_namesrv

    file = read_config(config)
    named = {
        "listen_port": port,
        "broker_name": name,
        "broker_cluster_name": cluster,
        "broker_id": id_,
        "bind_address": host,
        "broker_ip1": advertise,
        "namesrv_addr": namesrv or (None if "namesrv_addr" in file else resolve_namesrv(None)),
    }
    broker_config, store_config = broker_settings(file, {**settings, **named})
    directory = store or Path(file.get("store_path_root_dir", DEFAULT_STORE / broker_config.broker_name))
    from rmqspark.cli.serving import run_until_stopped

    async def serve(stopped: Any) -> None:
        async with make_broker(broker_config, store_config, directory) as server:
            print(f"Broker {server.name} at {server.address}, store {directory}. Ctrl-C stops it.", flush=True)
            await stopped

    run_until_stopped(serve)


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a file, keys in snake_case; nothing where no file is named."""
    if path is None:
        return {}
    try:
        return parse_file(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"Settings file {path} cannot be read: {error}.") from None


def broker_settings(file: Mapping[str, Any], flags: Mapping[str, Any]) -> tuple[BrokerConfig, StoreConfig]:
    """Broker's and store's settings from one file, the environment and flags."""
    return _settings(BrokerConfig, StoreConfig, file, flags), _settings(StoreConfig, BrokerConfig, file, flags)


def make_broker(broker_config: BrokerConfig, store_config: StoreConfig, directory: Path) -> Broker:
    """A broker over the real clock, randomness and files."""
    from rmqspark.broker.broker import Broker
    from rmqspark.clock import SystemClock
    from rmqspark.entropy import SystemEntropy
    from rmqspark.store.files import PosixFileSystem

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Broker(
        broker_config,
        store_config,
        store_dir=directory,
        files=PosixFileSystem(directory),
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )


def _settings(kind: type[_Config], other: type, file: Mapping[str, Any], flags: Mapping[str, Any]) -> _Config:
    own = _names(kind)
    given = {name: value for name, value in flags.items() if name in own}
    elsewhere = _names(other, NamesrvConfig) | _STORE_KEYS
    return load(kind, file=file, environment=os.environ, flags=given, known_elsewhere=elsewhere)


def _names(*kinds: type) -> frozenset[str]:
    return frozenset(snake_case(info.name) for kind in kinds for info in describe(kind))
