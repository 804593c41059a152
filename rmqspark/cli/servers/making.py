"""Name server, broker, REST and console as they are run: over the real clock, randomness and files."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.open_files import limits_within, store_within
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from rmqspark.admin.config import AdminConfig
    from rmqspark.broker.broker import Broker
    from rmqspark.cli.servers.setting_flags import Sources
    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.namesrv.server import NameServer


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


@asynccontextmanager
async def administration(config: AdminConfig, namesrv: str | None) -> AsyncIterator[str]:
    """REST and console while the block runs; gives their URL."""
    from rmqspark.admin.app import make_app
    from rmqspark.admin.server import serving
    from rmqspark.clock import SystemClock
    from rmqspark.settings import by_name

    app = make_app(config, namesrv, SystemClock(), by_name(BrokerConfig, StoreConfig))
    async with serving(app, config) as url:
        yield url
