"""Messages of one key page by page: none left out and none twice, however many there are in a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.administration.broker_admin import LATEST_MS
from rmqspark.client.administration.key_walk import KeySearch, key_page
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import BrokerNotRegistered
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration
EVER = KeySearch("orders", "k", 0, LATEST_MS)


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=2, broker_config=BrokerConfig(auto_create_topic_enable=False)) as running:
        yield running


@pytest.fixture
def send(mq: LocalCluster) -> Iterator[Callable[[str, range], None]]:
    """Sends numbers with one key, in batches: many are stored in the same millisecond."""
    with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:

        def send_all(topic: str, numbers: range) -> None:
            admin.create_topic(topic, queues=3, exist_ok=True)
            for first in range(numbers.start, numbers.stop, 25):
                some = range(first, min(first + 25, numbers.stop))
                producer.send_batch([Message(topic, b"%d" % number, keys=["k", f"own{number}"]) for number in some])

        yield send_all


def numbers_of(bodies: Iterator[bytes]) -> list[int]:
    return sorted(int(body) for body in bodies)


def test_500_messages_while_more_arrive(mq: LocalCluster, send: Callable[[str, range], None]) -> None:
    """Two brokers, six queues, pages of ten: each is there once, the newest first."""
    send("orders", range(500))
    pages: list[list[int]] = []
    times: list[int] = []
    with ClusterClient(mq.namesrv) as client:
        below: dict[str, int] | None = None
        while below is None or below:
            page = key_page(client, EVER, 10, below)
            pages.append([int(each.body) for each in page.messages])
            times += [each.store_timestamp_ms for each in page.messages]
            below = page.older
            if len(pages) % 10 == 0:
                send("orders", range(500 + len(pages), 500 + len(pages) + 2))
    seen = [number for page in pages for number in page]
    assert sorted(seen) == list(range(500))
    assert [len(page) for page in pages] == [10] * 50
    assert times == sorted(times, reverse=True)
    assert len(set(times)) < len(times)


def test_as_many_as_are_asked_for(mq: LocalCluster, send: Callable[[str, range], None]) -> None:
    """AdminClient.query gives the newest of all brokers, more than one answer has room for, too."""
    send("many", range(300))
    with AdminClient(mq.namesrv) as admin:
        assert numbers_of(each.body for each in admin.query("many", "k", max_count=1_000)) == list(range(300))
        newest = admin.query("many", "k", max_count=150)
        assert len(newest) == 150
        assert [each.store_timestamp_ms for each in newest] == sorted(each.store_timestamp_ms for each in newest)
        assert [each.body for each in admin.query("many", "own7")] == [b"7"]
        assert admin.query("many", "nobody") == []
        middle = newest[75].store_timestamp_ms
        since = admin.query("many", "k", begin_ms=middle, max_count=1_000)
        assert {each.offset_msg_id for each in newest[75:]} <= {each.offset_msg_id for each in since}
        assert all(each.store_timestamp_ms >= middle for each in since)


def test_large_messages(mq: LocalCluster) -> None:
    """Of those that do not fit into one answer the newest come first, and none is left out."""
    with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.create_topic("large", queues=1, brokers=["broker-a"])
        for number in range(9):
            producer.send(Message("large", b"%d" % number + bytes(3 << 20), keys=["k"]))
        found = admin.query("large", "k", max_count=64)
    assert [each.body[:1] for each in found] == [b"%d" % number for number in range(9)]


def test_a_broker_that_has_gone_is_an_error(mq: LocalCluster, send: Callable[[str, range], None]) -> None:
    """Its older messages would be left out without a word."""
    send("gone", range(100))
    with ClusterClient(mq.namesrv) as client:
        page = key_page(client, KeySearch("gone", "k", 0, LATEST_MS), 10)
        with pytest.raises(BrokerNotRegistered, match="'broker-x' is not there any more"):
            key_page(client, KeySearch("gone", "k", 0, LATEST_MS), 10, {**page.older, "broker-x": 7})
