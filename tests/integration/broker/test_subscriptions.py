"""Members of a group that want different messages."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.bodies.client import BROADCASTING, SQL92, ConsumerData, HeartbeatData, SubscriptionData

pytestmark = pytest.mark.integration
WARNING = "members of a group want different messages: what one passes over in its queues, none of them gets"


def heartbeat(client_id: str, expression: str, **fields: str) -> HeartbeatData:
    kind = {"expressionType": fields.pop("kind")} if "kind" in fields else {}
    wanted = SubscriptionData("orders", expression, **kind)
    return HeartbeatData(client_id, [], [ConsumerData("billing", subscriptionDataSet=[wanted], **fields)])


@pytest.mark.parametrize(
    ("one", "another", "times"),
    [
        (heartbeat("c1", "paid"), heartbeat("c2", "shipped"), 1),
        (heartbeat("c1", "*"), heartbeat("c2", "shipped"), 1),
        (heartbeat("c1", "paid"), heartbeat("c2", "paid", kind=SQL92), 1),
        (heartbeat("c1", "paid || shipped"), heartbeat("c2", "shipped||paid"), 0),
        (heartbeat("c1", "*"), heartbeat("c2", ""), 0),
        (heartbeat("c1", "paid"), heartbeat("c1", "shipped"), 0),  # has changed its mind
        (heartbeat("c1", "paid", messageModel=BROADCASTING), heartbeat("c2", "shipped", messageModel=BROADCASTING), 0),
    ],
)
def test_the_broker_s_log_tells_of_them_once(on_broker, one: HeartbeatData, another: HeartbeatData, times: int) -> None:
    """The group has consumed what a member passes over in the queues that are its own, and others never see it."""

    async def talk(bench) -> None:
        first, second = await bench.connect(), await bench.connect()
        with capture_logs() as logs:
            for _ in range(2):
                await first.heartbeat(one)
                await second.heartbeat(another)
        told = [each for each in logs if each["event"] == WARNING]
        assert [(each["group"], each["client"], each["topic"]) for each in told] == [
            ("billing", "c2", "orders")
        ] * times

    on_broker(talk)
