"""Sends messages that count only if a transaction of the sender's own does (RocketMQ's TransactionMQProducer).

    half message stored → listener.execute → COMMIT, ROLLBACK, or UNKNOWN: then, or if the word of it is lost,
    the broker asks → listener.check

So message and transaction come about together or not at all, whatever dies in between, if `check` finds out what
`execute` did from where the transaction itself left its traces.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.identity import MessageIds
from rmqspark.client.sending.check_backs import CheckBacks
from rmqspark.client.sending.delivery import Delivery, Parcel, worth_another_try
from rmqspark.client.sending.message_kinds import check_message
from rmqspark.client.sending.outgoing import SendConfig, outgoing, waits
from rmqspark.client.sending.selection import Target
from rmqspark.client.sending.transaction_listener import DECISIONS, TransactionListener, heard
from rmqspark.errors import ConnectionLost, InvalidMessage, NotWritable, RequestTimeout, RmqError, TransactionError
from rmqspark.model import PreparedMessage, SendStatus, TransactionReceipt, TransactionState
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import EndTransactionRequestHeader
from rmqspark.protocol.names import check_group
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import Message, SendReceipt
    from rmqspark.remoting.access import Access

_NO_SUCH_HALF: Final = (  # RocketMQ's words
    "Find prepared transaction message failed",
    "The producer group wrong",
    "The transaction state table offset wrong",
)

log = logging.getLogger(__name__)


@takes_what_it_says
class TransactionProducer(ClosedByWith):
    """Sends messages of transactions. Safe to share between threads; a context manager.

    From its construction on it answers the brokers' questions about half messages of its group, also those of brokers
    that come later, so an application that starts again makes one even if it has nothing to send.
    """

    _kind = "producer"

    def __init__(
        self,
        namesrv: str | None = None,
        group: str = "",
        *,
        listener: TransactionListener,
        config: SendConfig | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        access: Access | None = None,
    ) -> None:
        """`namesrv` is "h1:9876;h2:9876"; None takes $RMQ_NAMESRV, $NAMESRV_ADDR, or this machine. `group` is what
        producers with the same listener have in common: each may be asked about what another sent. `access` as in
        `Producer`."""
        self.group = check_group(group)
        self._config = config or SendConfig()
        self._checks = CheckBacks(
            self.group,
            listener,
            lambda address, verdict: self._cluster.answer(address, RequestCode.END_TRANSACTION, verdict),
        )
        self._cluster = ClusterClient(
            namesrv, clock=clock, entropy=entropy, on_request=self._checks.asked, access=access
        )
        self._ids = MessageIds(self._cluster)
        self._delivery = Delivery(
            self._cluster,
            group,
            1 + self._config.retry_times_when_send_failed,
            avoid_slow=self._config.send_latency_fault_enable,
            worth_another=surely_not_stored,
        )
        self._cluster.heartbeats.add_producer(group)
        self._cluster.heartbeats.reach_all(self._brokers)

    def send(
        self,
        message: Message,
        arg: Any = None,
        *,
        queue: int | MessageQueue | None = None,
        shard: str | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionReceipt:
        """Stores the half message, has the listener execute, and tells the broker how that went.

        If the half message is not as safe as the broker promises, nothing is executed and it is rolled back. Raises
        what `Producer.send` raises, with nothing executed; after a RequestTimeout, ConnectionLost or NotWritable the
        half message may have been stored, and `check` be asked about one that `execute` never saw. TransactionError
        where the broker had another word on the transaction before this one, from a `check`, or has lost the half
        message meanwhile.
        """
        self._check_open()
        self._checks.begin_if_forked()
        check_message(message)
        if waits(message):
            raise InvalidMessage("A message of a transaction cannot be delayed.", hint="Send it without a delay.")
        receipt = self._send_half(message, queue, shard, timeout_ms)
        state = TransactionState.ROLLBACK
        if receipt.status is SendStatus.OK:
            prepared = _prepared(message, receipt.msg_id)
            state = heard("execute", receipt.msg_id, lambda: self._checks.listener.execute(prepared, arg))
        self._end(message.topic, receipt, state)
        return TransactionReceipt(state, receipt)

    def close(self) -> None:
        """Waits a moment for checks under way, tells the brokers good-bye and closes the connections. Again: does
        nothing. What is open is asked of other producers of the group, or of the next."""
        self._closed = True
        if not self._checks.close():
            return
        try:
            self._checks.drain(self._config.send_msg_timeout)
            self._cluster.heartbeats.remove_producer(self.group)
        finally:
            self._cluster.close()

    def _send_half(
        self, message: Message, queue: int | MessageQueue | None, shard: str | None, timeout_ms: int | None
    ) -> SendReceipt:
        unique_id = self._ids.next()
        contents = outgoing(message, unique_id, self._config, shard)
        marks = encode_properties({Property.TRANSACTION_PREPARED: "true", Property.PRODUCER_GROUP: self.group}).decode()
        contents = contents._replace(
            properties=contents.properties + marks, sys_flag=contents.sys_flag | SysFlag.PREPARED
        )
        parcel = Parcel(message.topic, (unique_id,), contents)
        return self._delivery.deliver(parcel, Target(queue, shard), self._config.timeout(timeout_ms))[0]

    def _end(self, topic: str, receipt: SendReceipt, state: TransactionState) -> None:
        """Tells the broker. If it cannot be told it asks, so only its contradiction is an error, and that it has
        nothing to ask about."""
        decision = DECISIONS.get(state)
        if decision is None:
            return
        name = receipt.queue.broker_name
        try:
            header = EndTransactionRequestHeader(
                producerGroup=self.group,
                tranStateTableOffset=receipt.queue_offset,
                commitLogOffset=parse_offset_msg_id(receipt.offset_msg_id)[1],
                commitOrRollback=decision,
                msgId=receipt.msg_id,
                fromTransactionCheck=False,
                transactionId=receipt.msg_id,
                topic=topic,
                bname=name,
            )
            broker = self._cluster.broker(name)  # which a client that was closed while the listener worked refuses
            broker.call(RequestCode.END_TRANSACTION, header, timeout_ms=self._config.send_msg_timeout)
        except TransactionError:
            raise
        except RmqError as error:
            if error.message in _NO_SUCH_HALF:
                if state is TransactionState.COMMIT:
                    raise _half_lost(receipt) from error
                return
            log.warning("%s was not told of %s for %s, and will ask: %s", name, state.name, receipt.msg_id, error)

    def _brokers(self) -> Iterator[BrokerClient]:
        """All of them: any may have something open of this group's, and asks only those it knows."""
        return map(self._cluster.broker, self._cluster.cluster_info().brokerAddrTable)


def _half_lost(receipt: SendReceipt) -> TransactionError:
    return TransactionError(
        f"The transaction was executed, and broker {receipt.queue.broker_name!r} has no half message {receipt.msg_id} "
        "any more: it serves another store by now, or lost the end of its own in a crash.",
        hint="Send it again: nobody has the message, and nobody will ask about it.",
    )


def surely_not_stored(error: RmqError) -> bool:
    """A half message that may be stored is not sent again: the broker would ask about both, and both could count. One
    whose disk failed has it in its log, perhaps for good."""
    return worth_another_try(error) and not isinstance(error, RequestTimeout | ConnectionLost | NotWritable)


def _prepared(message: Message, msg_id: str) -> PreparedMessage:
    return PreparedMessage(
        message.topic,
        message.body,
        message.tags,
        message.keys,
        message.properties,
        message.flag,
        message.delay_level,
        message.deliver_time_ms,
        message.wait_stored,
        message.delay_ms,
        msg_id,
    )
