"""The exactly-once guarantee, the driver's side: have the batch decided, and find out what became of it.

Runs in a fresh process for every batch, which knows what the commit messages say and nothing else. A decision may be
asked for as often as need be: the second time it is answered ALREADY_COMMITTED. Where no answer comes at all the
version is closed (`Coordinator.status`), so that a request still under way comes too late; only then may the driver
raise, and Spark run the batch again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from rmqspark.client.cluster.patience import patiently, with_tries
from rmqspark.client.spark.coordinator import Coordinator, Decided, Run
from rmqspark.client.spark.txn import audited_batch
from rmqspark.errors import Busy, RmqError
from rmqspark.fault_points import fault_point
from rmqspark.protocol.bodies.txn import TxnDecision
from rmqspark.protocol.headers.txn import NO_EPOCH, TxnOutcome
from rmqspark.sink.patience import LAST, UNDER_WAY
from rmqspark.sink.rows.checksum import RowChecksum
from rmqspark.sink.transactions.inputs import inputs_of, leased_queues
from rmqspark.sink.transactions.refusals import fenced, in_doubt, not_committed, stale
from rmqspark.sink.transactions.replays import Replay, verdict
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.patience import Another
    from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange
    from rmqspark.sink.transaction_options import TransactionOptions
    from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten


_log = logging.getLogger(__name__)


def commit(client: ClusterClient, transaction: TransactionOptions, messages: Sequence[AttemptWritten]) -> None:
    """Returns when the rows are committed; at once where there was no task, and so no version that could be.

    Raises Fenced, StaleVersion, NotCommitted, InDoubt, ReplayMismatch.
    """
    if not messages:
        return
    speaker = _speaker(messages)
    if any(message.skipped for message in messages):
        _log.warning("Version %d of %s is stale and skipped.", speaker.version, speaker.transactional_id)
        return
    _hear(client, messages)
    total, participants = _total(messages), _participants(messages)
    tries = UNDER_WAY.tries(client.clock)
    read = inputs_of(client, speaker, participants, tries)
    decision = TxnDecision(
        queryId=speaker.query_id,
        participants=participants,
        rows=total.rows,
        bytes=sum(held.bytes for message in messages for held in message.held.values()),
        checksum=str(total.checksum),
        inputs=read,
        topic=messages[0].topic,
        leasedQueues=leased_queues(read),
        ownVersion=transaction.version is not None,
        run=speaker.run,
        batchId=speaker.batch_id,
    )
    decided = _decided(client, speaker, decision, tries)
    _conclude(speaker, decided)
    if decided.decision is not None:
        _compare(client, Replay(speaker, transaction, decision, decided.decision))
    fault_point("after_commit_answered")


def abort(client: ClusterClient, messages: Sequence[AttemptWritten]) -> None:
    """Gives the version up, if any task got as far as writing. What cannot be said now, the brokers find out."""
    writers = [message for message in messages if message.attempt.epoch != NO_EPOCH]
    if not writers:
        return
    fault_point("before_abort")
    speaker = _speaker(writers)
    _hear(client, writers)
    try:
        Coordinator(client, speaker.transactional_id).abort(_run(speaker))
    except RmqError as error:
        _log.warning("Version %d of %s is left to time out: %s", speaker.version, speaker.transactional_id, error)


def _hear(client: ClusterClient, messages: Sequence[AttemptWritten]) -> None:
    """What tasks know of the cluster: this process has asked no name server yet, and there may be none just now."""
    for message in messages:
        client.hear(message.masters)
        if message.coordinator:
            client.coordinators.note(message.attempt.transactional_id, message.coordinator)


def _speaker(messages: Sequence[AttemptWritten]) -> Attempt:
    """One attempt to speak for all: they differ in nothing that counts here but an epoch that some may lack."""
    return max((message.attempt for message in messages), key=lambda attempt: attempt.epoch)


def _run(attempt: Attempt) -> Run:
    return Run(attempt.run, attempt.epoch, attempt.version)


def _total(messages: Sequence[AttemptWritten]) -> RowChecksum:
    total = RowChecksum()
    for message in messages:
        total.merge(message.rows, message.checksum)
    return total


def _participants(messages: Sequence[AttemptWritten]) -> dict[str, list[HeldAttempt]]:
    by_broker: dict[str, list[HeldAttempt]] = {}
    for message in messages:
        for broker_name, held in message.held.items():
            by_broker.setdefault(broker_name, []).append(held)
    return by_broker


def _decided(client: ClusterClient, speaker: Attempt, decision: TxnDecision, tries: Iterator[Another]) -> Decided:
    coordinator = Coordinator(client, speaker.transactional_id)
    fault_point("before_decide")
    try:
        return with_tries(lambda: coordinator.decide(_run(speaker), decision), tries, client.clock)
    except RmqError as error:
        if not error.retriable:
            raise
        failure = error
    try:
        told = patiently(lambda: coordinator.status(_run(speaker)), LAST, client.clock)
    except RmqError as error:
        raise in_doubt(speaker, error) from error
    if told.outcome == TxnOutcome.FENCED and _was_given_up(speaker, failure, told):
        reason = failure.message if isinstance(failure, Busy) else f"{failure.message} {told.remark}".rstrip()
        raise not_committed(speaker, reason) from failure
    return told._replace(remark="")  # which says what this run waits for, and it is another's turn


def _was_given_up(speaker: Attempt, failure: RmqError, told: Decided) -> bool:
    """Whether a version was closed because nobody answered in time, and not because another run has taken over."""
    if told.newest_epoch == NO_EPOCH:  # an earlier broker does not say; one that was busy did not find us fenced
        return isinstance(failure, Busy)
    return told.newest_epoch == speaker.epoch and told.last_version < speaker.version


def _conclude(speaker: Attempt, decided: Decided) -> None:
    match decided.outcome:
        case TxnOutcome.COMMITTED | TxnOutcome.ALREADY_COMMITTED:
            pass
        case TxnOutcome.STALE if speaker.epoch == NO_EPOCH:
            raise stale(speaker, decided.last_version)
        case TxnOutcome.FENCED | TxnOutcome.STALE:  # it was allowed to write, and others have gone on meanwhile
            raise fenced(speaker, decided.remark)
        case _:
            raise not_committed(speaker, decided.remark or f"the coordinator answered {decided.outcome}.")
    if decided.incomplete:
        _log.warning(
            "Version %d of %s is committed; %s that did not answer will have its rows readable later.",
            speaker.version, speaker.transactional_id, counted(decided.incomplete, "broker"),
        )  # fmt: skip


def _compare(client: ClusterClient, replay: Replay) -> None:
    """Raises, or warns, where the batch that was committed under this version is not the one that comes again."""
    if replay.turns_on_inputs and not replay.recorded.inputs:
        inputs = _recorded_inputs(client, replay.attempt)
        replay = replay._replace(recorded=msgspec.structs.replace(replay.recorded, inputs=inputs))
    told = verdict(replay)
    if isinstance(told, RmqError):
        raise told
    if told:
        _log.warning("%s", told)


def _recorded_inputs(client: ClusterClient, speaker: Attempt) -> list[InputRange]:
    """What the batch had read when it was committed, as an audit is told; nothing where that cannot be had."""
    try:
        batch = audited_batch(client, speaker.transactional_id, speaker.version)
    except RmqError as error:
        _log.warning("What version %d of %s had read cannot be found out: %s",
                     speaker.version, speaker.transactional_id, error)  # fmt: skip
        return []
    return [] if batch is None else batch.inputs
