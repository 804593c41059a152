"""A broker: its parts, the order in which they start, and the same reversed (RocketMQ's BrokerController).

    store → tables → flusher, appender → handlers → server → registration

One event loop owns all of it; only fsyncs and the writing of tables leave its thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Self

import structlog

from rmqspark.broker.appender import Appender
from rmqspark.broker.check_back import CheckBack
from rmqspark.broker.clients import ClientRegistry
from rmqspark.broker.consumption import ConsumptionRates
from rmqspark.broker.coordinating import coordination
from rmqspark.broker.expiry_rounds import ExpiryRounds
from rmqspark.broker.flusher import Flusher
from rmqspark.broker.group_deletion import GroupDeletion
from rmqspark.broker.half_messages import HalfMessages
from rmqspark.broker.handlers.bulk import BulkHandlers
from rmqspark.broker.handlers.capabilities import CapabilityHandlers
from rmqspark.broker.handlers.connections import ConnectionHandlers
from rmqspark.broker.handlers.consumer_offsets import ConsumerOffsetHandlers
from rmqspark.broker.handlers.groups import GroupHandlers
from rmqspark.broker.handlers.heartbeats import HeartbeatHandlers
from rmqspark.broker.handlers.leases import LeaseHandlers
from rmqspark.broker.handlers.locks import LockHandlers
from rmqspark.broker.handlers.measuring import MeasuringHandlers
from rmqspark.broker.handlers.messages import MessageHandlers
from rmqspark.broker.handlers.progress import ProgressHandlers
from rmqspark.broker.handlers.pulls import PullHandlers
from rmqspark.broker.handlers.queries import QueryHandlers
from rmqspark.broker.handlers.queue_offsets import QueueOffsetHandlers
from rmqspark.broker.handlers.range_reads import RangeReadHandlers
from rmqspark.broker.handlers.runtime import RuntimeHandlers
from rmqspark.broker.handlers.send_backs import SendBackHandlers
from rmqspark.broker.handlers.sends import SendHandlers
from rmqspark.broker.handlers.settings import SettingsHandlers
from rmqspark.broker.handlers.topics import TopicHandlers
from rmqspark.broker.handlers.transactions import TransactionHandlers
from rmqspark.broker.handlers.txn_coordinator import TxnCoordinatorHandlers
from rmqspark.broker.handlers.txn_participant import TxnParticipantHandlers
from rmqspark.broker.intake import Intake
from rmqspark.broker.participation import participation
from rmqspark.broker.queries import SparkQueries
from rmqspark.broker.receipts import Receipts
from rmqspark.broker.reconcile import reconcile
from rmqspark.broker.registration import BrokerIdentity, Registrar
from rmqspark.broker.send_tables import SendTables
from rmqspark.broker.stats import BrokerStats
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.topic_deletion import TopicDeletion
from rmqspark.broker.topic_publisher import TopicPublisher
from rmqspark.broker.usual_sends import UsualSends
from rmqspark.client.addresses import parse_addresses
from rmqspark.clock import SteadyClock
from rmqspark.errors import InvalidArgument, RmqError
from rmqspark.protocol.message_id import UniqueIds, pack_host
from rmqspark.remoting.address import format_address
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.store.message_store import MessageStore
from rmqspark.txn.half_ledger import CheckRules

if TYPE_CHECKING:
    from types import TracebackType

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.remoting.limits import Limits
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.files import FileSystem
    from rmqspark.store.warming import WarmingPlan

log = structlog.get_logger("rmqspark.broker")

_CLEANING_INTERVAL_MS = 10_000
_CHECK_BACK_INTERVAL_MS = 200
_TRANSACTION_INTERVAL_MS = 1_000
_HOUR_MS = 3_600_000
_HA_PORT_OFFSET = 1
_VIP_PORT_OFFSET = -2


class Broker:
    """Serves while its `async with` block runs.

    Raises StoreLocked, StoreError or DamagedFile for a store that cannot be used, PortInUse, and InvalidArgument for an
    address that is forbidden or that no client could reach.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        store_dir: str | os.PathLike[str],
        files: FileSystem,
        clock: Clock,
        entropy: Entropy,
        limits: Limits | None = None,
    ) -> None:
        self._config = config
        self._store_config = store_config
        self._store_dir = store_dir
        self._files = files
        self._clock = clock
        self._steady = SteadyClock(clock)  # queries that nobody reports time out by it
        self._entropy = entropy
        self._limits = limits
        self._host = advertised_host(config)

    @property
    def name(self) -> str:
        return self._config.broker_name

    @property
    def port(self) -> int:
        """The port clients connect to; it is open from the start of the block on."""
        return self._server.port

    @property
    def address(self) -> str:
        """host:port, as clients are given it."""
        return format_address(self._host, self.port)

    async def __aenter__(self) -> Self:
        """Closing the parts, here and in `__aexit__`, is not told of errors: they are the caller's, not the parts'."""
        self._running = AsyncExitStack()
        try:
            await self._start(self._running)
        except BaseException:
            await self._running.aclose()
            raise
        log.info("broker started", broker=self.name, address=self.address, store=str(self._store_dir))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()
        log.info("broker stopped", broker=self.name)

    async def _start(self, running: AsyncExitStack) -> None:
        """Starts part after part; `running` stops them in the reverse order."""
        store = MessageStore.open(
            self._store_dir, self._store_config, files=self._files, clock=self._clock, entropy=self._entropy
        )
        running.callback(store.close)
        tables = BrokerTables(self._config, self._files.within(self._store_dir), self._clock)
        store.warm_with(_warm)
        writing = running.enter_context(ThreadPoolExecutor(1, thread_name_prefix="log"))
        store.write_beside(lambda work: writing.submit(work).result)
        reconcile(self._config, store, tables, self._clock.now_ms())
        await tables.save()
        running.push_async_callback(tables.save)
        self._assemble(store, tables)
        running.push_async_callback(self._coordination.close)

        tasks = await running.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(self._flusher.run())
        running.callback(self._flusher.close)
        for loop in self._background(tables):
            running.callback(tasks.create_task(loop).cancel)

        self._take_address(store, self._config.listen_port)
        self._halves.recover()
        self._resolver.recover()
        store.look_at_disk(self._clock.now_ms())  # the first round of the clock comes too late for the first message
        await running.enter_async_context(self._server)
        self._take_address(store, self.port)
        running.callback(self._pulls.stop_waiting)

        running.push_async_callback(self._registrar.stop)
        await self._registrar.start(tasks)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _assemble(self, store: MessageStore, tables: BrokerTables) -> None:
        config, store_config, clock, entropy = self._config, self._store_config, self._clock, self._entropy
        topics, groups, offsets = tables.topics, tables.groups, tables.offsets

        self._stats = BrokerStats(now_ms=clock.now_ms())
        self._queries = SparkQueries()
        self._rates = ConsumptionRates(offsets, clock.now_ms())
        self._receipts = Receipts(region_id=config.region_id, trace_on=config.trace_on)
        clients = ClientRegistry(expiry_ms=config.client_expired_time, max_groups=config.max_group_nums)
        self._flusher = Flusher(store, store_config)
        appender = Appender(store, self._flusher, self._stats, sync_flush=store_config.flush_disk_type == "SYNC_FLUSH")
        self._registrar = Registrar(
            parse_addresses(config.namesrv_addr, "namesrv_addr") if config.namesrv_addr else (),
            self._identity,
            topics.registration,
            period_ms=config.register_name_server_period,
            timeout_ms=config.register_broker_timeout_mills,
        )
        publisher = TopicPublisher(tables, self._registrar)
        unique_ids = UniqueIds(entropy.token(4), os.getpid(), store_ip(self._host))
        intake = Intake(
            config,
            topics,
            groups,
            max_body_bytes=store_config.max_message_size,
            unique_ids=unique_ids,
            clock=clock,
            entropy=entropy,
        )

        usual = UsualSends(config, topics, appender, self._receipts, max_body_bytes=store_config.max_message_size)
        self._halves = HalfMessages(
            store,
            appender.append_together,
            topics,
            offsets,
            self._check_rules(),
            clock,
            max_open=config.max_half_messages,
        )
        self._check_back = CheckBack(self._halves, clients, publisher, broker_name=config.broker_name)

        sync_flush = store_config.flush_disk_type == "SYNC_FLUSH"
        self._resolver = participation(
            config,
            store,
            topics,
            self._flusher,
            self._stats,
            clock,
            status_of=lambda *batch: self._coordination.status_of(*batch),  # the two know each other
            sync_flush=sync_flush,
            max_message_bytes=store_config.max_message_size,
        )
        files = self._files.within(self._store_dir)
        self._coordination = coordination(
            config, store_config, store, files, tables, self._flusher, appender, clock, self._resolver
        )

        self._expiry = ExpiryRounds(store, self._flusher, self._needed_offset, clock)

        self._heartbeats = HeartbeatHandlers(
            clients, groups, topics, publisher, clock, property_filter=config.enable_property_filter
        )
        self._pulls = PullHandlers(config, store, topics, groups, clients, offsets, self._stats, clock)
        store.on_readable = self._pulls.messages_arrived
        deletion = TopicDeletion(tables, store, appender, self._pulls.topic_deleted)
        families = (
            SendHandlers(intake, usual, appender, self._receipts, self._halves, topics, groups, publisher, clock),
            SendBackHandlers(groups),
            TransactionHandlers(self._halves, appender),
            TxnCoordinatorHandlers(self._coordination, self._queries, self._steady, self._resolver.held_versions),
            TxnParticipantHandlers(
                self._resolver,
                topics,
                self._coordination.note_broker,
                max_body_bytes=store_config.max_message_size,
            ),
            BulkHandlers(config, store, topics, appender, self._stats),
            RangeReadHandlers(config, store, topics, self._stats),
            MeasuringHandlers(store),
            self._pulls,
            ConsumerOffsetHandlers(config, store, tables, clock),
            QueueOffsetHandlers(store),
            MessageHandlers(config, store),
            self._heartbeats,
            LockHandlers(config, tables.locks, topics, groups, clock),
            LeaseHandlers(config, tables, clock),
            TopicHandlers(config, topics, publisher, deletion, clock),
            GroupHandlers(config, tables, GroupDeletion(tables, clock), clock),
            ProgressHandlers(config, store, topics, offsets, clients, self._rates, clock),
            ConnectionHandlers(clients, clock),
            SettingsHandlers(self._settings_in_force, store_config, topics.version),
            RuntimeHandlers(store, self._stats, clock),
            QueryHandlers(self._queries, self._coordination.inputs, self._steady),
            CapabilityHandlers(store, os.path.abspath(self._store_dir)),
        )
        self._server = RemotingServer(
            Router(
                (family.routes() for family in families), usual.take_alike, SendTables(usual, appender, self._receipts)
            ),
            host=config.bind_address,
            port=config.listen_port,
            limits=self._limits,
            on_close=self._heartbeats.connection_closed,
            port_offsets=(_VIP_PORT_OFFSET,),
            port_setting="--broker-port",
            insecure=config.insecure,
        )

    def _background(self, tables: BrokerTables) -> list[Coroutine[Any, Any, None]]:
        """What goes on beside the requests."""
        every = self._every
        return [
            every(self._pulls.scan_interval_ms, self._pulls.scan),
            every(_CLEANING_INTERVAL_MS, self._heartbeats.expire),
            every(_CLEANING_INTERVAL_MS, lambda: tables.locks.expire(self._clock.monotonic_ms())),
            every(_CLEANING_INTERVAL_MS, lambda: self._queries.expire(self._steady.now_ms())),
            every(_CLEANING_INTERVAL_MS, lambda: self._rates.sample(self._clock.now_ms())),
            every(_CLEANING_INTERVAL_MS, lambda: self._stats.sample(self._clock.now_ms())),
            every(_CLEANING_INTERVAL_MS, self._expiry.run),
            every(_CHECK_BACK_INTERVAL_MS, self._check_back.run_round),
            every(_TRANSACTION_INTERVAL_MS, self._resolver.check_back),
            every(_TRANSACTION_INTERVAL_MS, self._coordination.tick),
            every(self._config.flush_consumer_offset_interval, tables.save),
        ]

    async def _every(self, interval_ms: int, action: Callable[[], Awaitable[None] | object]) -> None:
        """A round that fails because of the disk, or for want of memory, is logged; the next one tries again."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                outcome = action()
                if isinstance(outcome, Awaitable):
                    await outcome
            except (OSError, RmqError, MemoryError) as error:
                log.error("a round of the broker's clock failed", error=str(error))

    # --- small steps -------------------------------------------------------------------------------------------------

    def _needed_offset(self) -> int:
        """Physical offset from which on transactions need the log, as things are now."""
        needed = (self._coordination.needed_offset, self._resolver.needed_offset())
        return min(offset for offset in needed if offset is not None)

    def _take_address(self, store: MessageStore, port: int) -> None:
        host = pack_host(store_ip(self._host), port)
        store.set_store_host(host)
        self._receipts.set_store_host(host)
        self._halves.set_store_host(host)
        self._check_back.set_store_host(host)

    def _check_rules(self) -> CheckRules:
        config = self._config
        return CheckRules(
            timeout_ms=config.transaction_time_out,
            interval_ms=config.transaction_check_interval,
            max_checks=config.transaction_check_max,
            reserved_ms=self._store_config.file_reserved_time * _HOUR_MS,
        )

    def _settings_in_force(self) -> BrokerConfig:
        """The settings, where they left a choice with what was chosen."""
        return replace(
            self._config,
            listen_port=self.port,
            broker_ip1=self._host,
            auto_create_topic_enable=self._config.auto_creates_topics,
        )

    def _identity(self) -> BrokerIdentity:
        config = self._config
        return BrokerIdentity(
            config.broker_name,
            config.broker_id,
            config.broker_cluster_name,
            self.address,
            format_address(self._host, self.port + _HA_PORT_OFFSET),
        )


def advertised_host(config: BrokerConfig) -> str:
    """The host that clients are told. Raises InvalidArgument where none follows from the settings."""
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address in ("0.0.0.0", "::", ""):
        raise InvalidArgument(
            f"A broker that listens on {config.bind_address!r} must be told under which host clients reach it.",
            hint="Set broker_ip1 (--advertise).",
        )
    return config.bind_address


def store_ip(host: str) -> str:
    """The IPv4 address that stands in records and message ids; 0.0.0.0 where the broker is known by a name or IPv6."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(IPv4Address(host))
    except ValueError:
        return "0.0.0.0"


def _warm(plan: WarmingPlan) -> None:
    """Runs it in a thread. Where none can be had it is left out: what has just been appended is stored all the same."""
    with suppress(RuntimeError):
        asyncio.get_running_loop().run_in_executor(None, plan.run)
