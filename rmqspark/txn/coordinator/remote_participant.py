"""A participant in another broker, as its coordinator sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.protocol.bodies.txn import OutputRanges, TxnComplete, TxnVote
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnCompleteRequestHeader,
    TxnOutcome,
    TxnVoteRequestHeader,
    TxnVoteResponseHeader,
)
from rmqspark.txn.ports import VoteAnswer

if TYPE_CHECKING:
    from rmqspark.protocol.bodies.txn import OutputRange
    from rmqspark.txn.coordinator.peers import Peers
    from rmqspark.txn.ports import Complete, Vote

# Together less than a driver waits for its decision: it is told of a broker that hangs, instead of hearing nothing.
VOTE_TIMEOUT_MS: Final = 10_000  # for an fsync of all that came in a batch
COMPLETE_TIMEOUT_MS: Final = 45_000  # for appending it


class RemoteParticipant:
    """Speaks RMQ_TXN_VOTE and RMQ_TXN_COMPLETE."""

    def __init__(self, broker: str, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers

    async def vote(self, request: Vote) -> VoteAnswer:
        header = TxnVoteRequestHeader(
            request.transactional_id, request.epoch, request.version, request.completed, self._peers.own_name
        )
        body = TxnVote(list(request.attempts)).encode(standard=True)
        response = await self._peers.call(
            self._broker, RequestCode.RMQ_TXN_VOTE, header, body, timeout_ms=VOTE_TIMEOUT_MS
        )
        told = response.header(TxnVoteResponseHeader)
        return VoteAnswer(told.yes, response.remark or "", told.outputBytes)

    async def complete(self, request: Complete) -> list[OutputRange]:
        outcome = TxnOutcome.COMMIT if request.commit else TxnOutcome.DROP
        header = TxnCompleteRequestHeader(
            request.transactional_id, request.epoch, request.version, outcome, request.durable
        )
        body = TxnComplete(list(request.attempts)).encode(standard=True)
        response = await self._peers.call(
            self._broker, RequestCode.RMQ_TXN_COMPLETE, header, body, timeout_ms=COMPLETE_TIMEOUT_MS
        )
        return OutputRanges.decode(response.body).outputs
