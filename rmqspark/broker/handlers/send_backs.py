"""CONSUMER_SEND_MSG_BACK (36): a consumer failed and wants the message again later.

RocketMQ's SendMessageProcessor.consumerSendMsgBack; spec: semantics, section 8.9. Redelivery is a delayed message, and
those are not there yet, so the request is refused. A stock consumer then keeps the message and consumes it again itself
after five seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NotSupported
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.groups import SubscriptionGroups
    from rmqspark.remoting.request import Request


class SendBackHandlers:
    """Refuses, but in the order of RocketMQ's checks: an unknown group hears that first."""

    def __init__(self, groups: SubscriptionGroups) -> None:
        self._groups = groups

    def routes(self) -> Routes:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: Route(ConsumerSendMsgBackRequestHeader, self.send_back)}

    def send_back(self, request: Request[ConsumerSendMsgBackRequestHeader]) -> None:
        self._groups.require(request.header.group)
        raise NotSupported(
            "Redelivery by the broker is not supported yet.",
            hint="The consumer has to consume the message again itself.",
        )
