"""What those who read for a group ask its brokers: who else does, how far the group is, what is theirs, and where an
operator has set the group to.

Members and committed offsets are RocketMQ's; stock brokers know nothing of the rest
(`BrokerClient.capabilities().groups`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import then
from rmqspark.errors import NotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import ResetOffsetBody
from rmqspark.protocol.bodies.client import ConsumerListBody, GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import (
    ConsumerGroupRequestHeader,
    GroupLeasesRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
)
from rmqspark.rebalance.handover import Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.rebalance.handover import Steps
    from rmqspark.remoting.response import Response

RESETS_TIMEOUT_MS = 5_000
LEASES_TIMEOUT_MS = 5_000
OFFSETS_TIMEOUT_MS = 6_000
NO_OFFSET = -1


@dataclass
class Member:
    """One run of a query that is a member of a group. `runs`: by broker name, the number that this broker has given the
    run with its first answer. `strategy`: how it divides the group's queues, in a word that is the same for all who
    divide them alike."""

    group: str
    client_id: str
    runs: dict[str, int] = field(default_factory=dict)
    strategy: str | None = None


class Leases(NamedTuple):
    """What a broker grants; a lease that is not renewed lasts `lease_ms`. `strategies`: how the members divide the
    queues, where they do it in several ways."""

    lease_ms: int
    granted: dict[MessageQueue, Grant]
    strategies: tuple[str, ...] = ()


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


def lease(broker: BrokerClient, member: Member, steps: Steps) -> Future[Leases]:
    """RMQ_GROUP_LEASES: the part of these steps that is about queues of this broker. A position below 0 is not
    committed. The group exists from then on. LeaseLost where a later run of the query has one of the queues."""
    here = broker.name
    header = GroupLeasesRequestHeader(member.group, member.client_id, member.runs.get(here), strategy=member.strategy)
    body = leases_body(here, steps).encode()
    answer = broker.submit(RequestCode.RMQ_GROUP_LEASES, header, body, timeout_ms=LEASES_TIMEOUT_MS)

    def granted(response: Response) -> Leases:
        told = GroupLeasesAnswerBody.decode(response.raise_for_code().body)
        member.runs[here] = told.run
        return leases_of(told)

    return then(answer, granted)


def leases_body(broker_name: str, steps: Steps) -> GroupLeasesBody:
    """The part of these steps that is about queues of this broker."""

    def here(queue: MessageQueue) -> bool:
        return queue.broker_name == broker_name

    return GroupLeasesBody(
        keep=[LeasedQueue(*queue, held.lease, held.position) for queue, held in steps.keep.items() if here(queue)],
        release=[LeasedQueue(*queue, number) for queue, number in steps.release.items() if here(queue)],
        take=[LeasedQueue(*queue) for queue in steps.take if here(queue)],
    )


def leases_of(told: GroupLeasesAnswerBody) -> Leases:
    """What an answer grants."""
    return Leases(told.leaseMs, {_queue(each): _grant(each) for each in told.held}, tuple(told.strategies or ()))


def committed_offsets(
    client: ClusterClient, group: str, queues: Iterable[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """QUERY_CONSUMER_OFFSET: what the group has committed in each of these queues; None where it never has. All are
    asked before the first answer is awaited."""
    answers = {
        queue: client.broker(queue.broker_name).submit(
            RequestCode.QUERY_CONSUMER_OFFSET,
            QueryConsumerOffsetRequestHeader(
                group, queue.topic, queue.queue_id, setZeroIfNotFound=False, bname=queue.broker_name
            ),
            timeout_ms=OFFSETS_TIMEOUT_MS,
        )
        for queue in queues
    }
    return {queue: _committed(answer.result()) for queue, answer in answers.items()}


def members(broker: BrokerClient, group: str) -> Future[list[str]]:
    """GET_CONSUMER_LIST_BY_GROUP: the client ids of those who are connected to this broker for the group."""
    code, header = RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequestHeader(group)
    return then(broker.submit(code, header, timeout_ms=broker.timeout_ms), _members)


def _members(response: Response) -> list[str]:
    if response.code == ResponseCode.SYSTEM_ERROR:  # what RocketMQ answers where there is nobody
        return []
    return ConsumerListBody.decode(response.raise_for_code().body).consumerIdList


def _committed(response: Response) -> int | None:
    try:
        return response.raise_for_code().header(OffsetResponseHeader).offset
    except NotFound:
        return None


def _queue(leased: LeasedQueue) -> MessageQueue:
    return MessageQueue(leased.topic, leased.brokerName, leased.queueId)


def _grant(leased: LeasedQueue) -> Grant:
    return Grant(leased.lease, None if leased.offset == NO_OFFSET else leased.offset)
