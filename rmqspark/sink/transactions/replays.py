"""A batch that comes again under a version that was committed: whether it is the same one, and what its user is told
where it is not. Pure: what there is to know is given.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.protocol.bodies.txn import last_ranges
from rmqspark.sink.transactions.refusals import (
    mismatch,
    of_another_place,
    of_another_query,
    of_other_queues,
    other_topic,
    second_write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.errors import RmqError
    from rmqspark.protocol.bodies.txn import InputRange, TxnDecision
    from rmqspark.sink.transaction_options import TransactionOptions
    from rmqspark.sink.transactions.attempt import Attempt

_SPARKS_RUN: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Replay(NamedTuple):
    """What a write would add `now`, and what was `recorded` when its version was committed."""

    attempt: Attempt
    options: TransactionOptions
    now: TxnDecision
    recorded: TxnDecision

    @property
    def is_for_another_topic(self) -> bool:
        """Whether its rows are for another topic. Of rows that say their own nothing is known."""
        now, recorded = self.now.topic, self.recorded.topic
        return bool(now and recorded) and now != recorded

    @property
    def differs(self) -> bool:
        rows = self.recorded.rows, self.recorded.checksum
        return self.is_for_another_topic or rows != (self.now.rows, self.now.checksum)

    @property
    def is_of_other_query_id(self) -> bool:
        """Whether a streaming query has committed it, and not this one."""
        return self.recorded.queryId not in ("", self.attempt.query_id)

    @property
    def is_of_another_query(self) -> bool:
        """The number is the same, the batch is not. Where users number versions, the number is the batch; but if it is
        foreachBatch's, other rows under it show that it was another query's."""
        if self.options.version is None:
            return self.is_of_other_query_id or (self.recorded.ownVersion and self.differs)
        return self.is_of_other_query_id and self.differs and self.attempt.version == self.attempt.batch_id

    @property
    def is_second_write(self) -> bool:
        """Whether the write that was committed was made in the same call of foreachBatch: a run of a query calls it
        once for each batch, and a batch that Spark repeats is another run's. Of jobs without a query, or in a job group
        of the user's own, which may be called the same at every start, nothing is known."""
        now, recorded = self.now, self.recorded
        is_same_call = (now.run, now.batchId) == (recorded.run, recorded.batchId)
        return now.ownVersion and is_same_call and _SPARKS_RUN.fullmatch(now.run) is not None

    @property
    def turns_on_inputs(self) -> bool:
        """Whether it counts what was read: Spark may have planned a batch of this number anew, for its offset log was
        lost. Where the user's versions are not the batches', nothing is known of it."""
        attempt, is_own_query = self.attempt, self.recorded.queryId == self.attempt.query_id
        return self.differs and bool(self.now.inputs) and is_own_query and attempt.version == attempt.batch_id


def verdict(replay: Replay) -> RmqError | str | None:
    """What is to be raised, or else the warning to log; None where what was committed is what comes again. `recorded`
    has the inputs of then, if it turns on them and they can be had.

    Rows that were committed stay; that a later run had others is for the user to know. No fault is it only where that
    run has read other queues of a shared group, for some were given to another member in between. Where it is another
    batch, Spark would go on behind rows that nobody has written, unless the user says that such are to be skipped.
    """
    attempt, options, now, recorded = replay
    version = f"Version {attempt.version} of {attempt.transactional_id}"
    if replay.is_of_another_query:
        who = "query" if replay.is_of_other_query_id else "write"
        skipped = f"{version} is another {who}'s and skipped."
        return skipped if options.skip_stale else of_another_query(attempt, recorded)
    if not replay.differs:
        return None
    elsewhere = other_topic(attempt, now.topic, recorded) if replay.is_for_another_topic else None
    if elsewhere and options.version is not None:  # two writes of one batch, as it seems
        return elsewhere
    if replay.is_second_write:
        return second_write(attempt, now, recorded)
    story = _read_elsewhere(now.inputs, recorded.inputs) if replay.turns_on_inputs else ""
    if story:
        skipped = f"{version} was another batch and is skipped: {story}."
        return skipped if options.skip_stale else of_another_place(attempt, story)
    if not elsewhere and recorded.leasedQueues != now.leasedQueues:
        return of_other_queues(attempt, now, recorded)
    error = elsewhere or mismatch(attempt, now, recorded, fails=options.fail_on_mismatch)
    return error if options.fail_on_mismatch else str(error)


def _read_elsewhere(now: Iterable[InputRange], committed: Iterable[InputRange]) -> str:
    """In words, a queue that is read up to another place `now` than when the batch was `committed`; "" for none.

    A batch that Spark runs again has the places of its offset log, so this is another batch of the same number. Nothing
    can be said of queues that were given to another member of a shared group in between, or are not read any more, of
    places in other epochs of a topic, and where nothing was recorded.
    """
    reached, epochs = last_ranges(committed), {each.topic: each.topicEpoch for each in committed}
    for queue, last in last_ranges(now).items() if reached else ():
        before = reached.get(queue)
        if epochs.get(last.topic, last.topicEpoch) != last.topicEpoch or (before is None and last.lease):
            continue
        if before is None or before.toOffset != last.toOffset:
            then = "not at all" if before is None else f"up to {before.toOffset}"
            return f"{queue} is read up to offset {last.toOffset} now, and was {then} then"
    return ""
