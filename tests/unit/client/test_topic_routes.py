"""What clients make of routes: RocketMQ's rules for which queues may be written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.routes import (
    BORROWED_FRESH_MS,
    HEADLESS_FRESH_MS,
    ROUTE_FRESH_MS,
    RouteCache,
    TopicRoute,
    borrowed_route,
    topic_route,
)
from rmqspark.errors import BodyError
from rmqspark.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

if TYPE_CHECKING:
    from rmqspark.model import MessageQueue


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData("c", name, {int(key[1:]): address for key, address in addresses.items()})


def queues(name: str, *, read: int = 2, write: int = 2, perm: int = 6) -> QueueData:
    return QueueData(name, read, write, perm)


def names(found: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}/{queue.queue_id}" for queue in found]


@pytest.mark.parametrize(
    ("route", "publish", "subscribe"),
    [
        pytest.param(
            TopicRouteData([queues("b"), queues("a", read=1, write=3)], [broker("a", _0="x:1"), broker("b", _0="x:2")]),
            ["a/0", "a/1", "a/2", "b/0", "b/1"],
            ["a/0", "b/0", "b/1"],
            id="sorted by broker name, read and write counted apart",
        ),
        pytest.param(
            TopicRouteData([queues("a", perm=4), queues("b", perm=2)], [broker("a", _0="x:1"), broker("b", _0="x:2")]),
            ["b/0", "b/1"],
            ["a/0", "a/1"],
            id="permissions",
        ),
        pytest.param(
            TopicRouteData([queues("a")], [broker("a", _1="x:1")]),
            [],
            ["a/0", "a/1"],
            id="a slave alone can be read, not written",
        ),
        pytest.param(
            TopicRouteData(
                [queues("a", write=8)], [broker("a", _0="x:1")], orderTopicConf="b:1;a:2;junk;a:²;b:" + "9" * 5_000
            ),
            ["b/0", "a/0", "a/1"],
            ["a/0", "a/1"],
            id="an ordered topic has exactly the queues of its configuration",
        ),
    ],
)
def test_queues_of_a_route(route: TopicRouteData, publish: list[str], subscribe: list[str]) -> None:
    """Producers and consumers see the queues that RocketMQ's clients see, in the same order."""
    seen = topic_route("t", route)
    assert names(seen.publish_queues) == publish
    assert names(seen.subscribe_queues) == subscribe


def test_a_slave_is_used_only_where_there_is_no_master() -> None:
    """Reads go to the master while there is one."""
    route = topic_route("t", TopicRouteData([queues("a")], [broker("a", _2="s2:1", _1="s1:1")]))
    assert (route.master("a"), route.address("a"), route.address("b")) == (None, "s1:1", None)
    route = topic_route("t", TopicRouteData([queues("a")], [broker("a", _1="s1:1", _0="m:1")]))
    assert (route.master("a"), route.address("a")) == ("m:1", "m:1")


def test_an_absurd_number_of_queues_is_refused() -> None:
    """A hostile name server cannot make a client fill its memory with queues."""
    with pytest.raises(BodyError, match="2147483647"):
        topic_route("t", TopicRouteData([queues("a", write=2**31 - 1)], [broker("a", _0="x:1")]))


def test_a_borrowed_route_has_at_most_four_queues_a_broker() -> None:
    """A topic that is yet to be created is sent to like TBW102, with min(4, its queues) on each broker."""
    template = topic_route(
        "TBW102",
        TopicRouteData([queues("a", write=8), queues("b", write=2)], [broker("a", _0="x:1"), broker("b", _0="x:2")]),
    )
    borrowed = borrowed_route("new", template, 4)
    assert names(borrowed.publish_queues) == ["a/0", "a/1", "a/2", "a/3", "b/0", "b/1"]
    assert {queue.topic for queue in borrowed.publish_queues} == {"new"}
    assert borrowed.borrowed
    assert not borrowed.subscribe_queues


def test_routes_are_fresh_for_thirty_seconds() -> None:
    """A route is asked for again after 30 s, when it is expired by hand, and after one second if it was borrowed."""
    route = topic_route("t", TopicRouteData([queues("a")], [broker("a", _0="x:1")]))
    cache = RouteCache()
    cache.put(route, 0)
    assert cache.fresh("t", ROUTE_FRESH_MS - 1) is route
    assert cache.fresh("t", ROUTE_FRESH_MS) is None
    assert cache.last_known("t") is route
    cache.put(route, 0)
    cache.expire("t")
    assert cache.fresh("t", 1) is None
    assert cache.last_known("t") is route
    cache.forget("t")
    assert cache.last_known("t") is None
    borrowed = borrowed_route("t", route, 4)
    cache.put(borrowed, 0)
    assert cache.fresh("t", BORROWED_FRESH_MS - 1) is borrowed
    assert cache.fresh("t", BORROWED_FRESH_MS) is None


def test_a_master_that_comes_back_is_soon_found() -> None:
    """A route that names slaves alone for one of its brokers is asked for again after two seconds."""
    headless = topic_route("t", TopicRouteData([queues("a")], [broker("a", _0="x:1"), broker("b", _1="x:2")]))
    cache = RouteCache()
    cache.put(headless, 0)
    assert cache.fresh("t", HEADLESS_FRESH_MS - 1) is headless
    assert cache.fresh("t", HEADLESS_FRESH_MS) is None


def test_routes_of_topics_that_nobody_asks_for_any_more_are_dropped() -> None:
    """After a day; what is in use, or nobody would confirm, is kept."""
    cache, hour_ms = RouteCache(), 3_600_000

    def route(topic: str) -> TopicRoute:
        return topic_route(topic, TopicRouteData([queues("a")], [broker("a", _0="x:1")]))

    cache.put(route("unanswered"), 0)
    for hour in range(24 * 60):
        for number in range(4):
            cache.put(route(f"run{hour}-{number}"), hour * hour_ms)
        cache.put(route("orders"), hour * hour_ms)
        cache.keep("unanswered", hour * hour_ms)
        cache.expire("unanswered")
        assert cache.last_known("orders") is not None
        assert cache.last_known("unanswered") is not None
        assert cache.last_known(f"run{max(0, hour - 23)}-0") is not None
    assert len(cache) < 500
