"""A broker that stops while somebody still waits for the disk stops in order: what nobody waits for any more is none's
trouble."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import ConnectionLost
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig
from rmqspark.store.flush import FlushPlan
from rmqspark.testing.memory_files import MemoryFileSystem

from .conftest import SMALL_STORE, Talk

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

pytestmark = [pytest.mark.integration, pytest.mark.faults]


def sent_back(sent: Response) -> tuple[RequestCode, Any]:
    offset = parse_offset_msg_id(sent.fields["msgId"])[1]
    return RequestCode.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequestHeader(offset, "TOOLS_CONSUMER", 0)


def recalled(sent: Response) -> tuple[RequestCode, Any]:
    return RequestCode.RECALL_MESSAGE, RecallMessageRequestHeader("orders", sent.fields["recallHandle"], "PG")


@pytest.mark.parametrize(("question", "properties"), [(sent_back, {}), (recalled, {"TIMER_DELAY_SEC": "100"})])
def test_who_waits_for_a_flush_when_the_broker_stops(
    monkeypatch: pytest.MonkeyPatch, question: Any, properties: dict[str, str]
) -> None:
    """The connection ends when the time for that is over; the flush comes to its end, and so does the broker."""
    begun, go_on, run = threading.Event(), threading.Event(), FlushPlan.run

    def run_slowly(plan: FlushPlan) -> None:
        begun.set()
        assert go_on.wait(60)
        run(plan)

    async def main() -> None:
        broker = Broker(
            BrokerConfig(listen_port=0),
            StoreConfig(**SMALL_STORE, flush_disk_type="SYNC_FLUSH"),
            store_dir="store",
            files=MemoryFileSystem(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            limits=Limits(close_timeout_ms=10),
        )
        async with broker:
            client = Talk(await AsyncConnection.open(broker.address))
            await client.create_topic("orders", queues=1)
            code, header = question(await client.send("orders", b"m", properties))
            monkeypatch.setattr(FlushPlan, "run", run_slowly)
            answer = asyncio.create_task(client.ask(code, header))
            await asyncio.to_thread(begun.wait, 60)
            answer.add_done_callback(lambda _: go_on.set())
        with pytest.raises(ConnectionLost):
            await answer

    asyncio.run(main())
