"""What a batch has read, as its read tasks told the broker: recorded in the same decision as what it has written."""

from __future__ import annotations

import logging
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.cluster.patience import Patience, may_pass, patiently
from rmqspark.client.spark.coordinator import masters
from rmqspark.client.spark.txn import reported_inputs
from rmqspark.errors import RmqError
from rmqspark.sink.transactions.refusals import not_committed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.patience import Another
    from rmqspark.protocol.bodies.txn import InputRange
    from rmqspark.sink.transactions.attempt import Attempt

_PATIENCE: Final = Patience((100, 200, 400, 800, 1_600))
_AT_ONCE: Final = Patience(())
_HANGS_MS: Final = 2_000  # one that refuses connections, for it is restarting, does so at once
_DIGEST_BYTES: Final = 16

_log = logging.getLogger(__name__)


class _Late(NamedTuple):
    """A broker that did not answer at once, and whether that took it long."""

    name: str
    error: RmqError
    hangs: bool


class _Told(NamedTuple):
    """What brokers said that were asked once, who of them did not, whether any did, and why there may be others that
    nobody lists."""

    reported: list[InputRange]
    late: list[_Late]
    is_answered: bool
    unlisted: RmqError | None

    @property
    def failure(self) -> RmqError | None:
        """Why it may not be all."""
        return self.late[-1].error if self.late else self.unlisted

    @property
    def is_waited_for(self) -> bool:
        """Whether more may be told a moment later, and the batch does not go on without: it has read of a shared group,
        or nobody is there to say so, nor to decide it."""
        failure = self.failure
        return failure is not None and may_pass(failure) and (not self.is_answered or _are_leased(self.reported))


def inputs_of(
    client: ClusterClient, attempt: Attempt, participants: Collection[str], tries: Iterator[Another]
) -> list[InputRange]:
    """The ranges that the batch of `attempt` has read, each queue's in as few pieces as there are.

    Every broker is asked, those that hold rows of the batch too: each range was told to two of them. A batch is not
    held up by what is only told about it: where that cannot be had, it is a warning, and a broker that hangs is not
    asked again where another has answered. But what it read of a shared group has to be known in full, for it may be
    another member's by now: it is waited for as `tries` allow, and then NotCommitted, where anybody who was asked knows
    of a lease. What an earlier run of the batch has read of a shared group counts only if this one has read it, too.
    """
    if not attempt.query_id:
        return []
    told = _told(client, attempt, participants, _PATIENCE)
    while told.is_waited_for and (another := next(tries, None)) is not None:
        _log.warning("%s What batch %d has read is asked again in %d ms, %s.",
                     told.failure, attempt.batch_id, *another)  # fmt: skip
        client.clock.sleep_ms(another.pause_ms)
        told = _told(client, attempt, participants, _AT_ONCE)
    reported, failure = told.reported, told.failure
    if not told.is_waited_for:
        failure = _hear_late(client, attempt, told) or told.unlisted
    if failure is not None:
        if _are_leased(reported):
            raise not_committed(attempt, f"what it read of a shared group is not known in full: {failure.message}")
        _log.warning("What batch %d of query %s has read is not recorded, or not all of it: %s",
                     attempt.batch_id, attempt.query_id, failure)  # fmt: skip
    return joined(each for each in reported if each.run is None or each.run == attempt.run)


def leased_queues(read: Iterable[InputRange]) -> str:
    """The queues of shared groups among these, in few characters: the same for the same queues, "" for none."""
    queues = sorted({_queue(each) for each in read if each.lease})
    return blake2b(repr(queues).encode(), digest_size=_DIGEST_BYTES).hexdigest() if queues else ""


def _brokers(
    client: ClusterClient, participants: Iterable[str], patience: Patience
) -> tuple[list[str], RmqError | None]:
    """The brokers to ask; where nobody says which there are those that hold rows of the batch or were known to its
    tasks, and why there may be others."""
    try:
        names = patiently(lambda: masters(client), patience, client.clock)
    except RmqError as error:
        return sorted({*participants, *client.known_masters()}), error
    return sorted({*names, *participants}), None


def _told(client: ClusterClient, attempt: Attempt, participants: Collection[str], patience: Patience) -> _Told:
    """What the brokers there are tell when each is asked once; `patience` is for those who list them."""
    names, unlisted = _brokers(client, participants, patience)
    reported: list[InputRange] = []
    late: list[_Late] = []
    for name in names:
        began_ms = client.clock.monotonic_ms()
        try:
            reported += _reported_to(client, name, attempt)
        except RmqError as error:
            late.append(_Late(name, error, client.clock.monotonic_ms() - began_ms >= _HANGS_MS))
    return _Told(reported, late, len(late) < len(names), unlisted)


def _hear_late(client: ClusterClient, attempt: Attempt, told: _Told) -> RmqError | None:
    """Adds what those tell who did not at once, but for those who hang. Why one of them has told nothing."""
    failure: RmqError | None = None
    for each in told.late:
        try:
            if each.hangs:
                raise each.error
            told.reported.extend(patiently(partial(_reported_to, client, each.name, attempt), _PATIENCE, client.clock))
        except RmqError as error:
            failure = error
    return failure


def _are_leased(ranges: Iterable[InputRange]) -> bool:
    return any(each.lease for each in ranges)


def _reported_to(client: ClusterClient, name: str, attempt: Attempt) -> list[InputRange]:
    broker = client.broker(name)
    if not broker.capabilities().transactions:
        return []
    return reported_inputs(broker, attempt.query_id, attempt.batch_id)


def joined(ranges: Iterable[InputRange]) -> list[InputRange]:
    """Ranges without overlaps: tasks that ran twice, or were cut otherwise the second time, reported twice."""
    whole: list[InputRange] = []
    for piece in sorted(ranges, key=lambda r: (r.group, r.topic, r.brokerName, r.queueId, r.fromOffset)):
        last = whole[-1] if whole else None
        if last is not None and _queue(last) == _queue(piece) and piece.fromOffset <= last.toOffset:
            last.toOffset = max(last.toOffset, piece.toOffset)
        else:
            whole.append(piece)
    return whole


def _queue(piece: InputRange) -> tuple[str, str, str, int]:
    return piece.group, piece.topic, piece.brokerName, piece.queueId
