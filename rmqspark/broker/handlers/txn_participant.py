"""RMQ_TXN_HALF (30011), VOTE (30013) and COMPLETE (30014): this broker as a participant of exactly-once transactions.

rmqspark's own; docs/wire-format.md has the fields, docs/exactly-once.md the protocol. A half batch is checked like a
bulk send and written as it lies in the buffer it was received into; it is answered when it is stored, for the vote
brings it to the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.sending.bulks import check_target
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.txn import OutputRanges, TxnComplete, TxnVote
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnCompleteRequestHeader,
    TxnHalfRequestHeader,
    TxnHalfResponseHeader,
    TxnOutcome,
    TxnVoteRequestHeader,
    TxnVoteResponseHeader,
)
from rmqspark.protocol.names import check_transactional
from rmqspark.protocol.records.properties import Property
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.store.appending.bulk_check import check_bulk, check_rows
from rmqspark.txn.participant.half_batch import half_of
from rmqspark.txn.ports import Complete, Vote
from rmqspark.txn.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.broker.sending.bulks import BulkIntake
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.remoting.request import Request
    from rmqspark.txn.participant.half_batch import HalfBatch
    from rmqspark.txn.participant.resolver import Resolver


class TxnParticipantHandlers:
    """What clients send half batches to, and coordinators on other brokers speak to.

    `note_broker` remembers those by name: a broker that has voted asks them before it drops anything.
    """

    def __init__(
        self,
        resolver: Resolver,
        topics: TopicTable,
        intake: BulkIntake,
        note_broker: Callable[[str], None],
        *,
        max_body_bytes: int,
    ) -> None:
        self._resolver = resolver
        self._hearsay = resolver.hearsay
        self._topics = topics
        self._intake = intake
        self._note_broker = note_broker
        self._max_body_bytes = max_body_bytes
        self._refusals = Refusals()

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_TXN_HALF: Route(TxnHalfRequestHeader, self.hold),
            RequestCode.RMQ_TXN_VOTE: Route(TxnVoteRequestHeader, self.vote),
            RequestCode.RMQ_TXN_COMPLETE: Route(TxnCompleteRequestHeader, self.complete),
        }

    def hold(self, request: Request[TxnHalfRequestHeader]) -> Reply | Awaitable[Reply]:
        """Answered at once, except for the first ones under a new epoch: their coordinator is asked about it."""
        _check_names(request.header)
        half = half_of(request.header, len(request.body))
        if self._hearsay.is_announced(half.name.batch):
            return self._hold(request, half)
        return self._introduce_and_hold(request, half)

    async def _introduce_and_hold(self, request: Request[TxnHalfRequestHeader], half: HalfBatch) -> Reply:
        with self._refusals.telling(half.name.batch.transactional_id):
            await self._hearsay.introduce(half.name.batch)
        return self._hold(request, half)

    def _hold(self, request: Request[TxnHalfRequestHeader], half: HalfBatch) -> Reply:
        check_target(self._topics, half.topic, half.queue_id)  # now: it may have been deleted while others were asked
        with self._refusals.telling(half.name.batch.transactional_id):
            held = self._resolver.known(half)
            if held is None:
                has_tags = self._check(request.header, self._intake.open(request.header, request.body))
                held = self._resolver.take(half._replace(has_tags=has_tags), request.body)
        return Reply(TxnHalfResponseHeader(held.physical_offset))

    def _check(self, header: TxnHalfRequestHeader, bulk: RecordBatch | BulkRows) -> bool:
        """Whether any message has tags. Raises what `check_bulk` and `check_rows` raise."""
        if isinstance(bulk, BulkRows):
            check_rows(bulk, header.topic, self._max_body_bytes)
            return bulk.properties is not None and bulk.properties.have_tags
        check_bulk(bulk, header.topic, header.queueId, self._max_body_bytes)
        return bulk.has_any_property((Property.TAGS.encode(),))

    async def vote(self, request: Request[TxnVoteRequestHeader]) -> Reply:
        header, body = request.header, TxnVote.decode_request(request.body)
        vote = Vote(header.transactionalId, header.epoch, header.version, body.attempts, header.completed)
        if not self._resolver.refusal(vote):
            with self._refusals.telling(header.transactionalId):
                await self._hearsay.check_vote(vote)
            if header.coordinator is not None:
                self._note_broker(header.coordinator)  # before the vote, whose flush brings it to the disk
        answer = await self._resolver.vote(vote)
        return Reply(TxnVoteResponseHeader(answer.yes, answer.output_bytes), remark=answer.remark or None)

    async def complete(self, request: Request[TxnCompleteRequestHeader]) -> Reply:
        header = request.header
        if header.outcome not in (TxnOutcome.COMMIT, TxnOutcome.DROP):
            raise InvalidArgument(f"A version is completed by COMMIT or DROP, not by {header.outcome!r}.")
        commit = header.outcome == TxnOutcome.COMMIT
        attempts = TxnComplete.decode_request(request.body).attempts if commit else []
        decided = Complete(header.transactionalId, header.epoch, header.version, commit, attempts, header.durable)
        with self._refusals.telling(header.transactionalId):
            await self._hearsay.check_complete(decided)
            outputs = await self._resolver.complete(decided)
        return Reply(body=OutputRanges(outputs).encode(standard=True))


def _check_names(header: TxnHalfRequestHeader) -> None:
    """Raises InvalidName, or InvalidArgument for numbers that nobody was ever given."""
    check_transactional("transactional id", header.transactionalId)
    check_transactional("attempt", header.attempt)
    if header.epoch < 1 or min(header.version, header.partition, header.sequence) < 0:
        raise InvalidArgument("Epochs begin at 1, versions, partitions and sequences at 0.")
