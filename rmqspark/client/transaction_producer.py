"""Sends messages that count only if a transaction of the sender's own does (RocketMQ's TransactionMQProducer).

    half message stored → listener.execute → COMMIT, ROLLBACK, or UNKNOWN: then, or if the word of it is lost,
    the broker asks → listener.check

So message and transaction come about together or not at all, whatever dies in between, if `check` finds out what
`execute` did from where the transaction itself left its traces.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster_client import ClusterClient
from rmqspark.client.delivery import Delivery, Parcel, worth_another_try
from rmqspark.client.identity import MessageIds
from rmqspark.client.message_kinds import check_message
from rmqspark.client.outgoing import SendConfig, outgoing, waits
from rmqspark.client.received import received
from rmqspark.client.selection import Target
from rmqspark.errors import (
    ConnectionLost,
    InvalidMessage,
    NotSupported,
    NotWritable,
    RequestTimeout,
    RmqError,
    TransactionError,
)
from rmqspark.model import PreparedMessage, SendStatus, TransactionReceipt, TransactionState
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.fields import from_fields
from rmqspark.protocol.headers.produce import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rmqspark.protocol.names import check_group
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import SysFlag, decode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import Message, ReceivedMessage, SendReceipt
    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.reply import Reply

_CHECK_THREADS: Final = 2
_MOST_CHECKS_WAITING: Final = 2000  # RocketMQ's checkRequestHoldMax; the broker asks again about what is dropped
_NO_SUCH_HALF: Final = (  # RocketMQ's words
    "Find prepared transaction message failed",
    "The producer group wrong",
    "The transaction state table offset wrong",
)
_DECISIONS: Final = {TransactionState.COMMIT: SysFlag.COMMITTED, TransactionState.ROLLBACK: SysFlag.ROLLED_BACK}

log = logging.getLogger(__name__)


@runtime_checkable
class TransactionListener(Protocol):
    """The sender's side of a transaction. Both methods may be called on any thread, `check` also for messages that an
    earlier process of the same group sent. What either raises counts as UNKNOWN and is logged."""

    def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
        """Carries the transaction out, now that the message waits for it. `arg` is what `send` was given."""

    def check(self, message: ReceivedMessage) -> TransactionState:
        """What became of the transaction of this message; UNKNOWN while it is under way."""


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
        self._listener = listener
        self._config = config or SendConfig()
        self._begin()
        self._cluster = ClusterClient(namesrv, clock=clock, entropy=entropy, on_request=self._asked, access=access)
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
        self._begin_if_forked()
        check_message(message)
        if waits(message):
            raise InvalidMessage("A message of a transaction cannot be delayed.", hint="Send it without a delay.")
        receipt = self._send_half(message, queue, shard, timeout_ms)
        state = TransactionState.ROLLBACK
        if receipt.status is SendStatus.OK:
            prepared = _prepared(message, receipt.msg_id)
            state = _heard("execute", receipt.msg_id, lambda: self._listener.execute(prepared, arg))
        self._end(message.topic, receipt, state)
        return TransactionReceipt(state, receipt)

    def close(self) -> None:
        """Waits a moment for checks under way, tells the brokers good-bye and closes the connections. Again: does
        nothing. What is open is asked of other producers of the group, or of the next."""
        self._begin_if_forked()
        with self._checks_lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            return
        try:
            self._checks.shutdown(wait=False, cancel_futures=True)
            wait(tuple(self._checking), self._config.send_msg_timeout / 1000)
            self._cluster.heartbeats.remove_producer(self.group)
        finally:
            self._cluster.close()

    def _begin_if_forked(self) -> None:
        """A process that was forked has none of its parent's threads, and one of them may have held a lock. It is asked
        once it has sent something."""
        if self._pid != os.getpid():
            self._begin()

    def _begin(self) -> None:
        """Answers the brokers' questions in this process."""
        self._checks = ThreadPoolExecutor(_CHECK_THREADS, thread_name_prefix="rmqspark-check")
        self._checking: set[Future[None]] = set()
        self._checks_lock = threading.Lock()  # between a question that comes in and `close`
        self._pid = os.getpid()

    # --- the way out -------------------------------------------------------------------------------------------------

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
        decision = _DECISIONS.get(state)
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

    # --- the brokers' questions --------------------------------------------------------------------------------------

    def _brokers(self) -> Iterator[BrokerClient]:
        """All of them: any may have something open of this group's, and asks only those it knows."""
        return map(self._cluster.broker, self._cluster.cluster_info().brokerAddrTable)

    def _asked(self, address: str, command: Command, body: memoryview) -> Reply | None:
        """On a reader thread: nothing may wait here."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            raise NotSupported(f"request type {command.code} not supported")
        header = from_fields(command.fields, CheckTransactionStateRequestHeader)
        with self._checks_lock:
            if self._closed or len(self._checking) >= _MOST_CHECKS_WAITING:
                return None
            check = self._checks.submit(self._check, address, header, bytes(body))
            self._checking.add(check)
        check.add_done_callback(self._checking.discard)
        return None

    def _check(self, address: str, header: CheckTransactionStateRequestHeader, body: bytes) -> None:
        try:
            message = received(decode_record(body), header.bname or "")
            if message.properties.get(Property.PRODUCER_GROUP) != self.group:
                return
            state = _heard("check", message.msg_id, lambda: self._listener.check(message))
            decision = _DECISIONS.get(state)
            if decision is not None:
                self._cluster.answer(
                    address, RequestCode.END_TRANSACTION, self._verdict(header, message.msg_id, decision)
                )
        except RmqError as error:
            log.warning("the question of %s was not answered, it will ask again: %s", address, error)

    def _verdict(
        self, header: CheckTransactionStateRequestHeader, msg_id: str, decision: int
    ) -> EndTransactionRequestHeader:
        return EndTransactionRequestHeader(
            producerGroup=self.group,
            tranStateTableOffset=header.tranStateTableOffset,
            commitLogOffset=header.commitLogOffset,
            commitOrRollback=decision,
            msgId=msg_id,
            fromTransactionCheck=True,
            transactionId=header.transactionId,
            topic=header.topic,
            bname=header.bname,
        )


def _heard(method: str, msg_id: str, call: Callable[[], object]) -> TransactionState:
    """What the listener says; UNKNOWN, and a line in the log, where it says nothing that makes sense."""
    try:
        state = call()
    except Exception:  # a user's code, on a thread of ours: logged, and the broker asks again
        log.exception("the transaction listener failed to %s %s", method, msg_id)
        return TransactionState.UNKNOWN
    if isinstance(state, TransactionState):
        return state
    log.error("the transaction listener's %s returned %r for %s, not a TransactionState", method, state, msg_id)
    return TransactionState.UNKNOWN


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
