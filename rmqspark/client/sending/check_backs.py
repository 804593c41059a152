"""The brokers' questions about half messages: the sender's listener is asked, on threads of their own, and the brokers
are told what it says."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from rmqspark.client.pulling.received import received
from rmqspark.client.sending.transaction_listener import DECISIONS, heard
from rmqspark.errors import NotSupported, RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.fields import from_fields
from rmqspark.protocol.headers.produce import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.client.sending.transaction_listener import TransactionListener
    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.reply import Reply

    Answer = Callable[[str, EndTransactionRequestHeader], None]

_THREADS: Final = 2
_MOST_WAITING: Final = 2000  # RocketMQ's checkRequestHoldMax; the broker asks again about what is dropped

log = logging.getLogger(__name__)


class CheckBacks:
    """Answers for one group. `answer` tells the broker at an address. A process that was forked has none of its
    parent's threads, and one of them may have held a lock: it answers from `begin_if_forked` on."""

    def __init__(self, group: str, listener: TransactionListener, answer: Answer) -> None:
        self._group = group
        self.listener = listener
        self._answer = answer
        self._closed = False
        self._begin()

    def begin_if_forked(self) -> None:
        if self._pid != os.getpid():
            self._begin()

    def _begin(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rmqspark-check")
        self._under_way: set[Future[None]] = set()
        self._lock = threading.Lock()  # between a question that comes in and `close`
        self._pid = os.getpid()

    def asked(self, address: str, command: Command, body: memoryview) -> Reply | None:
        """A broker's request, on a reader thread: nothing may wait here."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            raise NotSupported(f"request type {command.code} not supported")
        header = from_fields(command.fields, CheckTransactionStateRequestHeader)
        with self._lock:
            if self._closed or len(self._under_way) >= _MOST_WAITING:
                return None
            check = self._threads.submit(self._check, address, header, bytes(body))
            self._under_way.add(check)
        check.add_done_callback(self._under_way.discard)
        return None

    def close(self) -> bool:
        """Takes no more questions; False if it took none before."""
        self.begin_if_forked()
        with self._lock:
            was_closed, self._closed = self._closed, True
        return not was_closed

    def drain(self, timeout_ms: int) -> None:
        """Returns when all that is under way is answered, or after so long; what has not begun is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        wait(tuple(self._under_way), timeout_ms / 1000)

    def _check(self, address: str, header: CheckTransactionStateRequestHeader, body: bytes) -> None:
        try:
            message = received(decode_record(body), header.bname or "")
            if message.properties.get(Property.PRODUCER_GROUP) != self._group:
                return
            decision = DECISIONS.get(heard("check", message.msg_id, lambda: self.listener.check(message)))
            if decision is not None:
                self._answer(address, self._verdict(header, message.msg_id, decision))
        except RmqError as error:
            log.warning("the question of %s was not answered, it will ask again: %s", address, error)

    def _verdict(
        self, header: CheckTransactionStateRequestHeader, msg_id: str, decision: int
    ) -> EndTransactionRequestHeader:
        return EndTransactionRequestHeader(
            producerGroup=self._group,
            tranStateTableOffset=header.tranStateTableOffset,
            commitLogOffset=header.commitLogOffset,
            commitOrRollback=decision,
            msgId=msg_id,
            fromTransactionCheck=True,
            transactionId=header.transactionId,
            topic=header.topic,
            bname=header.bname,
        )
