"""The name server: parts list, start, stop (RocketMQ's NamesrvController)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import structlog

from rmqspark.auth.accounts import Accounts
from rmqspark.auth.guard import Guard
from rmqspark.auth.handlers import AclHandlers, UserHandlers
from rmqspark.auth.needs import Here
from rmqspark.clock import Punctuality
from rmqspark.namesrv.handlers.brokers import BrokerHandlers
from rmqspark.namesrv.handlers.config import ConfigHandlers
from rmqspark.namesrv.handlers.kv import KvHandlers
from rmqspark.namesrv.handlers.routes import RouteHandlers
from rmqspark.namesrv.handlers.topics import TopicHandlers
from rmqspark.namesrv.kv_table import KvTable
from rmqspark.namesrv.route_table import RouteTable
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer

if TYPE_CHECKING:
    from types import TracebackType

    from rmqspark.clock import Clock
    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.remoting.limits import Limits
    from rmqspark.remoting.request import Connection
    from rmqspark.store.files import FileSystem

log = structlog.get_logger("rmqspark.namesrv")


class NameServer:
    """Serves while its `async with` block runs. Raises PortInUse, or InvalidArgument for a forbidden address.

    `files` is where its users are kept; without, it has those of its settings, and answers no request about users.
    Raises DamagedFile where they cannot be read.
    """

    def __init__(
        self, config: NamesrvConfig, *, clock: Clock, limits: Limits | None = None, files: FileSystem | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        accounts = _accounts_of(config, files)
        self._table = RouteTable(max_brokers=config.max_brokers, max_topics=config.max_topics)
        kv = KvTable(config.max_kv_configs)
        guard = None if accounts is None else Guard(config, accounts, Here())
        families = (
            RouteHandlers(self._table, kv, config),
            BrokerHandlers(self._table, kv, config, clock, *(() if guard is None else (guard.user_of,))),
            TopicHandlers(self._table, config),
            KvHandlers(kv),
            ConfigHandlers(config),
            *(() if accounts is None or files is None else (UserHandlers(accounts), AclHandlers(accounts))),
        )
        self._server = RemotingServer(
            Router((family.routes() for family in families), guard=guard),
            host=config.bind_address,
            port=config.listen_port,
            limits=limits,
            on_close=self._connection_closed,
            port_setting="--namesrv-port",
            insecure=config.insecure,
            tls=config.tls_serving,
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(self._server)
            tasks = await starting.enter_async_context(asyncio.TaskGroup())
            starting.callback(tasks.create_task(self._scan()).cancel)
            self._running = starting.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()  # not told of the block's own errors: a TaskGroup would wrap them

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def address(self) -> str:
        """host:port, as clients are given it."""
        return self._server.address

    def knows(self, broker_name: str) -> bool:
        """Whether a broker of that name is registered now."""
        return self._table.broker(broker_name) is not None

    def expire(self, deaf_ms: int = 0) -> None:
        """Drops brokers that have been silent for too long, but for the last `deaf_ms`, in which nobody could be heard,
        and their connections. Runs by itself every few seconds."""
        now_ms = self._clock.monotonic_ms()
        self._table.excuse(deaf_ms, now_ms)
        for broker in self._table.expire(now_ms):
            log.warning("broker expired", broker=broker.name, address=broker.address, timeout_ms=broker.timeout_ms)
            self._server.close_connection(broker.connection_id, "its broker expired")

    async def _scan(self) -> None:
        interval_ms = self._config.scan_not_active_broker_interval
        rounds = Punctuality(self._clock, interval_ms)
        while True:
            await asyncio.sleep(interval_ms / 1000)
            self.expire(rounds.late_ms())

    def _connection_closed(self, connection: Connection) -> None:
        for broker in self._table.connection_closed(connection.id):
            log.info("broker gone", broker=broker.name, address=broker.address, reason="its connection closed")


def _accounts_of(config: NamesrvConfig, files: FileSystem | None) -> Accounts | None:
    """None where everybody is served."""
    if not config.authentication_enabled:
        return None
    if files is not None:
        files.make_root()
    accounts = Accounts(files, "")
    accounts.found(config.first_users)
    return accounts
