"""DELETE_EXPIRED_COMMITLOG (329): files of the log that have expired go now, not in the hours of `delete_when`.

RocketMQ's AdminBrokerProcessor.deleteExpiredCommitLog, and as there within the next 20 rounds, a few files each.
Nothing goes that would not have gone in those hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.expiry_rounds import ExpiryRounds
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class ExpiryHandlers:
    """Answers at once; the rounds do it."""

    def __init__(self, rounds: ExpiryRounds) -> None:
        self._rounds = rounds

    def routes(self) -> Routes:
        return {RequestCode.DELETE_EXPIRED_COMMITLOG: Route(None, self.delete_expired)}

    def delete_expired(self, request: Request[NoFields]) -> Reply:
        del request
        self._rounds.ignore_the_hour()
        return Reply()
