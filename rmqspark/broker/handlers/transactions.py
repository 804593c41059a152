"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323): how half messages of stock producers end, or go on.

RocketMQ's EndTransactionProcessor and AdminBrokerProcessor; spec: requests, sections 4 and 7. Three things differ on
purpose:
- A transaction ends once. The same end again changes nothing, another one is refused; RocketMQ delivers the message
  twice, or delivers what was rolled back (its issues 8158, 5574, 2694).
- An end that comes late, after the producer was asked, still counts; RocketMQ refuses some (604) and would deliver
  others twice.
- A request that is not oneway is answered even where the producer does not know yet; RocketMQ leaves it without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import ResumeCheckHalfMessageRequestHeader
from rmqspark.protocol.headers.produce import EndTransactionRequestHeader
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record import SysFlag
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.txn.half_messages.half_ledger import Outcome

if TYPE_CHECKING:
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.transactions.half_messages import HalfMessages
    from rmqspark.errors import RmqError
    from rmqspark.remoting.request import Request

_OUTCOMES: Final = {SysFlag.COMMITTED: Outcome.COMMITTED, SysFlag.ROLLED_BACK: Outcome.ROLLED_BACK}


class TransactionHandlers:
    """Ends half messages."""

    def __init__(self, halves: HalfMessages, appender: Appender) -> None:
        self._halves = halves
        self._appender = appender

    def routes(self) -> Routes:
        return {
            RequestCode.END_TRANSACTION: Route(EndTransactionRequestHeader, self.end),
            RequestCode.RESUME_CHECK_HALF_MESSAGE: Route(ResumeCheckHalfMessageRequestHeader, self.resume),
        }

    def end(self, request: Request[EndTransactionRequestHeader]) -> Reply | None:
        """Answered when the end is as safe as the flush mode promises."""
        outcome = _OUTCOMES.get(request.header.commitOrRollback)
        if outcome is None:
            return Reply()  # not known yet: the check-back asks again

        def answer(error: RmqError | None) -> None:
            if error is None:
                request.reply()
            else:
                request.fail(error)

        self._appender.when_safe(self._halves.end(request.header, outcome), answer)
        return None

    def resume(self, request: Request[ResumeCheckHalfMessageRequestHeader]) -> Reply:
        """The message id is the one that TRANS_CHECK_MAX_TIME_TOPIC shows."""
        _, physical_offset = parse_offset_msg_id(request.header.msgId or "")
        self._halves.resume(physical_offset)
        return Reply()
