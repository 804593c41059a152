"""Messages that could not be consumed, on their way back: to come again after a while, or among the dead letters.

Usually the broker that has a message stores it anew (CONSUMER_SEND_MSG_BACK). Where it cannot be asked to, or where
messages are consumed in order, the message is sent like a new one to the retry topic of its group, on any broker, which
puts it among the dead letters once it says of itself that it was consumed too often. RocketMQ: sendMessageBack of
DefaultMQPushConsumerImpl and ConsumeMessageOrderlyService; spec: semantics, section 8.9.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rmqspark.client.sending.delivery import send_status
from rmqspark.client.sending.outgoing import compressed
from rmqspark.client.sending.own_sends import own_send_header
from rmqspark.errors import InvalidMessage, NoPermission, RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.names import retry_topic
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

_TIMEOUT_MS: Final = 5_000
_COMPRESSED_FROM_BYTES: Final = 4096
_FIRST_LEVEL: Final = 3  # of delay, for the first time; one more each time
_AS_BROKER_SAYS: Final = 0  # the level of CONSUMER_SEND_MSG_BACK that means the same
_NEVER: Final = -1  # the level that makes it a dead letter

_log = logging.getLogger(__name__)


class SendBacks:
    """Gives back what a group could not consume; a message that was, `max_times`, is a dead letter. Safe to share
    between threads."""

    def __init__(self, cluster: ClusterClient, group: str, max_times: int) -> None:
        self._cluster = cluster
        self._group = group
        self._max_times = max_times

    def give_back(self, message: ReceivedMessage, delay_level: int = _AS_BROKER_SAYS) -> None:
        """Has the message come again after a while. Raises what kept all brokers from storing it.

        One that has no room for what a retry says comes again from here only, of which its broker knows nothing: so
        that it was consumed often enough is said here, too.
        """
        if message.reconsume_times >= self._max_times:
            delay_level = _NEVER
        try:
            self._ask(message, delay_level)
        except RmqError as error:
            name = message.queue.broker_name
            _log.debug("%s takes %s not back, it is sent instead: %s", name, message.msg_id, error)
            self.send(message)

    def _ask(self, message: ReceivedMessage, delay_level: int) -> None:
        name = message.queue.broker_name
        header = ConsumerSendMsgBackRequestHeader(
            offset=parse_offset_msg_id(message.offset_msg_id)[1],
            group=self._group,
            delayLevel=delay_level,
            originMsgId=message.msg_id,
            originTopic=message.topic,
            unitMode=False,
            maxReconsumeTimes=self._max_times,
            bname=name,
        )
        self._cluster.broker(name).call(RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_ms=_TIMEOUT_MS)

    def give_back_late(self, message: ReceivedMessage) -> None:
        """The same of one that a listener is at for too long: it comes again in ten seconds, as RocketMQ has it."""
        self.give_back(message, _FIRST_LEVEL)

    def send(self, message: ReceivedMessage) -> None:
        """The same by sending it; a dead letter is made of it where it was consumed `max_times` before this time.

        Tried once on each broker that has the retry topic; where it has no room for what it would say besides, the
        broker that has it makes a dead letter of it. Raises what went wrong last.
        """
        try:
            self._send(message)
        except InvalidMessage:
            if message.reconsume_times < self._max_times:
                raise
            self._ask(message, _NEVER)

    def _send(self, message: ReceivedMessage) -> None:
        topic = retry_topic(self._group)
        failure: RmqError = NoPermission(f"No broker takes messages of {topic!r}.")
        for queue in self._first_queues(topic):
            try:
                self._send_to(queue, message)
            except RmqError as error:
                failure = error
            else:
                return
        raise failure

    def _first_queues(self, topic: str) -> list[MessageQueue]:
        """One of each broker."""
        queues = self._cluster.route_to_publish(topic).publish_queues
        return list({queue.broker_name: queue for queue in reversed(queues)}.values())

    def _send_to(self, queue: MessageQueue, message: ReceivedMessage) -> None:
        body, sys_flag = compressed(message.body, _COMPRESSED_FROM_BYTES)
        header = own_send_header(
            queue,
            encode_properties(returned_properties(message)).decode(),
            sys_flag=sys_flag,
            flag=message.flag,
            born_timestamp_ms=message.born_timestamp_ms,
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=self._max_times,
        )
        send_status(self._cluster.broker(queue.broker_name).send(header, body, timeout_ms=_TIMEOUT_MS))


def returned_properties(message: ReceivedMessage) -> dict[str, str]:
    """Those of a message that is sent to come again: where it came from, which the first return says for all later
    ones, and how long it waits."""
    properties = dict(message.properties)
    properties.pop(Property.TRANSACTION_PREPARED, None)
    properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.offset_msg_id)
    properties[Property.RETRY_TOPIC] = message.topic
    properties[Property.DELAY] = str(_FIRST_LEVEL + message.reconsume_times)
    return properties
