"""A broker's part in replication: it has slaves, or is one (RocketMQ's HAService, SlaveSynchronize).

A master listens for slaves and, as SYNC_MASTER, lets senders wait for them. A slave learns from its name servers who
its master is, follows its log and takes over its tables; it serves reads and takes nothing else: no messages, no delays
delivered, no transactions decided. Which of the two a broker is its operator says; nobody is promoted by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.broker.replica.account_sync import AccountSync
from rmqspark.broker.replica.log_keeper import LogKeeper
from rmqspark.broker.replica.replica_waiters import ReplicaWaiters
from rmqspark.broker.replica.table_sync import TableSync
from rmqspark.errors import PortInUse
from rmqspark.protocol.names import CHECK_GROUP
from rmqspark.remoting.address import is_loopback
from rmqspark.remoting.tls.serving import ServerTls
from rmqspark.replication.admission import Admission, PeerCheck
from rmqspark.replication.introduction import Introduction, WayToMaster
from rmqspark.replication.master import Master
from rmqspark.replication.registered import RegisteredSlaves
from rmqspark.replication.settings import HaSettings
from rmqspark.replication.slave import Slave

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.auth.accounts import Accounts
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.given import Given
    from rmqspark.broker.safekeeping.flusher import Flusher
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.protocol.headers.cluster import RegisterBrokerResponseHeader
    from rmqspark.store.message_store import MessageStore

_PORTS: Final = 1 << 16
_SEEKING_S: Final = 3.0  # between two looks for a master that cannot be reached
_FIRST_LOOKS_MS: Final = 1_000  # between looks at the tables of a master that has not said yet whose copy this is

log = structlog.get_logger("rmqspark.broker")


class MasterRole:
    """What a master does for its slaves. `waiters` is None where senders do not wait for them."""

    def __init__(self, given: Given, store: MessageStore, tables: BrokerTables, accounts: Accounts | None) -> None:
        config = given.config
        self._running = AsyncExitStack()
        self._whereabouts = given.whereabouts
        self._store = store
        self._config = config
        if store.lineage.end_following():
            log.warning("this store was a slave's, it is a master's now", incarnation=store.incarnation)
            if not store.lineage.is_known:
                log.error(
                    "its master never told it topics, groups and offsets: what its log says of them is all there is",
                    hint="Topics come back with their messages, and with the queues that these need: make the others.",
                )
        tables.locks.begin_term(store.lineage.successions)
        self.master = Master(
            store,
            given.store_config.mapped_file_size_commit_log,
            ha_settings(config),
            host=config.bind_address,
            port=0,
            admission=_admission(given, accounts),
            on_ack=self._slave_confirmed,
        )
        self.waiters = None
        if config.waits_for_slaves:
            self.waiters = ReplicaWaiters(
                self.master.slaves,
                wanted=config.in_sync_replicas - 1,
                timeout_s=config.slave_timeout / 1000,
                most_behind_bytes=config.ha_max_gap_not_in_sync,
            )

    async def listen(self, broker_port: int) -> None:
        """Opens the port for slaves. Raises PortInUse for one that was asked for by name."""
        wanted = self._config.ha_listen_port
        self.master.port = wanted if wanted is not None else (broker_port + 1) % _PORTS  # 0 is any
        try:
            await self._running.enter_async_context(self.master)
        except PortInUse:
            if wanted is not None:
                raise
            log.warning("the port for slaves is another one: its usual one is in use", usual=self.master.port)
            self.master.port = 0  # slaves are told by the name servers
            await self._running.enter_async_context(self.master)
        self._whereabouts.ha_port = self.master.port
        self._store.on_safe = self.master.log_grew

    async def stop(self) -> None:
        """Hangs up on slaves. To be called when all senders have been answered."""
        await self._running.aclose()
        if self.waiters is not None:
            self.waiters.close()

    def _slave_confirmed(self) -> None:
        if self.waiters is not None:
            self.waiters.slave_confirmed()


class SlaveRole:
    """What a slave does: it follows its master's log and tables."""

    waiters = None

    def __init__(
        self, given: Given, store: MessageStore, flusher: Flusher, tables: BrokerTables, accounts: Accounts | None
    ) -> None:
        store.replica.open_for_master()
        tables.offsets.forget_group(CHECK_GROUP)  # the master says anew which half messages have ended
        config = given.config
        self._ha_master_address = config.ha_master_address
        self._lineage = store.lineage
        self._sync_interval_ms = config.slave_sync_interval
        self.tables = TableSync(
            config.broker_name,
            tables,
            store,
            lambda: self.slave.is_connected,
            given.clock,
            config.access,
            None if accounts is None else AccountSync(accounts, config.access, given.entropy.token),
        )
        keeper = LogKeeper(given, flusher, tables, self.tables)
        self.slave = Slave(store.replica, ha_settings(config), _way_to_master(given), keeper, given.clock.now_ms)
        self.slave.follow(self._ha_master_address)

    @property
    def look_interval_ms(self) -> int:
        """Between two looks at the master's tables; short until one was through, for made the master before, this
        broker would know neither topics nor groups."""
        return self._sync_interval_ms if self._lineage.is_known else min(_FIRST_LOOKS_MS, self._sync_interval_ms)

    async def stop(self) -> None:
        """Asks the master no more."""
        await self.tables.close()

    def registered(self, answer: RegisterBrokerResponseHeader) -> None:
        """A name server says who the master is. As long as the log of one comes, nothing is taken of another: neither
        tables nor whose copy this is would go with it. When the connection ends it is heard of again (`seek`)."""
        if self.slave.is_connected and self._is_another(answer.haServerAddr):
            return
        if answer.masterAddr:
            self.tables.master = answer.masterAddr
        if answer.haServerAddr and not self._ha_master_address:
            self.slave.follow(answer.haServerAddr)

    def _is_another(self, ha_address: str | None) -> bool:
        return bool(ha_address) and not self._ha_master_address and ha_address != self.slave.master

    async def seek(self, register: Callable[[], None]) -> None:
        """Registers again and again while no master is connected: that is how a slave hears of a new one."""
        while True:
            await asyncio.sleep(_SEEKING_S)
            if not self.slave.is_connected:
                register()


