"""DELETE_EXPIRED_COMMITLOG (329): files of the log that have expired go now, not in the hours of `delete_when`.
CLEAN_EXPIRED_CONSUMEQUEUE (306): what leads to messages that have gone goes, too. CLEAN_UNUSED_TOPIC (316): so do
queues of topics that are not there.

RocketMQ's AdminBrokerProcessor; as there the log's files go within the next 20 rounds, a few each, and none that would
not have gone in those hours. Of queues nothing is left to do: in each round what leads nowhere goes with the messages,
and all of them with their topic. Their ends stay, which RocketMQ forgets with the last file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.safekeeping.expiry_rounds import ExpiryRounds
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class ExpiryHandlers:
    """Answers at once; the rounds do it."""

    def __init__(self, rounds: ExpiryRounds) -> None:
        self._rounds = rounds

    def routes(self) -> Routes:
        return {
            RequestCode.DELETE_EXPIRED_COMMITLOG: Route(None, self.delete_expired),
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Route(None, self.clean_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: Route(None, self.clean_queues),
        }

    def delete_expired(self, request: Request[NoFields]) -> Reply:
        del request
        self._rounds.ignore_the_hour()
        return Reply()

    def clean_queues(self, request: Request[NoFields]) -> Reply:
        del request
        return Reply()
