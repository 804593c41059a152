"""The check-back: producers are asked about half messages that nobody ended, and what they do not know is set aside.

RocketMQ: TransactionalMessageCheckService, AbstractTransactionalMessageCheckListener; spec: requests, section 4
(code 39). The question goes to one producer of the group that is online, to another each time; its answer is an
END_TRANSACTION like any other. As in RocketMQ a question counts even if nobody is there to hear it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import CheckTransactionStateRequestHeader
from rmqspark.txn.half_messages.half_ledger import Ask, SetAside
from rmqspark.txn.half_messages.half_message import question

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.broker.transactions.half_messages import HalfMessages
    from rmqspark.remoting.request import Connection

_AT_ONCE: Final = 100  # actions between two looks at what else there is to do

log = structlog.get_logger("rmqspark.broker")


class CheckBack:
    """Does what is due, round by round. `may_hear` says whether a producer may be shown a message of a topic."""

    def __init__(
        self,
        halves: HalfMessages,
        clients: ClientRegistry,
        publisher: TopicPublisher,
        may_hear: Callable[[Connection, str], bool],
        *,
        broker_name: str,
    ) -> None:
        self._halves = halves
        self._clients = clients
        self._publisher = publisher
        self._may_hear = may_hear
        self._broker_name = broker_name

    async def run_round(self) -> None:
        """To be called a few times a second. What goes wrong with one half message does not hold up the others, nor
        the offsets (RocketMQ's issue 9500)."""
        more = True
        while more:
            more = self._halves.follow()
            await asyncio.sleep(0)
        while actions := self._halves.take_due(_AT_ONCE):
            for action in actions:
                self._do(action)
            await asyncio.sleep(0)
        self._halves.save_progress()

    def _do(self, action: Ask | SetAside) -> None:
        try:
            match action:
                case Ask():
                    self._ask(action)
                case SetAside(half, reason):
                    self._halves.set_aside(half, reason)
                    self._publisher.hurry()
        except (RmqError, OSError) as error:
            log.error("a half message could not be seen to", queue_offset=action.half.queue_offset, error=str(error))

    def _ask(self, action: Ask) -> None:
        half, record = self._halves.read(action.half)
        producer = self._producer(half.identity.group, half.real_topic, action.checks)
        if producer is None:
            log.info("no producer to ask", group=half.identity.group, queue_offset=half.queue_offset)
            return
        header = CheckTransactionStateRequestHeader(
            tranStateTableOffset=half.queue_offset,
            commitLogOffset=half.physical_offset,
            topic=half.real_topic,
            msgId=half.identity.unique_key,
            transactionId=half.identity.unique_key,
            offsetMsgId=self._halves.msg_id(half),
            bname=self._broker_name,
        )
        body = question(half, record, action.checks)
        producer.send_request_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, body)

    def _producer(self, group: str, topic: str, turn: int) -> Connection | None:
        members = [member.connection for member in self._clients.producers(group)]
        online = [each for each in members if not each.closed and self._may_hear(each, topic)]
        return online[turn % len(online)] if online else None
