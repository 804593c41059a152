"""What a broker needs to coordinate transactions, made of its own parts; see `txn/coordinator/coordination.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.txn.coordinator.coordination import Coordination, CoordinationConfig
from rmqspark.txn.coordinator.peers import Peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.given import Given
    from rmqspark.broker.safekeeping.safety import Safety
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.shared_groups.group_leases import GroupLeases
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.txn import InputRange
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.input_offsets import CommitHere
    from rmqspark.txn.ports import ParticipantHere

_RESTATED_GROWS_BYTES: Final = 4_096  # beside the output ranges
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000


def coordination(
    given: Given,
    store: MessageStore,
    tables: BrokerTables,
    safety: Safety,
    appender: Appender,
    participant_here: ParticipantHere,
    leases: GroupLeases,
) -> Coordination:
    """A coordinator with its ledger replayed. Raises DamagedFile for a ledger that cannot be read."""
    config, store_config, clock = given.config, given.store_config, given.clock
    return Coordination(
        CoordinationConfig(
            max_open_ms=config.transaction_max_open * _MINUTE_MS,
            expiration_ms=config.transactional_id_expiration * _DAY_MS,
            max_decision_bytes=store_config.max_message_size - _RESTATED_GROWS_BYTES,
            restate_after_bytes=store_config.mapped_file_size_commit_log,
        ),
        store,
        given.files,
        clock,
        peers=Peers(config.broker_name, given.name_servers, config.access, config.retired),
        append=appender.append_together,
        flush_to=safety.flushed,
        participant_here=participant_here,
        commit_here=_committing(store, tables, clock, leases),
        leases_here=leases,
    )


def _committing(store: MessageStore, tables: BrokerTables, clock: Clock, leases: GroupLeases) -> CommitHere:
    """Moves groups forward behind what was read of this broker's queues, never back and never beyond their ends, nor in
    another topic than the one that was read. That is in the log, as the decision is: what comes later there, that it is
    complete, say, cannot outlive it."""

    def check(read: InputRange) -> None:
        tables.groups.find_or_create(read.group, clock.now_ms())
        store.deletions.require_not_remade(read.topic, read.topicDeleted)  # first: of a deleted topic it is over
        tables.topics.require_readable(read.topic, read.queueId)

    def commit(reads: Sequence[InputRange]) -> list[tuple[InputRange, RmqError]]:
        refused: list[tuple[InputRange, RmqError]] = []
        by_group: dict[str, list[InputRange]] = {}
        for read in reads:
            try:
                check(read)
            except RmqError as error:
                refused.append((read, error))
            else:
                by_group.setdefault(read.group, []).append(read)
        for group, allowed in by_group.items():
            try:
                leases.follow(group, _ends(allowed))
            except RmqError as error:
                refused += [(read, error) for read in allowed]
        return refused

    return commit


def _ends(reads: Sequence[InputRange]) -> dict[MessageQueue, int]:
    """Up to where each queue was read."""
    ends: dict[MessageQueue, int] = {}
    for read in reads:
        queue = MessageQueue(read.topic, read.brokerName, read.queueId)
        ends[queue] = max(read.toOffset, ends.get(queue, 0))
    return ends
