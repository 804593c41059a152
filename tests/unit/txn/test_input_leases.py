"""What a batch read of a shared group has to be its query's still when the batch is decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import Busy, LeaseLost, TransactionError, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response
from rmqspark.txn.coordinator.input_leases import InputLeases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

HERE, THERE = MessageQueue("t", "a", 0), MessageQueue("t", "b", 1)


class Brokers:
    """This broker's table and another broker: who holds what is in `held`, and where groups were moved in `moved`."""

    own_name = "a"

    def __init__(self, *held: tuple[MessageQueue, int]) -> None:
        self.held = set(held)
        self.moved: dict[MessageQueue, int] = {}
        self.is_away = False
        self.is_safe = True
        self.coordinator: str | None = "a"  # who says so when it asks

    def keep(
        self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue], coordinator: str
    ) -> list[LeasedQueue]:
        assert (group, member, run, coordinator) == ("g", "m", 3, self.coordinator or "")
        kept = [each for each in wanted if (queue_of(each), each.lease) in self.held]
        news = {queue_of(each): each.offset for each in kept if each.offset != -1}
        self.moved |= news
        self.is_safe = not news
        return kept

    async def make_safe(self) -> None:
        self.is_safe = True

    async def listed(self, brokers: Collection[str]) -> set[str]:
        return {"b"} & set(brokers)

    async def call(self, broker: str, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Response:
        if self.is_away:
            raise Unreachable("Nobody is there.", address=broker)
        assert (code, header.consumerGroup, header.clientId) == (RequestCode.RMQ_GROUP_LEASES, "g", "m")
        assert header.coordinator == self.coordinator
        if header.run != 3:
            raise LeaseLost("A later run has taken over.")
        held = self.keep("g", "m", 3, GroupLeasesBody.decode(body).keep, header.coordinator or "")
        self.is_safe = True  # which it sees to itself
        return Response(0, 1, None, 479, {}, GroupLeasesAnswerBody(60_000, held).encode())


def lost(brokers: Brokers, *ranges: InputRange) -> str | None:
    leases = InputLeases(brokers, brokers)  # type: ignore[arg-type]
    return asyncio.run(leases.lost(ranges))


def left_by(brokers: Brokers, *ranges: InputRange) -> list[InputRange]:
    """By `commit`, to be said another way."""
    leases = InputLeases(brokers, brokers)  # type: ignore[arg-type]
    left = asyncio.run(leases.commit(ranges))
    assert brokers.is_safe
    return left


def queue_of(leased: LeasedQueue) -> MessageQueue:
    return MessageQueue(leased.topic, leased.brokerName, leased.queueId)


def read(queue: MessageQueue, lease: int | None, run: int = 3, end: int = 5) -> InputRange:
    leased = ("m", lease, "run", run) if lease else ()
    return InputRange("g", queue.topic, queue.broker_name, queue.queue_id, 0, end, *leased)


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


def test_groups_go_on_behind_what_was_read_under_leases() -> None:
    """Behind the last range of a queue, whatever their order. To look whether a lease holds moves nothing."""
    brokers = Brokers((HERE, 1), (THERE, 2))
    ranges = (read(HERE, 1, end=9), read(HERE, 1, end=7), read(THERE, 2))
    assert lost(brokers, *ranges) is None
    assert brokers.moved == {}
    assert left_by(brokers, *ranges) == []
    assert brokers.moved == {HERE: 9, THERE: 5}


def test_what_cannot_be_moved_under_a_lease_is_left() -> None:
    """What was read under none, whose lease has been lost since, and of a broker that does not answer."""
    brokers = Brokers((THERE, 2))
    without, given_away, away = read(HERE, None), read(HERE, 1), read(THERE, 2)
    assert left_by(brokers, without, given_away, away) == [without, given_away]
    brokers.is_away = True
    assert left_by(brokers, away) == [away]


def test_that_a_batch_may_be_decided_is_known_while_its_leases_are_asked_for() -> None:
    """A broker that wants to know whether anything was decided is to ask again then."""
    brokers = Brokers((HERE, 1), (THERE, 2))
    leases = InputLeases(brokers, brokers)  # type: ignore[arg-type]
    known: list[bool] = []

    async def listed(names: Collection[str]) -> set[str]:
        known.extend(leases.are_asked(group, [queue]) for group in ("g", "h") for queue in (HERE, THERE))
        return set(names)

    brokers.listed = listed  # type: ignore[method-assign]
    for held in ({(HERE, 1), (THERE, 2)}, set[tuple[MessageQueue, int]]()):
        brokers.held = held
        asyncio.run(leases.lost([read(HERE, 1), read(THERE, 2)]))
        assert not leases.are_asked("g", [HERE, THERE])
    assert known == [True, True, False, False] * 2


def test_no_word_is_waited_for_where_no_group_is_to_follow() -> None:
    """The leases are asked for all the same, in nobody's name but the member's."""
    brokers = Brokers((HERE, 1), (THERE, 2))
    brokers.coordinator = None
    leases = InputLeases(brokers, brokers)  # type: ignore[arg-type]
    assert asyncio.run(leases.lost([read(HERE, 1), read(THERE, 2)], are_followed=False)) is None
