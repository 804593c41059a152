"""A slave's tables become its master's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.delays.delay_table import DelayTable
from rmqspark.broker.handlers.on_slaves import MASTERS_ONLY, refusing_on_slaves
from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.state.topics import TopicTable
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies.admin import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from rmqspark.protocol.bodies.route import TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import GroupForbiddenRequestHeader
from rmqspark.remoting.router import Route


def topics(*names: str) -> TopicConfigTable:
    return TopicConfigTable(topicConfigTable={name: TopicConfig(topicName=name) for name in names})


def test_topics_come_and_go_with_the_masters() -> None:
    """What the broker needs itself stays, and so do retry topics of groups; the same table again is no change."""
    table = TopicTable(max_topics=99, now_ms=0)
    table.add_system_topics([TopicConfig(topicName="broker-a")], 0)
    for name in ("old", "%RETRY%g", "%RETRY%gone"):
        table.put(TopicConfig(topicName=name), 0)
    table.follow(topics("new", "newer"), {"g"}, 1)
    assert [config.topicName for config in table] == ["%RETRY%g", "broker-a", "new", "newer"]
    revision = table.revision
    table.follow(topics("new", "newer"), {"g"}, 2)
    assert table.revision == revision
    table.follow(topics("new"), {"g"}, 3)
    assert table.revision > revision


def test_a_masters_topics_and_groups_that_nothing_can_be_called_are_left_out() -> None:
    """A slave believes its master about its topics, not about paths; all others follow, and the log says it once."""
    table = TopicTable(max_topics=99, now_ms=0)
    groups = SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0)
    told = SubscriptionGroupTable({name: SubscriptionGroupConfig() for name in ("my.group", "g")})
    with capture_logs() as logs:
        for now_ms in (1, 2):
            table.follow(topics("../../etc", "orders"), (), now_ms)
            groups.follow(told, now_ms)
    assert [config.topicName for config in table] == ["orders"]
    assert [config.groupName for config in groups] == ["g"]
    assert (table.revision, groups.revision, len(logs)) == (1, 1, 2)


def test_groups_become_the_masters() -> None:
    """Groups that were deleted there are gone here."""
    groups = SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0)
    groups.put(SubscriptionGroupConfig(groupName="old"), 0)
    told = SubscriptionGroupTable(subscriptionGroupTable={"g": SubscriptionGroupConfig(groupName="g", retryMaxTimes=3)})
    revision = groups.revision
    groups.follow(told, 1)
    assert [(config.groupName, config.retryMaxTimes) for config in groups] == [("g", 3)]
    assert groups.revision > revision
    groups.follow(told, 2)
    assert groups.revision == revision + 1


def test_offsets_are_taken_over() -> None:
    """Of groups that the master does not name nothing changes, as with RocketMQ."""
    offsets = ConsumerOffsets()
    offsets.commit("mine", "t", 0, 5)
    offsets.commit("g", "t", 0, 9)
    offsets.follow(ConsumerOffsetTable({"t@g": {0: 3, 1: 4}, "nonsense": {0: 1}}))
    assert dict(offsets.committed_queues("g", "t")) == {0: 3, 1: 4}
    assert offsets.committed("mine", "t", 0) == 5
    revision = offsets.revision
    offsets.follow(ConsumerOffsetTable({"t@g": {0: 3, 1: 4}}))
    assert offsets.revision == revision


def test_delays_are_taken_over() -> None:
    """With how far the master's log was when it was so."""
    delays = DelayTable()
    delays.follow(DelayOffsetTable({1: 7}, None, 1000), 5)
    assert (delays.next_offsets, delays.log_offset) == ({1: 7}, 1000)
    revision = delays.revision
    delays.follow(DelayOffsetTable({1: 7}, None, 1000), 6)
    assert delays.revision == revision


def test_a_slave_decides_nothing() -> None:
    """What would be gone with the next look at the master is refused; reads are not touched."""
    asked: list[object] = []
    refused = (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.RMQ_TXN_STATUS, RequestCode.RMQ_GROUP_LEASES)
    routes = refusing_on_slaves({code: Route(None, asked.append) for code in (*refused, RequestCode.PULL_MESSAGE)})
    for code in refused:
        assert code in MASTERS_ONLY
        with pytest.raises(NotWritable, match="slave"):
            routes[code].handle(None)  # type: ignore[arg-type]
    routes[RequestCode.PULL_MESSAGE].handle(None)  # type: ignore[arg-type]
    assert asked == [None]


def test_a_slave_tells_what_groups_may_read_and_forbids_nothing() -> None:
    """One code does both."""
    code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    asked: list[object] = []
    handle = refusing_on_slaves({code: Route(GroupForbiddenRequestHeader, asked.append)})[code].handle
    to_tell, *to_change = (
        SimpleNamespace(header=GroupForbiddenRequestHeader("g", "orders", readable)) for readable in (None, False, True)
    )
    for request in to_change:
        with pytest.raises(NotWritable, match="slave"):
            handle(request)  # type: ignore[arg-type]
    handle(to_tell)  # type: ignore[arg-type]
    assert asked == [to_tell]
