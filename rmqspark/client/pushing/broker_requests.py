"""What brokers ask of a push consumer: decoded, and handed to the part that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NotSupported
from rmqspark.protocol.bodies.admin import ResetOffsetBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    ConsumeMessageDirectlyRequestHeader,
    ConsumerStatusRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    ResetOffsetToClientRequestHeader,
)
from rmqspark.protocol.headers.fields import from_fields
from rmqspark.remoting.reply import Reply

if TYPE_CHECKING:
    from rmqspark.client.pushing.inspection import Inspection
    from rmqspark.client.pushing.pump import Pump
    from rmqspark.client.pushing.rebalancer import Rebalancer
    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.peer_requests import Answer


class BrokerRequests:
    """Of one member of a group. On reader threads: nothing may wait here."""

    def __init__(self, group: str, rebalancer: Rebalancer, pump: Pump, inspection: Inspection) -> None:
        self._group = group
        self._rebalancer = rebalancer
        self._pump = pump
        self._inspection = inspection

    def answer(self, command: Command, body: memoryview) -> Answer:
        """Raises NotSupported for what no push consumer is asked."""
        match command.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._rebalancer.wake()
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                reset = from_fields(command.fields, ResetOffsetToClientRequestHeader)
                if reset.group == self._group:
                    self._pump.reset(ResetOffsetBody.decode(body).offsetTable)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                info = from_fields(command.fields, GetConsumerRunningInfoRequestHeader)
                return self._inspection.running_info(info.consumerGroup, with_threads=bool(info.jstackEnable))
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                status = from_fields(command.fields, ConsumerStatusRequestHeader)
                return self._inspection.status(status.group, status.topic)
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                direct = from_fields(command.fields, ConsumeMessageDirectlyRequestHeader)
                return self._inspection.consume_directly(direct.consumerGroup, bytes(body), direct.brokerName or "")
            case _:
                raise NotSupported(f"request type {command.code} not supported")
        return Reply()
