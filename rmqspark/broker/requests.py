"""Which requests a broker answers: one family of handlers after the other, and the server around them."""

from __future__ import annotations

import os
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from rmqspark.auth.handlers import AclHandlers, UserHandlers, WithoutUsers
from rmqspark.broker.dead_letters import DeadLetters
from rmqspark.broker.delays.asked_delays import AskedDelays
from rmqspark.broker.delays.parked_bulks import ParkedBulks
from rmqspark.broker.handlers.account_copies import AccountCopyHandlers
from rmqspark.broker.handlers.broker_progress import BrokerProgressHandlers
from rmqspark.broker.handlers.bulk_reads import BulkReadHandlers
from rmqspark.broker.handlers.bulk_sends import BulkSendHandlers
from rmqspark.broker.handlers.capabilities import CapabilityHandlers
from rmqspark.broker.handlers.connections import ConnectionHandlers
from rmqspark.broker.handlers.consumer_calls import ConsumerCallHandlers
from rmqspark.broker.handlers.consumer_offsets import ConsumerOffsetHandlers
from rmqspark.broker.handlers.delays import DelayHandlers
from rmqspark.broker.handlers.expiry import ExpiryHandlers
from rmqspark.broker.handlers.groups import GroupHandlers
from rmqspark.broker.handlers.ha_status import HaStatusHandlers
from rmqspark.broker.handlers.leases import LeaseHandlers
from rmqspark.broker.handlers.locks import LockHandlers
from rmqspark.broker.handlers.measuring import MeasuringHandlers
from rmqspark.broker.handlers.messages import MessageHandlers
from rmqspark.broker.handlers.metrics import MetricsHandlers
from rmqspark.broker.handlers.offset_clones import OffsetCloneHandlers
from rmqspark.broker.handlers.on_slaves import refusing_on_slaves
from rmqspark.broker.handlers.progress import ProgressHandlers
from rmqspark.broker.handlers.queries import QueryHandlers
from rmqspark.broker.handlers.queue_entries import QueueEntryHandlers
from rmqspark.broker.handlers.queue_offsets import QueueOffsetHandlers
from rmqspark.broker.handlers.recalls import RecallHandlers
from rmqspark.broker.handlers.replies import ReplyHandlers
from rmqspark.broker.handlers.runtime import RuntimeHandlers
from rmqspark.broker.handlers.send_backs import SendBackHandlers
from rmqspark.broker.handlers.sends import SendHandlers
from rmqspark.broker.handlers.settings import SettingsHandlers
from rmqspark.broker.handlers.statistics import StatisticsHandlers
from rmqspark.broker.handlers.topics import TopicHandlers
from rmqspark.broker.handlers.transactions import TransactionHandlers
from rmqspark.broker.handlers.txn_coordinator import TxnCoordinatorHandlers
from rmqspark.broker.handlers.txn_participant import TxnParticipantHandlers
from rmqspark.broker.progress import Progress
from rmqspark.broker.redelivery import Redelivery
from rmqspark.broker.replica.replicating import SlaveRole
from rmqspark.broker.sending.bulks import BulkIntake, check_target
from rmqspark.broker.sending.intake import Intake
from rmqspark.broker.sending.new_topics import NewTopics
from rmqspark.broker.sending.send_tables import SendTables
from rmqspark.broker.sending.usual_sends import UsualSends
from rmqspark.broker.topic_deletion import TopicDeletion
from rmqspark.protocol.records.message_id import UniqueIds
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.broker.given import Given
    from rmqspark.broker.metrics.broker_metrics import BrokerMetrics
    from rmqspark.broker.parts import Parts
    from rmqspark.remoting.router import Routes

_VIP_PORT_OFFSET: Final = -2


def server_of(given: Given, parts: Parts, metrics: BrokerMetrics) -> RemotingServer:
    """A server that answers all of them, and listens once it is entered."""
    config, receipts = given.config, parts.receipts
    usual = UsualSends(
        config, parts.tables.topics, parts.appender, receipts, max_body_bytes=given.store_config.max_message_size
    )
    bulks = BulkIntake(_parked_bulks(given, parts), checks_bodies=given.config.authorization_enabled)
    families = (
        _about_sends(given, parts, usual, bulks),
        _about_transactions(given, parts, bulks),
        _about_reads(given, parts),
        _about_administration(given, parts),
        [MetricsHandlers(metrics).routes()],
    )
    answered: Iterable[Routes] = chain.from_iterable(families)
    if config.is_slave:
        answered = map(refusing_on_slaves, answered)
    latency = parts.counted.latency
    together = SendTables(usual, parts.appender, receipts, latency)
    server = RemotingServer(
        Router(answered, usual.take_alike, together, latency, parts.guard),
        host=config.bind_address,
        port=config.listen_port,
        limits=given.limits,
        on_close=parts.heartbeats.connection_closed,
        port_offsets=(_VIP_PORT_OFFSET,),
        port_setting="--broker-port",
        insecure=config.insecure,
        tls=config.tls_serving,
    )
    metrics.connections = lambda: server.connection_count
    return server


