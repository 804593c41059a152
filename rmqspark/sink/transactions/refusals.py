"""What a user is told where a batch is not written: what it means for the data, and the ways on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import Fenced, InDoubt, NotCommitted, ReplayMismatch, StaleVersion
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.errors import RmqError
    from rmqspark.protocol.bodies.txn import TxnDecision
    from rmqspark.sink.transactions.attempt import Attempt

_AGAIN = "Nothing of it is readable, now or later. Start the query again: it runs the batch once more."
_FENCED_BY_SOMEBODY = (
    "If another driver runs on this checkpoint or transactionalId, let that one go on and stop this one; else start "
    "the query again."
)
_TWO_WAYS = (
    "To have its rows written, perhaps a second time, name a new transactionalId. To have all versions up to {} passed "
    "over, whatever rows they have now, set onStaleVersion=skip."
)
_OTHERS_ANEW = (
    "Leave this transactionalId to the write that was committed, for under a new one its rows would be written again, "
    "and give each other write one of its own."
)


def fenced(attempt: Attempt, reason: str = "") -> Fenced:
    """`reason` is what the coordinator says of it; older ones, and those that another run has called, say nothing."""
    return Fenced(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} is closed to this run "
        f"({attempt.run}): {reason or 'another run has taken over, or the batch was given up.'} Nothing that this run "
        "wrote of it is readable, now or later; what was committed before stays.",
        hint="Then start the query again: it runs the batch once more." if reason else _FENCED_BY_SOMEBODY,
    )


def cut_off(attempt: Attempt) -> Fenced:
    """Said by brokers, to a task that is writing; they may know of a decision for another attempt, too."""
    return Fenced(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} takes nothing more of attempt "
        f"{attempt.name} of this run ({attempt.run}): another run has taken over, the batch was given up, or it was "
        "decided without this attempt, of which nothing is readable, now or later.",
        hint=_FENCED_BY_SOMEBODY,
    )


def of_another_query(attempt: Attempt, recorded: TxnDecision) -> StaleVersion:
    who, why = "a write that gives its own versions (transactionVersion)", "it has the id of this query"
    if recorded.queryId not in ("", attempt.query_id):
        who, why = f"another query, {recorded.queryId}", "the checkpoint was deleted, or two queries share the id"
    return StaleVersion(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed by {who}: {why}. "
        "What that one wrote is in its topic; this version was not written, for its rows may be among those.",
        hint=_TWO_WAYS.format(attempt.version),
    )


def of_another_place(attempt: Attempt, story: str) -> StaleVersion:
    return StaleVersion(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed for another batch "
        f"of this number: {story}. The checkpoint has lost its end, was restored from an older copy, or is a copy, and "
        "another query goes on from it, too. What that batch wrote is in its topic; this version was not written, for "
        "its rows may be among those.",
        hint=_TWO_WAYS.format(attempt.version),
    )


def stale(attempt: Attempt, last_version: int) -> StaleVersion:
    return StaleVersion(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} is below the last one that was "
        f"committed, {last_version}: the checkpoint was deleted or restored from an older copy, or version numbers "
        f"began anew. What was written up to version {last_version} is in the topic; this version was not written, "
        "for its rows may be among those.",
        hint=_TWO_WAYS.format(last_version),
    )


def not_committed(attempt: Attempt, reason: str) -> NotCommitted:
    return NotCommitted(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was not committed: {reason}",
        hint=_AGAIN,
    )


def in_doubt(attempt: Attempt, error: RmqError) -> InDoubt:
    return InDoubt(
        f"Whether version {attempt.version} of transactional id {attempt.transactional_id!r} was committed could not "
        f"be found out: {error.message}",
        hint="Nothing is lost or doubled either way. Start the query again once the brokers answer: it goes on behind "
        "the batch, or runs it once more.",
    )


def mismatch(attempt: Attempt, now: TxnDecision, committed: TxnDecision, *, fails: bool) -> ReplayMismatch:
    """`fails`: the write ends with it, as it would each time it is run again."""
    way_on = " To go on with what was committed, set onReplayMismatch=warn." if fails else ""
    return ReplayMismatch(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed with "
        f"{_told(committed)}; run again, it has {_told(now)}. What was committed stays, and nothing was added.",
        hint="Rows that differ from run to run come from rand(), uuid(), current_timestamp(), a changed query, input "
        f"that is no longer there, or, in foreachBatch, a second write under this id.{way_on}",
    )


def of_other_queues(attempt: Attempt, now: TxnDecision, committed: TxnDecision) -> str:
    """Not an error: neither run can know what the other's queues have given."""
    return (
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed with "
        f"{_told(committed)}; run again, it has {_told(now)} of other queues of its shared group, for some were given "
        "to another member in between: the two cannot be compared. What was committed stays, and nothing was added."
    )


def second_write(attempt: Attempt, now: TxnDecision, committed: TxnDecision) -> ReplayMismatch:
    return ReplayMismatch(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed with "
        f"{_told(committed)} before in this very batch, {attempt.batch_id}, of this run of the query; what this write "
        f"has, {_told(now)}, was not written: an id and a version stand for one write.",
        hint=f"{_OTHERS_ANEW} Then start the query again. If this is the same write, made once more, its rows differ "
        "every time (rand(), uuid(), current_timestamp()): start it again as it is.",
    )


def other_topic(attempt: Attempt, topic: str, committed: TxnDecision) -> ReplayMismatch:
    return ReplayMismatch(
        f"Version {attempt.version} of transactional id {attempt.transactional_id!r} was committed to topic "
        f"{committed.topic!r}, so nothing was written to {topic!r}: an id and a version stand for one write.",
        hint=_OTHERS_ANEW,
    )


def _told(decision: TxnDecision) -> str:
    return f"{counted(decision.rows, 'row')} (checksum {decision.checksum})"
