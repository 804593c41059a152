"""Messages of one key from a broker of RocketMQ's, which tells the newest up to a time and knows nothing of places."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.administration.broker_admin import LATEST_MS
from rmqspark.client.administration.key_walk import KeySearch, key_page
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import DecodeError, NotSupported
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.headers.cluster import RegisterBrokerRequestHeader
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing import cluster
from rmqspark.testing.scripted_peer import ScriptedPeer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from rmqspark.testing.scripted_peer import Conversation, Step

pytestmark = pytest.mark.integration
START_MS = 1_700_000_000_000
INDEX = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
SEARCH = KeySearch("orders", "k", 0, LATEST_MS)


def record(number: int, stored_ms: int) -> bytes:
    properties = encode_properties({"KEYS": "k"})
    place = {"queue_offset": number, "physical_offset": 1_000 * number}
    return bytes(
        encode_record(topic="orders", body=b"%d" % number, properties=properties, store_timestamp_ms=stored_ms, **place)
    )


def as_rocketmq(stored: Sequence[int]) -> Step:
    """Answers QUERY_MESSAGE from an index of these store times, as IndexService does, until the client hangs up."""

    def step(conversation: Conversation) -> None:
        while True:
            try:
                request = conversation.read()
            except (AssertionError, OSError):
                return
            fields = request.fields
            begin, end = int(fields["beginTimestamp"]), int(fields["endTimestamp"])
            fitting = [n for n, ms in enumerate(stored) if begin <= ms - ms % 1_000 <= end]
            told = fitting[-min(int(fields["maxNum"]), 64) :]
            body = b"".join(record(number, stored[number]) for number in told)
            code = ResponseCode.SUCCESS if told else ResponseCode.QUERY_NOT_FOUND
            conversation.write(encode_response(request.command.opaque, code, body=body, extra=INDEX))

    return step


def rocketmq_with(stored: Sequence[int]) -> AbstractContextManager[ClusterClient]:
    """A client of a cluster whose one broker is such a one."""
    return cluster_of(as_rocketmq(stored))


@contextmanager
def cluster_of(broker: Step) -> Iterator[ClusterClient]:
    with cluster(brokers=0) as mq, ScriptedPeer([broker]) as peer:
        connection = BlockingConnection(mq.namesrv)
        header = RegisterBrokerRequestHeader("broker-r", peer.address, "DefaultCluster", "127.0.0.1:1", 0)
        topics = {name: TopicConfig(name, 1, 1) for name in ("orders", "others")}  # one alone would be a change
        body = RegisterBrokerBody(TopicConfigTable(topics, DataVersion(1)))
        connection.call(RequestCode.REGISTER_BROKER, header, body.encode(), timeout_ms=3000).raise_for_code()
        with ClusterClient(mq.namesrv) as client:
            yield client
        connection.close()


def walked(client: ClusterClient, limit: int) -> list[int]:
    """All numbers, page by page."""
    numbers: list[int] = []
    below: dict[str, int] | None = None
    while below is None or below:
        page = key_page(client, SEARCH, limit, below)
        numbers += [int(each.body) for each in page.messages]
        below = page.older
    return numbers


@pytest.mark.parametrize("limit", [3, 10, 500])
def test_it_is_walked_by_time(limit: int) -> None:
    """Forty messages a second are told in full, whatever the pages are; each once."""
    stored = [START_MS + 25 * number for number in range(300)]
    with rocketmq_with(stored) as client:
        assert walked(client, limit) == list(reversed(range(300)))


def test_more_in_a_second_than_it_tells_is_an_error() -> None:
    """And no gap that nobody sees."""
    with rocketmq_with([START_MS + number for number in range(100)]) as client:
        with pytest.raises(NotSupported, match="may have more than 64 messages under this key in one second"):
            walked(client, 10)
        assert len(key_page(client, SEARCH, 64).messages) == 64


def never_further_down(conversation: Conversation) -> None:
    """Answers QUERY_MESSAGE as one of ours does, and says each time that it has looked at nothing."""
    with suppress(AssertionError, OSError):
        while True:
            request = conversation.read()
            fields = {**INDEX, "walkedToPhyOffset": request.fields["belowPhyOffset"]}
            conversation.write(encode_response(request.command.opaque, ResponseCode.SUCCESS, extra=fields))


def test_a_broker_that_gets_nowhere_is_not_asked_for_ever() -> None:
    """It is an error that names it."""
    with cluster_of(never_further_down) as client, pytest.raises(DecodeError, match="broker-r"):
        key_page(client, SEARCH, 10)
