"""What a batch read of a shared group has to be its query's still when the batch is decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import Busy, LeaseLost, TransactionError, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response
from rmqspark.txn.coordinator.input_leases import InputLeases

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HERE, THERE = MessageQueue("t", "a", 0), MessageQueue("t", "b", 1)


class Brokers:
    """This broker's table and another broker: who holds what is in `held`."""

    def __init__(self, *held: tuple[MessageQueue, int]) -> None:
        self.held = set(held)
        self.is_away = False

    def here(self, group: str, member: str, run: int, leases: Mapping[MessageQueue, int]) -> Collection[MessageQueue]:
        assert (group, member, run) == ("g", "m", 3)
        return [queue for queue, number in leases.items() if (queue, number) in self.held]

    async def listed(self, brokers: Collection[str]) -> set[str]:
        return {"b"} & set(brokers)

    async def call(self, broker: str, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Response:
        if self.is_away:
            raise Unreachable("Nobody is there.", address=broker)
        assert (code, header.consumerGroup, header.clientId) == (RequestCode.RMQ_GROUP_LEASES, "g", "m")
        if header.run != 3:
            raise LeaseLost("A later run has taken over.")
        asked = GroupLeasesBody.decode(body).keep
        held = [
            each for each in asked if (MessageQueue(each.topic, each.brokerName, each.queueId), each.lease) in self.held
        ]
        return Response(0, 1, None, 479, {}, GroupLeasesAnswerBody(60_000, held).encode())


def lost(brokers: Brokers, *ranges: InputRange) -> str | None:
    leases = InputLeases("a", brokers.here, brokers)  # type: ignore[arg-type]
    return asyncio.run(leases.lost(ranges))


def read(queue: MessageQueue, lease: int | None, run: int = 3) -> InputRange:
    leased = ("m", lease, "run", run) if lease else ()
    return InputRange("g", queue.topic, queue.broker_name, queue.queue_id, 0, 5, *leased)


def test_a_batch_may_be_decided_while_its_leases_hold() -> None:
    """Every queue's own broker is asked; what is not of a shared group needs no lease."""
    brokers = Brokers((HERE, 1), (THERE, 2))
    assert lost(brokers, read(HERE, 1), read(THERE, 2)) is None
    assert lost(Brokers(), read(HERE, None)) is None


@pytest.mark.parametrize(("queue", "name"), [(HERE, "t/a/0"), (THERE, "t/b/1")])
def test_who_has_lost_one_is_told_which(queue: MessageQueue, name: str) -> None:
    """Another number is another lease, though the queue may be the same member's again."""
    story = lost(Brokers((HERE, 9), (THERE, 9)), read(queue, 1))
    assert story is not None
    assert f"queue {name} of the shared group 'g'" in story


def test_who_is_not_the_latest_run_has_lost_it() -> None:
    """Another broker refuses to renew it; that is an answer, and nothing to wait for."""
    assert "queue t/b/1 of the shared group 'g'" in (lost(Brokers((THERE, 2)), read(THERE, 2, run=1)) or "")


def test_a_broker_that_is_away_is_waited_for() -> None:
    """Whether the lease holds cannot be told now: the decision can be asked for again."""
    brokers = Brokers((THERE, 2))
    brokers.is_away = True
    with pytest.raises(Busy, match="'b' cannot be asked for leases now"):
        lost(brokers, read(THERE, 2))


def test_made_up_holders_are_not_looked_for() -> None:
    """A name that no name server lists may be a broker's that has just come: the driver asks again. Thousands are
    nobody's."""
    with pytest.raises(Busy, match="no name server lists"):
        lost(Brokers(), read(MessageQueue("t", "ghost", 0), 1))
    with pytest.raises(TransactionError, match="at most"):
        lost(Brokers(), *(read(MessageQueue("t", f"ghost-{number}", 0), 1) for number in range(1_001)))
