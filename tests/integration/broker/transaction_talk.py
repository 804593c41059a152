"""What tests of transactions say to a broker, and what they hear."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rmqspark.protocol.bodies.client import HeartbeatData, ProducerData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import QueryConsumerOffsetRequestHeader
from rmqspark.protocol.headers.produce import EndTransactionRequestHeader
from rmqspark.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

UNIQUE_KEY = "C0A8010A1F9018B4AAC25E0BE0F50007"
HALF = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": UNIQUE_KEY, "TAGS": "TagA", "KEYS": "k1", "WAIT": "true"}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
DECISIONS = {COMMIT: "committed", ROLLBACK: "rolled back"}


async def send_half(client: Any, topic: str = "orders", body: bytes = b"half", **properties: str) -> Response:
    answer = await client.send(topic, body, HALF | properties, e=2, f=4, h=7)
    assert answer.code == 0, answer.remark
    return answer


def end_header(sent: Response, decision: int, **fields: Any) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader(
        **{
            "producerGroup": "PG",
            "tranStateTableOffset": int(sent.fields["queueOffset"]),
            "commitLogOffset": parse_offset_msg_id(sent.fields["msgId"])[1],
            "commitOrRollback": decision,
            "msgId": UNIQUE_KEY,
        }
        | fields
    )


async def end(client: Any, sent: Response, decision: int, **fields: Any) -> Response:
    return await client.ask(RequestCode.END_TRANSACTION, end_header(sent, decision, **fields))


async def all_of(bench: Any, client: Any, topic: str, queue_id: int = 0) -> list[Record]:
    """What is in a queue; none where it does not exist."""
    answer = await client.pull(topic, queueId=queue_id)
    return bench.records(answer) if answer.code == 0 else []


async def eventually(holds: Any) -> None:
    """Returns once `holds`, a coroutine function, says so."""
    async with asyncio.timeout(60):
        is_so = False
        while not is_so:
            await asyncio.sleep(0.01)
            is_so = await holds()


async def committed_offsets(client: Any) -> list[int]:
    """How far CID_RMQ_SYS_TRANS is with half and op queue; 0 where it never committed."""
    offsets = []
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):
        header = QueryConsumerOffsetRequestHeader("CID_RMQ_SYS_TRANS", topic, 0)
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
        offsets.append(int(answer.fields["offset"]) if answer.code == 0 else 0)
    return offsets


async def settled(client: Any, *, half: int, operations: int | None) -> None:
    """Waits until the offsets of both queues are as they should be."""

    async def are_there() -> bool:
        offsets = await committed_offsets(client)
        return offsets[0] == half and operations in (None, offsets[1])

    await eventually(are_there)


async def some(bench: Any, client: Any, topic: str) -> bool:
    return bool(await all_of(bench, client, topic))


class Asked:
    """A producer of group PG that is online and notes what it is asked."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.questions: list[tuple[dict[str, str], Record]] = []
        self._take = client.connection._take
        client.connection._take = self._note  # the client end only answers requests otherwise

    @classmethod
    async def on(cls, bench: Any) -> Asked:
        asked = cls(await bench.connect())
        await asked.client.heartbeat(HeartbeatData(clientID="c", producerDataSet=[ProducerData("PG")]))
        return asked

    def _note(self, command: Any, body: memoryview) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and not command.is_response:
            self.questions.append((dict(command.fields), decode_record(bytes(body))))
        self._take(command, body)

    async def times(self, count: int) -> None:
        """Waits for that many questions."""

        async def enough() -> bool:
            return len(self.questions) >= count

        await eventually(enough)
        assert len(self.questions) == count