def _about_sends(given: Given, parts: Parts, usual: UsualSends, bulks: BulkIntake) -> Iterator[Routes]:
    config, clock, entropy = given.config, given.clock, given.entropy
    topics, groups = parts.tables.topics, parts.tables.groups
    intake = Intake(
        config,
        topics,
        groups,
        AskedDelays(config, clock, levels=given.delay_levels, require_room=parts.timed.require_room),
        max_body_bytes=given.store_config.max_message_size,
        unique_ids=UniqueIds(entropy.token(4), os.getpid(), given.whereabouts.ip),
        clock=clock,
        entropy=entropy,
    )
    dead_letters = DeadLetters(groups, parts.tables.locks, parts.counted.dead_letters, clock)
    new_topics = NewTopics(topics, groups, parts.publisher, clock)
    yield SendHandlers(intake, usual, parts.appender, parts.receipts, parts.halves, dead_letters, new_topics).routes()
    yield ReplyHandlers(
        config, intake, parts.appender, parts.receipts, parts.clients, given.whereabouts, clock
    ).routes()
    redelivery = Redelivery(topics, groups, clock, entropy, delay_levels=given.delay_levels)
    yield SendBackHandlers(parts.store, redelivery, parts.appender, parts.publisher, parts.counted).routes()
    yield RecallHandlers(config, topics, parts.appender, parts.timed.require_room, clock).routes()
    yield TransactionHandlers(parts.halves, parts.appender).routes()
    yield BulkSendHandlers(topics, parts.appender, bulks).routes()


def _parked_bulks(given: Given, parts: Parts) -> ParkedBulks:
    return ParkedBulks(
        partial(check_target, parts.tables.topics),
        parts.timed.require_room,
        given.clock,
        levels=given.delay_levels,
        max_delay_ms=given.config.timer_max_delay_sec * 1000,
    )


def _about_transactions(given: Given, parts: Parts, bulks: BulkIntake) -> Iterator[Routes]:
    coordination, resolver, queries, steady = parts.coordination, parts.resolver, parts.queries, given.steady
    yield TxnCoordinatorHandlers(coordination, queries, steady, resolver.held_versions).routes()
    yield TxnParticipantHandlers(
        resolver,
        parts.tables.topics,
        bulks,
        coordination.note_broker,
        max_body_bytes=given.store_config.max_message_size,
    ).routes()
    yield QueryHandlers(queries, coordination.inputs, steady).routes()


def _about_reads(given: Given, parts: Parts) -> Iterator[Routes]:
    config, store, tables = given.config, parts.store, parts.tables
    yield parts.pulls.routes()
    yield BulkReadHandlers(
        config, store, parts.copied, tables.topics, tables.groups, parts.stats, parts.counted.departures, given.clock
    ).routes()
    yield MeasuringHandlers(store).routes()
    yield MessageHandlers(config, store).routes()
    yield QueueOffsetHandlers(store, parts.copied).routes()
    yield QueueEntryHandlers(store, parts.copied, parts.clients).routes()
    yield ConsumerOffsetHandlers(config, store, tables, parts.leases, given.clock).routes()
    yield parts.heartbeats.routes()
    yield LockHandlers(config, tables.locks, tables.topics, tables.groups, given.clock).routes()
    yield LeaseHandlers(parts.leases, tables.locks.lease_ms, parts.coordination.meet, parts.clients.divided_by).routes()


def _about_administration(given: Given, parts: Parts) -> Iterator[Routes]:
    config, clock, store, tables, clients = given.config, given.clock, parts.store, parts.tables, parts.clients
    topics = tables.topics
    deletion = TopicDeletion(tables, store, parts.appender, parts.pulls.held.topic_deleted)
    creations = parts.counted.creations
    yield TopicHandlers(config, topics, parts.publisher, deletion, creations, clock).routes()
    yield GroupHandlers(config, tables, creations, clock).routes()
    progress = Progress(config.broker_name, store, tables.offsets, clients, parts.rates, clock)
    yield ProgressHandlers(store, topics, tables.offsets, clients, progress, parts.statistics).routes()
    yield BrokerProgressHandlers(tables, progress, given.whereabouts).routes()
    yield OffsetCloneHandlers(tables, progress).routes()
    yield ConnectionHandlers(clients, clock).routes()
    yield ConsumerCallHandlers(config.broker_name, store, topics, tables.groups, clients).routes()
    yield DelayHandlers(tables.delays).routes()
    yield SettingsHandlers(parts.settings, given.whereabouts, topics.version).routes()
    timed = None if config.is_slave else parts.timed
    yield RuntimeHandlers(store, parts.stats, tables.delays, timed, clock, given.steady).routes()
    yield ExpiryHandlers(parts.expiry).routes()
    yield StatisticsHandlers(parts.statistics).routes()
    role = parts.role.slave if isinstance(parts.role, SlaveRole) else parts.role.master.slaves
    yield HaStatusHandlers(store, role, most_behind_bytes=config.ha_max_gap_not_in_sync).routes()
    if parts.accounts is None:
        yield WithoutUsers().routes()
    else:
        yield UserHandlers(parts.accounts).routes()
        yield AclHandlers(parts.accounts).routes()
        yield AccountCopyHandlers(parts.accounts, given.entropy.token).routes()
    yield CapabilityHandlers(
        config.broker_name,
        store,
        os.path.abspath(given.store_dir),
        delay_levels=given.delay_levels,
        max_delay_sec=config.timer_max_delay_sec,
        is_slave=config.is_slave,
    ).routes()
