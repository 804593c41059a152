"""Messages of which nothing can be made: their bodies do not inflate, say. Anybody who may send can send one.

RocketMQ's consumers pass it over, and whatever came with it in one answer behind it. Here what is before it is consumed
first; then its group has it among its dead letters, where it can be looked at, and goes on behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.futures import asked
from rmqspark.client.received import first_unreadable, received_all
from rmqspark.errors import RecordError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy import int32
    from numpy.typing import NDArray

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.model import ReceivedMessage
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

_TIMEOUT_MS: Final = 5_000
_FOR_GOOD: Final = -1  # the level of CONSUMER_SEND_MSG_BACK that makes a dead letter of it at once


class Unreadable(RecordError):
    """The next message cannot be read."""

    def __init__(self, error: RecordError, record: Record) -> None:
        super().__init__(error.message)
        self.record = record


def readable(
    records: bytes | memoryview, broker_name: str, next_offset: int, sizes: NDArray[int32] | None = None
) -> tuple[list[ReceivedMessage], int]:
    """The messages up to the first that cannot be read, and where to go on: there, else at `next_offset`. Unreadable
    where there is none before it; RecordError for what are no records at all."""
    try:
        return received_all(records, broker_name, sizes), next_offset
    except RecordError as error:
        at, record = first_unreadable(records)
        if not at:
            raise Unreadable(error, record) from None
        return received_all(records[:at], broker_name), record.queue_offset


def give_up(broker: BrokerClient, group: str, record: Record) -> Future[Response]:
    """CONSUMER_SEND_MSG_BACK: it is a dead letter of the group where that is answered with SUCCESS."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=record.physical_offset,
        group=group,
        delayLevel=_FOR_GOOD,
        originMsgId=record.property_map().get(Property.UNIQ_KEY, ""),
        originTopic=record.topic,
        unitMode=False,
        bname=broker.name,
    )
    return asked(lambda: broker.submit(RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_ms=_TIMEOUT_MS))
