"""What a member sees of its topics, from what several brokers tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.routes import topic_route
from rmqspark.client.pushing.lookout import Lookout
from rmqspark.errors import NoBrokers, Unreachable
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rmqspark.client.cluster.routes import TopicRoute
    from rmqspark.client.pushing.assignment import View
    from rmqspark.errors import RmqError

BROKERS = ("broker-a", "broker-b", "broker-c")
AWAY = Unreachable("Nobody is there.", address="nowhere")


class Bench:
    """A lookout, and all that it asks: routes, heartbeats, and who is in the group."""

    group = "billing"

    def __init__(self, known: dict[str, Collection[str] | None], away: Collection[str] = ()) -> None:
        self._known = known
        self.failure: RmqError | None = None
        self._away = away
        self._route = topic_route(
            "orders",
            TopicRouteData(
                queueDatas=[QueueData(brokerName=name, readQueueNums=1, writeQueueNums=1, perm=6) for name in BROKERS],
                brokerDatas=[BrokerData("c", name, {0: f"{name}:10911"}) for name in BROKERS],
            ),
        )
        me: Any = self
        self._lookout = Lookout(me, me, asks_for_members=True)

    def members_seen(self) -> Collection[str] | None:
        view = self.look()
        assert view is not None
        return view.members

    def look(self) -> View | None:
        wants: Any = SimpleNamespace()
        return self._lookout.look({"orders": wants}, fresh=False)["orders"]

    def is_later(self) -> bool:
        return self._lookout.is_later(MessageQueue("orders", "broker-a", 0))

    def route(self, topic: str) -> TopicRoute:
        if self.failure is not None:
            raise self.failure
        return self._route

    def announce(self, broker_names: Iterable[str], _: object) -> dict[str, Unreachable | None]:
        return {name: AWAY if name in self._away else None for name in broker_names}

    def members(self, broker_names: Iterable[str]) -> dict[str, Collection[str] | None]:
        return {name: self._known[name] for name in broker_names}


def test_a_broker_that_has_just_started_does_not_make_a_member_alone() -> None:
    """It has heard of those alone that were the first to notice: who went by it would take the others' queues."""
    bench = Bench({"broker-a": {"me"}, "broker-b": {"me", "you"}, "broker-c": None})
    assert bench.members_seen() == {"me", "you"}


def test_brokers_that_have_not_heard_of_a_member_are_not_asked_who_is_there() -> None:
    assert Bench({"broker-c": {"me", "you"}}, away=("broker-a", "broker-b")).members_seen() == {"me", "you"}
    assert Bench({}, away=BROKERS).members_seen() is None


def test_while_no_broker_is_registered_nothing_is_known_of_a_topic() -> None:
    """Which is no failure, for whoever starts as soon as name servers are there: it is looked for again soon. What it
    has then came later, so that nothing is left out of what is sent from now on."""
    bench = Bench({name: {"me"} for name in BROKERS})
    bench.failure = NoBrokers("No broker is registered.", address="nowhere")
    assert bench.look() is None
    bench.failure = None
    assert bench.members_seen() == {"me"}
    assert bench.is_later()


def test_a_topic_that_is_there_at_first_sight_has_no_later_queues() -> None:
    bench = Bench({name: {"me"} for name in BROKERS})
    assert bench.members_seen() == {"me"}
    assert not bench.is_later()
