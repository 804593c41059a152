"""Producers of a simulation: each send is tried until somebody answers, or it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.sending.outgoing import Outgoing, SendConfig, outgoing, outgoing_batch
from rmqspark.errors import ConnectionLost, NotWritable, RmqError
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.faults import from_response
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.testing.history import content_to_send, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient

_GROUP = "producers"
_CONFIG = SendConfig()
_TAGS = (None, "a", "b")


class SendPlan(NamedTuple):
    """How a producer sends: the largest body, batches of up to, pauses, tries, the timeout of each."""

    topic: str
    queues: Sequence[MessageQueue]
    largest_body: int
    batches: int
    longest_pause_s: float
    tries: int
    timeout_ms: int
    is_durable: bool
    """Whether what is acknowledged outlives a power loss."""
    doubts_refusals: bool = False
    """Whether NotWritable may be of a message that waited for an fsync that failed, and may be there after a start."""
    on_ack: Callable[[str, int], None] | None = None
    """Told the broker and the physical offset of what it says is stored."""


class Producer:
    """Sends one after the other, so that law 5 has an order to hold it to."""

    def __init__(self, client: SimClient, plan: SendPlan) -> None:
        self.client = client
        self._plan = plan
        self._world = client.world
        self.sent = 0
        self.is_to_stop = False

    async def run(self, sends: int) -> None:
        """So many sends, or until it is to stop."""
        for _ in range(sends):
            if self.is_to_stop:
                return
            await self.send(self.client.random.choice(self._plan.queues))
            await self.client.pause(self._plan.longest_pause_s)

    async def send(self, queue: MessageQueue) -> bool:
        """One send in its tries; whether it was acknowledged."""
        messages = self._messages()
        parcel = self._parcel(messages)
        history, unknown = self._world.history, 0
        number = history.sending(self.client.name, [content_to_send(message) for message in messages])
        for last in [*[False] * (self._plan.tries - 1), True]:
            try:
                offset = await self._try(queue, parcel, len(messages) > 1)
            except RmqError as error:
                unknown += self._may_be_there(error)
                if last:
                    history.not_sent(number, error, unknown_tries=unknown - (outcome_of(error) == "unknown"))
                self._world.trace.reached(f"send {type(error).__name__}")
            else:
                history.stored(number, queue, offset, durable=self._plan.is_durable, unknown_tries=unknown)
                self._world.on_promise(queue.broker_name, False)
                return True
            if not last:
                await self.client.pause(1.0)
        return False

    def _may_be_there(self, error: RmqError) -> bool:
        if isinstance(error, NotWritable) and self._plan.doubts_refusals:
            return True
        return outcome_of(error) == "unknown"

    def _messages(self) -> list[Message]:
        random, plan = self.client.random, self._plan
        count = random.randint(1, plan.batches)
        messages = []
        for _ in range(count):
            self.sent += 1
            body = random.randbytes(random.randint(0, plan.largest_body)) or b"-"
            name = f"{self.client.name}-{self.sent}"
            messages.append(Message(plan.topic, body, random.choice(_TAGS), [name], {"n": str(self.sent)}))
        return messages

    def _parcel(self, messages: list[Message]) -> Outgoing:
        ids = [self.client.random.randbytes(16).hex().upper() for _ in messages]
        if len(messages) > 1:
            return outgoing_batch(messages, ids, _CONFIG)
        return outgoing(messages[0], ids[0], _CONFIG)

    async def _try(self, queue: MessageQueue, parcel: Outgoing, is_batch: bool) -> int:
        """The queue offset it was stored at. An answer of a broker that has since forgotten what it did is none."""
        incarnation = self._world.incarnations.get(queue.broker_name)
        address = await self.client.address_of(queue)
        header = SendMessageRequestHeaderV2(
            _GROUP,
            queue.topic,
            AUTO_CREATE_TOPIC,
            4,
            queue.queue_id,
            parcel.sys_flag,
            self._world.nodes[queue.broker_name].clock.now_ms(),
            parcel.flag,
            parcel.properties,
            0,
            k=False,
            m=is_batch,
            n=queue.broker_name,
        )
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        answer = await self.client.call(address, code, header, parcel.body, timeout_ms=self._plan.timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise from_response(answer.code, answer.remark, topic=queue.topic)
        if not self._plan.is_durable and incarnation != self._world.incarnations.get(queue.broker_name):
            raise ConnectionLost("It is another broker by now.", address=address)
        receipt = answer.header(SendMessageResponseHeader)
        if receipt.queueId != queue.queue_id:
            self._world.violated(f"sent to {queue}, answered for queue {receipt.queueId}")
        if self._plan.on_ack is not None and incarnation == self._world.incarnations.get(queue.broker_name):
            self._plan.on_ack(queue.broker_name, parse_offset_msg_id(receipt.msgId.rpartition(",")[2])[1])
        return receipt.queueOffset
