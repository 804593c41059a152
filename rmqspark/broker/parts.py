"""What a broker is made of, and which part knows which; nothing is started yet.

    store, tables → flusher, appender → half messages, delays, transactions → those who act by request and by the clock

A part is handed exactly the parts it uses. What is about all of them lies over them: the families of requests
(`requests.py`), what is done by the clock (`rounds.py`), and the figures of operators (`metrics/broker_metrics.py`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.broker.access_control import accounts_of, check_pull_again, guard_of, may_hear
from rmqspark.broker.clients import ClientRegistry
from rmqspark.broker.consumption import ConsumptionRates
from rmqspark.broker.delays.delayed_messages import DelayedMessages
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.timed_messages import TimedMessages
from rmqspark.broker.handlers.heartbeats import HeartbeatHandlers
from rmqspark.broker.handlers.pulls import PullHandlers
from rmqspark.broker.metrics.counted import Counted
from rmqspark.broker.metrics.statistics import Statistics
from rmqspark.broker.pulling.pull_permits import PullPermits
from rmqspark.broker.queries import SparkQueries
from rmqspark.broker.registration import Registrar
from rmqspark.broker.replica.copied_queues import CopiedQueues
from rmqspark.broker.replica.replicating import MasterRole, SlaveRole
from rmqspark.broker.safekeeping.expiry_rounds import ExpiryRounds
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.safekeeping.safety import Safety
from rmqspark.broker.sending.appender import Appender
from rmqspark.broker.sending.bulks import check_target
from rmqspark.broker.sending.receipts import Receipts
from rmqspark.broker.settings_in_force import SettingsInForce
from rmqspark.broker.shared_groups.group_leases import GroupLeases
from rmqspark.broker.shared_groups.offset_log import OffsetLog
from rmqspark.broker.shared_groups.orphaned_leases import OrphanedLeases
from rmqspark.broker.state.lost_topics import LostTopics
from rmqspark.broker.stats import BrokerStats
from rmqspark.broker.topic_publisher import TopicPublisher
from rmqspark.broker.transactions.check_back import CheckBack
from rmqspark.broker.transactions.coordinating import coordination
from rmqspark.broker.transactions.half_messages import HalfMessages
from rmqspark.broker.transactions.half_progress import HalfProgress
from rmqspark.broker.transactions.participation import participation
from rmqspark.txn.half_messages.half_ledger import CheckRules, HalfLedger

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.given import Given
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.message_store import MessageStore

_HOUR_MS: Final = 3_600_000


class Parts:
    """Made from the bottom up. Raises DamagedFile for a ledger that cannot be read."""

    def __init__(self, given: Given, store: MessageStore, tables: BrokerTables) -> None:
        config, clock, topics = given.config, given.clock, tables.topics
        self.store = store
        self.copied = CopiedQueues(store, is_slave=config.is_slave)
        self.tables = tables
        self.accounts = accounts_of(config, given.files)
        self.stats = BrokerStats(now_ms=given.steady.now_ms())
        self.counted = Counted(config, store, clock)
        self.queries = SparkQueries()
        self.rates = ConsumptionRates(tables.offsets, clock.monotonic_ms())
        self.clients = ClientRegistry(expiry_ms=config.client_expired_time, max_groups=config.max_group_nums)
        self.receipts = Receipts(region_id=config.region_id, trace_on=config.trace_on)
        self.registrar = _registrar(given, topics)
        self.publisher = TopicPublisher(tables, self.registrar)
        self.lost_topics = LostTopics(config, store, topics, tables.groups, clock, self.publisher.hurry)

        self.flusher = Flusher(store, given.store_config)
        self.role: MasterRole | SlaveRole
        if config.is_slave:
            self.role = slave = SlaveRole(given, store, self.flusher, tables, self.accounts)
            self.registrar.on_registered = slave.registered
        else:
            self.role = MasterRole(given, store, tables, self.accounts)
        self.safety = Safety(self.flusher, sync_flush=given.store_config.syncs_flush, replicas=self.role.waiters)
        self.appender = Appender(store, self.safety, self.stats, self.counted)
        self.offset_log = OffsetLog(
            store, tables.offsets, clock, append=self.appender.append_together, flush_to=self.safety.flushed
        )
        self.leases = GroupLeases(config.broker_name, tables, self.offset_log, clock)
        if not config.is_slave:
            self.offset_log.replay()

        self.halves = HalfMessages(
            store,
            self.appender.append_together,
            topics,
            self.lost_topics.find,
            HalfLedger(_check_rules(config, given.store_config), max_open=config.max_half_messages),
            HalfProgress(store, tables.offsets),
            clock,
            self.counted,
        )
        self.check_back = CheckBack(
            self.halves,
            self.clients,
            self.publisher,
            lambda producer, topic: may_hear(self.guard, producer, topic),  # it is made of what comes below
            broker_name=config.broker_name,
        )

        self.deliveries = Deliveries(store, self.appender.append_together, self.lost_topics.find, self.counted.arrivals)
        self.delays = DelayedMessages(store, self.deliveries, tables.delays, clock, given.delays_ms)
        self.timed = TimedMessages(store, self.deliveries, tables.timer, clock, self.counted.timers)

        self.resolver = participation(
            given,
            store,
            self.safety,
            check_target=self._check_target,
            on_appended=self.stats.count_puts,
            status_of=lambda *batch: self.coordination.status_of(*batch),  # the two know each other
        )
        self.coordination = coordination(given, store, tables, self.safety, self.appender, self.resolver, self.leases)
        self.leases.moving = self.coordination.following.moving
        self.orphaned_leases = OrphanedLeases(
            store,
            tables,
            self.leases,
            self.coordination.peers,
            self.coordination.owners.seen,
            self.coordination.group_offsets,
            clock,
        )
        self.guard = guard_of(config, self.accounts, store, self.coordination.inputs)
        self.expiry = ExpiryRounds(store, self.flusher, self.needed_offset, clock, self._spared_offset)

        self.heartbeats = HeartbeatHandlers(
            self.clients, tables.groups, topics, self.publisher, clock, property_filter=config.enable_property_filter
        )
        self.pulls = PullHandlers(
            config,
            store,
            PullPermits(topics, tables.groups, self.clients, clock, property_filter=config.enable_property_filter),
            tables.offsets,
            self.stats,
            self.counted.departures,
            clock,
            partial(check_pull_again, self.guard),
        )
        store.on_readable = self.pulls.held.messages_arrived
        self._clock = clock
        self.settings = SettingsInForce(config, given.store_config, self._adopt)
        self.statistics = Statistics(config.broker_cluster_name, self.counted, self.stats, tables, clock.monotonic_ms())

    def needed_offset(self) -> int:
        """Physical offset from which on transactions and delayed messages need the log, as things are now. A slave
        does not know: it spares what its master has."""
        if isinstance(self.role, SlaveRole):
            return self.store.end_offset
        waiting = (self.halves.needed_offset, self.delays.needed_offset, self.timed.needed_offset)
        needed = (self.coordination.needed_offset, self.resolver.needed_offset(), *waiting)
        return min(offset for offset in needed if offset is not None)

    def _check_target(self, topic: str, queue_id: int) -> None:
        """Of half batches whose topic nobody has deleted."""
        self.lost_topics.restore(topic, queue_id + 1)
        check_target(self.tables.topics, topic, queue_id)

    def _spared_offset(self) -> int | None:
        return self.store.replica.spared_offset if isinstance(self.role, SlaveRole) else None

    def _adopt(self, config: BrokerConfig, store_config: StoreConfig) -> None:
        """All that goes by a setting that is `live`."""
        self.pulls.adopt(config)
        self.flusher.adopt(store_config)
        self.store.adopt(store_config)
        self.store.look_at_disk(self._clock.now_ms())

    def set_store_host(self, host: bytes) -> None:
        """The host field of records and message ids from now on."""
        self.store.set_store_host(host)
        self.receipts.set_store_host(host)


def _registrar(given: Given, topics: TopicTable) -> Registrar:
    config = given.config
    return Registrar(
        given.name_servers,
        given.whereabouts.identity,
        topics.registration,
        period_ms=config.register_name_server_period,
        timeout_ms=config.register_broker_timeout_mills,
        access=config.access,
    )


def _check_rules(config: BrokerConfig, store_config: StoreConfig) -> CheckRules:
    return CheckRules(
        timeout_ms=config.transaction_time_out,
        interval_ms=config.transaction_check_interval,
        max_checks=config.transaction_check_max,
        reserved_ms=store_config.file_reserved_time * _HOUR_MS,
    )
