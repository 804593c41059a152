"""What RocketMQ 5.5.0 keeps of a consumer group beyond what this broker goes by, and what it forbids to one.

Expected values are what its broker answered and wrote.
"""

from __future__ import annotations

import json

import pytest

from rmqspark.protocol.bodies.admin import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupTable
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GroupForbiddenRequestHeader,
    TopicRequestHeader,
)
from rmqspark.protocol.headers.cluster import GetAllSubscriptionGroupRequestHeader
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration
OF_ROCKETMQ = {
    "attributes": {"priority.factor": "50"},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupName": "g",
    "groupRetryPolicy": {
        "customizedRetryPolicy": {"next": [1000, 2000]},
        "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 3},
        "type": "EXPONENTIAL",
    },
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "subscriptionDataSet": [{"expression": "a", "expressionType": "TAG", "topic": "x", "version": 1}],
    "whichBrokerWhenConsumeSlowly": 1,
}


async def put(client, **fields):
    return await client.ask(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps({"groupName": "g", **fields}).encode()
    )


async def config(client) -> SubscriptionGroupConfig:
    header = GetSubscriptionGroupConfigRequestHeader("g")
    return SubscriptionGroupConfig.decode((await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)).body)


async def forbid(client, group: str, topic: str, *, readable: bool | None = None):
    header = GroupForbiddenRequestHeader(group, topic, readable)
    return await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)


async def forbidden_table(client) -> dict[str, dict[str, int]]:
    answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return SubscriptionGroupTable.decode(answer.body).forbiddenTable


def test_a_store_of_rocketmqs_keeps_all_of_its_groups(on_broker) -> None:
    """Retry policies, subscriptions, attributes and what is forbidden are there after a change of another group, and in
    the file for RocketMQ's broker."""
    files = MemoryFileSystem()
    stored = {
        "dataVersion": {"counter": 5, "stateVersion": 0, "timestamp": 1795776488272},
        "forbiddenTable": {"g": {"orders": 4}},
        "subscriptionGroupTable": {"g": OF_ROCKETMQ},
    }
    store = files.within("store")
    store.make_root()
    table = JsonTable(store, "config/subscriptionGroup.json")
    table.save(json.dumps(stored))

    async def talk(bench) -> None:
        client = await bench.connect()
        await put(client, groupName="other")
        assert json.loads((await config(client)).encode()) == OF_ROCKETMQ
        assert await forbidden_table(client) == {"g": {"orders": 4}}

    on_broker(talk, files=files)
    saved = table.load(json.loads)
    assert saved["subscriptionGroupTable"]["g"] == OF_ROCKETMQ
    assert saved["forbiddenTable"] == {"g": {"orders": 4}}


def test_attributes_are_changes(on_broker) -> None:
    """As mqadmin's updateSubGroup sends them; without any, those there are stay."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for changes, code, left in [
            ({"+priority.factor": "50"}, 0, {"priority.factor": "50"}),
            ({}, 0, {"priority.factor": "50"}),
            ({"+priority.factor": "101"}, 1, {"priority.factor": "50"}),
            ({"+a": "b"}, 1, {"priority.factor": "50"}),
            ({"priority.factor": "5"}, 1, {"priority.factor": "50"}),
            ({"-priority.factor": ""}, 0, {}),
            ({"-priority.factor": ""}, 1, {}),
            ({"+lite.sub.model": "x"}, 1, {}),
            ({"+lite.sub.model": "Shared", "+lite.sub.client.quota": "5"}, 0, None),
        ]:
            assert (await put(client, attributes=changes)).code == code
            assert left is None or (await config(client)).attributes == left
        assert (await config(client)).attributes == {"lite.sub.model": "Shared", "lite.sub.client.quota": "5"}

    on_broker(talk)


def test_a_group_is_forbidden_to_read_a_topic(on_broker) -> None:
    """By its subscription, as in RocketMQ: not what a pull asks for itself; until that is taken back."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await put(client)
        await client.heartbeat(
            HeartbeatData("c", [], [ConsumerData("g", subscriptionDataSet=[SubscriptionData("orders")])])
        )
        assert GroupForbidden.decode((await forbid(client, "nobody", "nothing")).body).readable
        assert (
            await forbid(client, "nobody", "orders", readable=False)
        ).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await forbid(client, "g", "nothing", readable=False)).code == ResponseCode.TOPIC_NOT_EXIST
        assert bytes((await forbid(client, "g", "orders", readable=False)).body) == (
            b'{"group":"g","readable":false,"topic":"orders"}'
        )
        await put(client)
        assert await forbidden_table(client) == {"g": {"orders": 4}}
        assert (await client.pull("orders", sysFlag=0)).code == ResponseCode.NO_PERMISSION
        assert (await client.pull("orders")).code == ResponseCode.PULL_NOT_FOUND
        assert GroupForbidden.decode((await forbid(client, "g", "orders", readable=True)).body).readable
        assert (await client.pull("orders", sysFlag=0)).code == ResponseCode.PULL_NOT_FOUND
        assert await forbidden_table(client) == {}
        await forbid(client, "g", "orders", readable=False)
        await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupRequestHeader("g"))
        assert await forbidden_table(client) == {}

    on_broker(talk)


def test_what_is_forbidden_outlives_its_topic_until_it_is_taken_back(on_broker) -> None:
    """As in RocketMQ: a topic that is made anew is no way around it, and one that is not stays in no table for ever."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await put(client)
        await forbid(client, "g", "orders", readable=False)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        assert await forbidden_table(client) == {"g": {"orders": 4}}
        assert GroupForbidden.decode((await forbid(client, "g", "orders", readable=True)).body).readable
        assert (await forbid(client, "nobody", "orders", readable=True)).code == ResponseCode.SUCCESS
        assert await forbidden_table(client) == {}

    on_broker(talk)


def test_a_page_of_groups_says_what_is_forbidden_to_these(on_broker) -> None:
    """As in RocketMQ: a page is no answer without an end. Who asks for no page is told all."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        for group in ("g", "h"):
            await put(client, groupName=group)
            await forbid(client, group, "orders", readable=False)
        everything = SubscriptionGroupTable.decode(
            (await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        )
        assert set(everything.forbiddenTable) == {"g", "h"}
        for number, name in enumerate(sorted(everything.subscriptionGroupTable)):
            header = GetAllSubscriptionGroupRequestHeader(number, None, 1)
            answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            page = SubscriptionGroupTable.decode(answer.body)
            assert set(page.subscriptionGroupTable) == {name}
            assert set(page.forbiddenTable) == {name} & {"g", "h"}

    on_broker(talk)
