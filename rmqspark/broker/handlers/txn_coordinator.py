"""RMQ_TXN_PREPARE, DECIDE, STATUS, ABORT, LIST, RESOLVE, FIND, REPORT_INPUT, INPUTS, AUDIT, GROUP_OFFSETS (30010 to
30023): this broker as the coordinator of exactly-once transactions. VOTE, COMPLETE and HALF are the participants'.

rmqspark's own; docs/wire-format.md has the fields, docs/exactly-once.md the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueues
from rmqspark.protocol.bodies.txn import BrokersSeen, InputRanges, TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnAbortRequestHeader,
    TxnAbortResponseHeader,
    TxnAuditRequestHeader,
    TxnDecideRequestHeader,
    TxnDecideResponseHeader,
    TxnFindRequestHeader,
    TxnFindResponseHeader,
    TxnGroupOffsetsRequestHeader,
    TxnGroupOffsetsResponseHeader,
    TxnInputsRequestHeader,
    TxnListRequestHeader,
    TxnOutcome,
    TxnPrepareRequestHeader,
    TxnPrepareResponseHeader,
    TxnReportInputRequestHeader,
    TxnResolveRequestHeader,
    TxnResolveResponseHeader,
    TxnStatusRequestHeader,
    TxnStatusResponseHeader,
)
from rmqspark.protocol.names import check_transactional
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.txn.coordinator.report import MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.queries import SparkQueries
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.txn import HeldVersion
    from rmqspark.remoting.request import Request
    from rmqspark.txn.coordinator.coordination import Coordination
    from rmqspark.txn.coordinator.coordinator import Ruling


class TxnCoordinatorHandlers:
    """Thin: headers and bodies in, `Coordinator`'s rulings out.

    `held` tells what this broker holds undecided, of one transactional id or of all: a listing has that besides.
    """

    def __init__(
        self,
        coordination: Coordination,
        queries: SparkQueries,
        clock: Clock,
        held: Callable[[str | None], Sequence[HeldVersion]],
    ) -> None:
        self._coordinator = coordination.coordinator
        self._owners = coordination.owners
        self._remember_broker = coordination.remember_broker
        self._group_offsets = coordination.group_offsets
        self._reports = coordination.reports
        self._inputs = coordination.inputs
        self._journal = coordination.journal
        self._queries = queries
        self._clock = clock
        self._held = held

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_TXN_PREPARE: Route(TxnPrepareRequestHeader, self.prepare),
            RequestCode.RMQ_TXN_DECIDE: Route(TxnDecideRequestHeader, self.decide),
            RequestCode.RMQ_TXN_STATUS: Route(TxnStatusRequestHeader, self.status),
            RequestCode.RMQ_TXN_ABORT: Route(TxnAbortRequestHeader, self.abort),
            RequestCode.RMQ_TXN_LIST: Route(TxnListRequestHeader, self.list),
            RequestCode.RMQ_TXN_RESOLVE: Route(TxnResolveRequestHeader, self.resolve),
            RequestCode.RMQ_TXN_FIND: Route(TxnFindRequestHeader, self.find),
            RequestCode.RMQ_TXN_REPORT_INPUT: Route(TxnReportInputRequestHeader, self.report_input),
            RequestCode.RMQ_TXN_INPUTS: Route(TxnInputsRequestHeader, self.inputs),
            RequestCode.RMQ_TXN_AUDIT: Route(TxnAuditRequestHeader, self.audit),
            RequestCode.RMQ_TXN_GROUP_OFFSETS: Route(TxnGroupOffsetsRequestHeader, self.group_offsets),
        }

    async def prepare(self, request: Request[TxnPrepareRequestHeader]) -> Reply:
        header = request.header
        check_transactional("attempt", header.attempt)
        ruling = await self._coordinator.prepare(
            header.transactionalId, header.run, header.version, header.queryId or ""
        )
        answer = ruling.answer
        return Reply(
            TxnPrepareResponseHeader(answer.outcome, answer.epoch, answer.last_version, ruling.coordinator),
            remark=ruling.remark,
        )

    async def decide(self, request: Request[TxnDecideRequestHeader]) -> Reply:
        header, decision = request.header, TxnDecision.decode_request(request.body)
        ruling = await self._coordinator.decide(
            header.transactionalId, header.run, header.epoch, header.version, decision
        )
        answer = ruling.answer
        return Reply(
            TxnDecideResponseHeader(
                answer.outcome, answer.epoch, answer.last_version, len(ruling.unreadable), ruling.coordinator
            ),
            _decision(ruling),
            remark=ruling.remark,
        )

    async def status(self, request: Request[TxnStatusRequestHeader]) -> Reply:
        header = request.header
        ruling = await self._coordinator.status(
            header.transactionalId, header.epoch, header.version, fence=header.fence
        )
        answer = ruling.answer
        return Reply(
            TxnStatusResponseHeader(answer.outcome, answer.epoch, answer.last_version, ruling.coordinator),
            _decision(ruling),
            remark=ruling.remark,
        )

    async def abort(self, request: Request[TxnAbortRequestHeader]) -> Reply:
        header = request.header
        ruling = await self._coordinator.abort(header.transactionalId, header.epoch, header.version)
        return Reply(TxnAbortResponseHeader(ruling.answer.outcome, ruling.coordinator), remark=ruling.remark)

    async def resolve(self, request: Request[TxnResolveRequestHeader]) -> Reply:
        header = request.header
        if header.decision not in (TxnOutcome.COMMIT, TxnOutcome.ROLLBACK):
            raise InvalidArgument(f"decision is COMMIT or ROLLBACK, not {header.decision[:20]!r}.")
        ruling = await self._coordinator.resolve(
            header.transactionalId, header.version, commit=header.decision == TxnOutcome.COMMIT, who=header.who
        )
        return Reply(TxnResolveResponseHeader(ruling.answer.outcome, ruling.coordinator), remark=ruling.remark)

    async def find(self, request: Request[TxnFindRequestHeader]) -> Reply:
        """Who asks is remembered first: it may own the id from the answer on."""
        transactional_id, owners = request.header.transactionalId, self._owners
        if request.header.brokerName is not None:
            await self._remember_broker(request.header.brokerName)
        remembered = owners.remembered_here(transactional_id)
        return Reply(
            TxnFindResponseHeader(
                owners.is_mine(transactional_id),
                owners.is_adopting(transactional_id),
                owners.own_name,
                remembered.newest_epoch,
                remembered.completed,
            ),
            BrokersSeen(owners.seen()).encode(standard=True),
        )

    def list(self, request: Request[TxnListRequestHeader]) -> Reply:
        header = request.header
        states = self._reports.states(header.transactionalId, header.limit, header.cursor)
        if header.cursor is None:
            states.held = list(self._held(header.transactionalId))[:MAX_LIMIT]
        return Reply(body=states.encode(standard=True))

    def audit(self, request: Request[TxnAuditRequestHeader]) -> Reply:
        header = request.header
        batches = self._reports.batches(header.transactionalId, header.queryId, header.limit, header.cursor)
        return Reply(body=batches.encode(standard=True))

    async def report_input(self, request: Request[TxnReportInputRequestHeader]) -> Reply:
        """Answered at once; what was read under leases of a shared group, when it is on disk."""
        header = request.header
        check_transactional("query id", header.queryId)
        ranges = InputRanges.decode_request(request.body).inputs
        self._journal.record(self._inputs.report(header.queryId, header.batchId, ranges))
        self._queries.note_batch(header.queryId, header.batchId, self._clock.now_ms())
        if any(each.lease for each in ranges):
            await self._journal.flushed()
        return Reply()

    def inputs(self, request: Request[TxnInputsRequestHeader]) -> Reply:
        header = request.header
        return Reply(body=InputRanges(self._inputs.of(header.queryId, header.batchId)).encode(standard=True))

    async def group_offsets(self, request: Request[TxnGroupOffsetsRequestHeader]) -> Reply:
        asked = LeasedQueues.decode_request(request.body).queues
        queues = {MessageQueue(each.topic, each.brokerName, each.queueId) for each in asked}
        found = await self._group_offsets(request.header.consumerGroup, queues)
        return Reply(TxnGroupOffsetsResponseHeader(self._owners.own_name), LeasedQueues(found).encode())


def _decision(ruling: Ruling) -> bytes:
    decision = ruling.answer.decision
    return b"" if decision is None else decision.encode(standard=True)