def ha_settings(config: BrokerConfig) -> HaSettings:
    """How master and slave talk, as the broker is told."""
    return HaSettings(
        heartbeat_s=config.ha_send_heartbeat_interval / 1000,
        retry_s=config.ha_send_heartbeat_interval / 1000,
        housekeeping_s=config.ha_housekeeping_interval / 1000,
        transfer_bytes=config.ha_transfer_batch_size,
        sends_whole_log=config.ha_send_whole_log,
    )


def _admission(given: Given, accounts: Accounts | None) -> Admission:
    """Who is sent the log. Raises InvalidArgument for TLS' files."""
    config = given.config
    serving = config.tls_serving if config.ha_tls_enable else None
    registered = RegisteredSlaves(config.broker_name, given.name_servers, config.access)

    check = None
    if accounts is not None and config.peer_credentials is not None:
        check = PeerCheck(config.broker_name, accounts.password_of_super, given.entropy.token)

    async def slaves_at(host: str) -> int:
        if is_loopback(host):
            return 1 if check is not None else max(1, await registered.count_at(host))
        return await registered.count_at(host)

    return Admission(slaves_at, tls=ServerTls(serving) if serving else None, check=check)


def _way_to_master(given: Given) -> WayToMaster:
    config = given.config
    credentials, introduction = config.peer_credentials, None
    if credentials is not None:
        introduction = Introduction(config.broker_name, config.broker_id, credentials, given.entropy.token)
    return WayToMaster(config.tls_client if config.ha_tls_enable else None, introduction)
