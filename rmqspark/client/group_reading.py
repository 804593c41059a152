"""What those who read for a group ask its brokers beyond RocketMQ's protocol: resets that they have to carry out.

Stock brokers know none of it (`BrokerClient.capabilities().groups`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.futures import then
from rmqspark.protocol.bodies import ResetOffsetBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers import ConsumerGroupRequestHeader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.model import MessageQueue

RESETS_TIMEOUT_MS = 5_000


def pending_resets(
    broker: BrokerClient, group: str, settled: Mapping[MessageQueue, int]
) -> Future[dict[MessageQueue, int]]:
    """RMQ_GROUP_RESETS: where the group has to go on in queues of this broker. The group exists from then on.

    `settled` are resets that the reader has carried out; one that was changed meanwhile is still there.
    """
    header = ConsumerGroupRequestHeader(group)
    body = ResetOffsetBody(dict(settled)).encode()
    answer = broker.submit(RequestCode.RMQ_GROUP_RESETS, header, body, timeout_ms=RESETS_TIMEOUT_MS)
    return then(answer, lambda response: ResetOffsetBody.decode(response.raise_for_code().body).offsetTable)
