"""Resets that reach a query: asked for, recorded in the checkpoint, and only then over."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.state.resets import GroupQueue
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ResetOffsetBody
from rmqspark.remoting.response import Response
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import RetryPolicy
from rmqspark.source.planning.planner import Snapshot
from rmqspark.source.planning.rewinds import IDLE_LOOK_MS, Rewinds
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.protocol.headers.consume import ConsumerGroupRequestHeader

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
QUIET = RetryPolicy(0, 0)
HERE = Snapshot({Q0: 100, Q1: 100}, {"broker-a": StoreIdentity()})


class Broker:
    """A cluster of one broker, with the real table of resets."""

    name = "broker-a"

    def __init__(self, *, groups: int = 1) -> None:
        self.clock = ManualClock()
        self.offsets = ConsumerOffsets()
        self.asked = 0
        self._able = Capabilities(groups=groups)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        self.offsets.reset("g", queue.topic, queue.queue_id, offset)

    @property
    def pending(self) -> dict[int, int]:
        return {queue.queue_id: offset for queue, offset in self.offsets.resets.of("g").items()}

    def broker(self, name: str) -> Broker:
        return self

    def capabilities(self) -> Capabilities:
        return self._able

    def submit(self, code: int, header: ConsumerGroupRequestHeader, body: bytes, *, timeout_ms: int) -> Any:
        self.asked += 1
        for queue, offset in ResetOffsetBody.decode(body).offsetTable.items():
            self.offsets.resets.settle(GroupQueue(header.consumerGroup, queue.topic, queue.queue_id), offset)
        table = {MessageQueue("t", "broker-a", each): offset for each, offset in self.pending.items()}
        answer: Future[Response] = Future()
        answer.set_result(Response(0, 1, None, 479, {}, ResetOffsetBody(table).encode()))
        return answer


def rewinds(broker: Any) -> Rewinds:
    return Rewinds(broker, QUIET)


def at(position: int, epoch: int = 0) -> Offsets:
    return Offsets("g", {Q0: position}, {}, {"t": epoch})


def test_a_reset_is_over_when_it_is_in_the_checkpoint() -> None:
    """Asked for until Spark comes back with the offset that carries it out; the group's commits count again then."""
    broker = Broker()
    query = rewinds(broker)
    assert query.due(at(50), HERE) == {}
    broker.reset(Q0, 7)
    assert query.due(at(51), HERE) == {Q0: 7}
    query.planned(at(7, epoch=1), {Q0: 7})
    assert query.due(at(51), HERE, is_idle=True) == {Q0: 7}, "Spark has not taken it"
    query.planned(at(7, epoch=1), {Q0: 7})
    assert not broker.offsets.commit("g", "t", 0, 51)
    assert query.due(at(7, epoch=1), HERE) == {}
    assert broker.pending == {}
    assert broker.offsets.commit("g", "t", 0, 8)


def test_a_driver_that_dies_in_between_is_asked_again() -> None:
    """Before the broker was told, nothing was read from the new place: whoever stands there reads on. With Trigger.Once
    each run has one batch, and ends before it could say so; to enter there again would be all that it ever does."""
    broker = Broker()
    broker.reset(Q0, 7)
    first = rewinds(broker)
    first.planned(at(7, epoch=1), first.due(at(50), HERE))
    assert broker.pending == {0: 7}
    assert rewinds(broker).due(at(7, epoch=1), HERE) == {}
    assert broker.pending == {}


def test_a_member_says_nothing_of_a_queue_that_may_be_another_s() -> None:
    """One that was frozen still has a place in it: the reset is for who reads it now. That it has carried one out
    itself it does say."""
    broker, place = Broker(), replace(at(7), member="me")
    broker.reset(Q0, 7)
    query = rewinds(broker)
    assert query.due(place, HERE) == {Q0: 7}
    assert broker.pending == {0: 7}
    query.planned(place, {Q0: 7})
    assert query.due(place, HERE) == {}
    assert broker.pending == {}


def test_a_place_in_a_store_that_is_no_more_is_not_where_the_group_was_set_to() -> None:
    """A query that ended because its broker serves another store goes on where an operator says, by the same number
    too."""
    broker = Broker()
    broker.reset(Q0, 7)
    other = replace(HERE, stores={"broker-a": StoreIdentity("another", 1)})
    assert rewinds(broker).due(at(7), other) == {Q0: 7}
    assert broker.pending == {0: 7}


def test_a_second_reset_meanwhile_is_not_lost() -> None:
    """Only what was carried out is over."""
    broker = Broker()
    broker.reset(Q0, 7)
    query = rewinds(broker)
    query.planned(at(7, epoch=1), query.due(at(50), HERE))
    broker.reset(Q0, 3)
    assert query.due(at(7, epoch=1), HERE) == {Q0: 3}


def test_queues_that_are_not_read_here_are_left_to_others() -> None:
    """A reset of a queue that another query of the group reads is that one's."""
    broker = Broker()
    broker.reset(Q1, 7)
    assert rewinds(broker).due(at(50), HERE) == {}
    assert broker.pending == {1: 7}


def test_an_idle_query_asks_once_a_second() -> None:
    """Every batch that is planned asks; the hundred looks a second between two batches do not."""
    broker = Broker()
    query = rewinds(broker)
    for _ in range(10):
        query.due(at(50), HERE, is_idle=True)
    assert broker.asked == 1
    query.due(at(50), HERE)
    query.due(at(51), HERE, is_idle=True)
    assert broker.asked == 3
    broker.clock.advance(ms=IDLE_LOOK_MS)
    query.due(at(51), HERE, is_idle=True)
    assert broker.asked == 4


def test_stock_brokers_are_not_asked() -> None:
    """They keep resets for pulls of the group alone."""
    broker = Broker(groups=0)
    assert rewinds(broker).due(at(50), HERE) == {}
    assert broker.asked == 0
