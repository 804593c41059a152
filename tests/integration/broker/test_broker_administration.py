"""What operators and tools ask: topics, groups, clients, locks, queries, settings, figures."""

from __future__ import annotations

import asyncio
import copy
import errno

import msgspec
import pytest

from rmqspark.protocol.bodies.admin import (
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumeStats,
    GroupList,
    ProducerConnection,
    ProducerTable,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
    SubscriptionOfGroup,
    TopicConfigList,
    TopicStatsTable,
)
from rmqspark.protocol.bodies.client import (
    CheckClientConfigBody,
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    LockBatchResponseBody,
    ProducerData,
    Queue,
    SubscriptionData,
)
from rmqspark.protocol.bodies.route import KVTable, TopicConfig, TopicConfigTable, TopicList
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    ResetOffsetRequestHeader,
    TopicRequestHeader,
)
from rmqspark.protocol.headers.cluster import GetAllTopicConfigRequestHeader
from rmqspark.protocol.headers.consume import (
    ConsumerGroupRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    GetMaxOffsetRequestHeader,
    QueryMessageRequestHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    ViewMessageRequestHeader,
)
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .transaction_talk import eventually

pytestmark = pytest.mark.integration


def consumer(client_id: str, *topics: str, group: str = "g", version: int = 1) -> HeartbeatData:
    subscriptions = [SubscriptionData(topic, subVersion=version) for topic in topics]
    return HeartbeatData(client_id, [], [ConsumerData(group, subscriptionDataSet=subscriptions)])


# --- topics ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_changed_and_deleted(on_broker) -> None:
    """Each is answered when it is so; deleting takes messages and group offsets along."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.create_topic("orders", 2, attributes="+message.type=FIFO", order=True)).code == 0
        assert (await client.create_topic("orders", 2, attributes="", order=True)).code == 0
        assert (await client.create_topic("orders", 3)).code == 0
        config = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("orders"))
        topic = TopicConfig.decode(config.body)
        assert (topic.readQueueNums, topic.order, topic.attributes) == (3, False, {"message.type": "FIFO"})
        await client.send("orders")
        await client.pull("orders")
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 1))
        for _ in range(2):  # deleting what is not there is no error
            assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))).code == 0
        asked = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("orders"))
        assert asked.code == ResponseCode.TOPIC_NOT_EXIST
        offset = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("orders", 0))
        assert offset.fields["offset"] == "0"
        offsets = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert b"orders" not in bytes(offsets.body)
        table = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigRequestHeader())
        assert b"orders" not in bytes(table.body)

    on_broker(talk)


DELETE = RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders")


async def end(client, topic: str) -> str:
    return (await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic, 0))).fields["offset"]


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_messages_sent_in_the_turn_of_a_deletion_go_with_it(on_broker, mode) -> None:
    """They were sent before, and are none of the next topic of the name."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        sends = (client.send("orders") for _ in range(20))
        *sent, deleted = await asyncio.gather(*sends, client.ask(*DELETE))
        assert {each.code for each in (*sent, deleted)} == {0}
        await client.create_topic("orders", 1)
        assert await end(client, "orders") == "0"

    on_broker(talk, store={"flush_disk_type": mode})


@pytest.mark.parametrize("has_lost_power", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_deletion_that_was_answered_outlives_a_crash(on_broker, mode, has_lost_power) -> None:
    """The next topic of the name begins without a message, though a flush was under way."""
    files = MemoryFileSystem()

    async def live(bench) -> MemoryFileSystem:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await client.create_topic("kept", 1)
        sends = (client.send(topic, b"old") for topic in ("orders", "kept") for _ in range(20))
        *sent, deleted = await asyncio.gather(*sends, client.ask(*DELETE))
        assert {each.code for each in (*sent, deleted)} == {0}
        return copy.deepcopy(files)

    async def look(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        assert await end(client, "orders") == "0"
        assert await end(client, "kept") == "20" or (has_lost_power and mode == "ASYNC_FLUSH")

    left = on_broker(live, files=files, store={"flush_disk_type": mode})
    left.crash(None) if has_lost_power else left.kill()
    on_broker(look, files=left, store={"flush_disk_type": mode})


def test_a_deletion_that_a_full_disk_refuses_says_what_it_is_about(on_broker) -> None:
    """The topic stays, and goes when there is room."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await client.send("orders")
        files.fail_next("rename", OSError(errno.ENOSPC, "No space left on device"))
        refused = await client.ask(*DELETE)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "Topic 'orders' cannot be deleted: [Errno 28] No space left on device." in refused.remark
        assert await end(client, "orders") == "1"
        assert (await client.ask(*DELETE)).code == 0
        await client.create_topic("orders", 1)
        assert await end(client, "orders") == "0"

    on_broker(talk, files=files)


DELETE_GROUP = RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupRequestHeader("g", True)


@pytest.mark.parametrize("deletion", [DELETE, DELETE_GROUP], ids=["topic", "group"])
def test_offsets_that_went_with_a_deletion_stay_away_after_a_kill(on_broker, deletion) -> None:
    """Nor does a reset come back: the group begins anew in the next topic of the name, as the next group does."""
    files = MemoryFileSystem()

    async def live(bench) -> MemoryFileSystem:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await client.send("orders")
        await client.pull("orders")
        reset = ResetOffsetRequestHeader("orders", "g", timestamp=0, isForce=True, queueId=0, offset=1)
        assert (await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
        assert (await client.ask(*deletion)).code == 0
        await client.create_topic("orders", 1)
        await client.send("orders")
        return copy.deepcopy(files)

    async def look(bench) -> None:
        client = await bench.connect()
        offsets = ConsumerOffsetTable.decode((await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body)
        assert offsets.offsetTable == {}
        assert (await client.pull("orders")).code == 0

    left = on_broker(live, files=files)
    left.kill()
    on_broker(look, files=left)


def test_the_end_of_a_queue_comes_with_when_its_topic_was_deleted(on_broker) -> None:
    """Nothing is said of a topic that never was; after a restart, and for a new topic of the name, it is said still."""
    files, clock = MemoryFileSystem(), ManualClock()
    header = GetMaxOffsetRequestHeader("orders", 0)
    deleted_ms: list[str | None] = []

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        deleted_ms.append((await client.ask(RequestCode.GET_MAX_OFFSET, header)).fields.get("topicDeleted"))
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        await client.create_topic("orders")
        deleted_ms.append((await client.ask(RequestCode.GET_MAX_OFFSET, header)).fields.get("topicDeleted"))

    on_broker(talk, files=files, clock=clock)
    on_broker(talk, files=files, clock=clock)
    assert deleted_ms[0] is None
    assert deleted_ms[1] == deleted_ms[2]
    assert int(deleted_ms[3] or 0) > int(deleted_ms[2] or 0) > 0


@pytest.mark.parametrize(
    ("topic", "fields", "code"),
    [
        ("", {}, ResponseCode.INVALID_PARAMETER),
        ("a/b", {}, ResponseCode.INVALID_PARAMETER),
        ("TBW102", {}, ResponseCode.INVALID_PARAMETER),
        ("DefaultCluster", {}, ResponseCode.INVALID_PARAMETER),
        ("rmq_sys_x", {}, ResponseCode.INVALID_PARAMETER),
        ("orders", {"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER),
        ("orders", {"attributes": "+queue.type=BatchCQ"}, ResponseCode.SYSTEM_ERROR),
        ("orders", {"readQueueNums": 1025}, ResponseCode.INVALID_PARAMETER),
        ("orders", {"writeQueueNums": -1}, ResponseCode.INVALID_PARAMETER),
        ("orders", {"perm": 64}, ResponseCode.INVALID_PARAMETER),
        ("orders", {"topicFilterType": "NO_TAG"}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_topics_that_cannot_be_are_refused(on_broker, topic, fields, code) -> None:
    """Bad and reserved names, attributes, queues, permissions."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.create_topic(topic, **fields)).code == code

    on_broker(talk)


def test_topics_for_mixed_messages_are_made_where_the_broker_allows_them(on_broker) -> None:
    """RocketMQ's enableMixedMessageType."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.create_topic("orders", attributes="+message.type=MIXED")).code == 0

    on_broker(talk, enable_mixed_message_type=True)


def test_a_list_of_topics_is_taken_as_a_whole(on_broker) -> None:
    """One that cannot be, and none is made."""

    async def talk(bench) -> None:
        client = await bench.connect()

        async def create(*names: str) -> int:
            body = TopicConfigList([TopicConfig(topicName=name, readQueueNums=1) for name in names])
            return (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())).code

        assert await create("a", "b/c") == ResponseCode.INVALID_PARAMETER
        assert await create("d", "e") == 0
        names = TopicList.decode((await client.ask(RequestCode.GET_TOPIC_NAME_LIST)).body).topicList
        assert {"d", "e", "TBW102"} <= set(names)
        assert "a" not in names
        system = TopicList.decode((await client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body)
        # Those of RocketMQ's that we have; it names them whether they are there or not, and dashboards hide them.
        assert {"BenchmarkTest", "CHECKPOINT_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"} <= set(system.topicList)
        assert not any("BATCH" in topic for topic in system.topicList)
        assert "d" not in system.topicList

    on_broker(talk)


def test_a_list_that_there_is_no_room_for_is_refused_as_a_whole(on_broker) -> None:
    """Of topics or of groups: none of them is there then, and the next list finds the room it had."""

    async def talk(bench) -> None:
        client = await bench.connect()
        topics, groups = bench.broker._parts.tables.topics, bench.broker._parts.tables.groups

        async def create_topics(*names: str) -> int:
            body = TopicConfigList([TopicConfig(topicName=name) for name in names]).encode()
            return (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)).code

        async def create_groups(*names: str) -> int:
            body = SubscriptionGroupList([SubscriptionGroupConfig(groupName=name) for name in names]).encode()
            return (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, body)).code

        for table, create in ((topics, create_topics), (groups, create_groups)):
            assert await create(*[f"filler-{number}" for number in range(30 - len(table) - 2)]) == 0
            assert await create("a", "b", "c") == ResponseCode.NO_PERMISSION
            assert len(table) == 28
            assert await create("c", "d", "c", "filler-0") == 0
            assert len(table) == 30

    on_broker(talk, max_topic_nums=30, max_group_nums=30)


def test_the_topic_table_comes_as_a_whole_or_in_pages(on_broker) -> None:
    """4.x asks without fields, 5.x by page; who has another version of the table begins anew."""

    async def talk(bench) -> None:
        client = await bench.connect()

        async def ask(header=None):
            answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG, header)
            return answer, TopicConfigTable.decode(answer.body)

        whole, table = await ask()
        names = sorted(table.topicConfigTable)
        assert whole.fields["totalTopicNum"] == str(len(names))
        version = table.dataVersion.encode().decode()
        _, page = await ask(GetAllTopicConfigRequestHeader(3, version, 2))
        assert sorted(page.topicConfigTable) == names[3:5]
        _, again = await ask(GetAllTopicConfigRequestHeader(3, '{"counter":0}', 2))
        assert sorted(again.topicConfigTable) == names[:2]
        assert (table.deletions, table.brokerName) == (None, None)
        _, of_slave = await ask(GetAllTopicConfigRequestHeader(deletions=True))
        assert (of_slave.deletions, of_slave.brokerName) == ({}, "broker-a")

    on_broker(talk)


def test_topic_stats_show_each_queue(on_broker) -> None:
    """First and last offset and the time of the last message; an unknown topic is an error."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await client.send("orders", e=1)
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader("orders"))
        stats = TopicStatsTable.decode(answer.body)
        extents = {queue.queue_id: offset for queue, offset in stats.offsetTable.items()}
        assert [(extents[queue].minOffset, extents[queue].maxOffset) for queue in (0, 1)] == [(0, 0), (0, 1)]
        assert extents[0].lastUpdateTimestamp == 0
        assert extents[1].lastUpdateTimestamp > 0
        unknown = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader("unknown"))
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST

    on_broker(talk)


# --- groups ---------------------------------------------------------------------------------------------------------


def test_a_group_is_made_changed_and_deleted(on_broker) -> None:
    """Its offsets go only when that is asked for."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")

        async def put(**fields) -> int:
            body = SubscriptionGroupConfig(**fields).encode()
            return (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code

        async def get():
            return await client.ask(
                RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigRequestHeader("g")
            )

        assert await put(groupName="../g") == ResponseCode.INVALID_PARAMETER
        assert await put(groupName="g", retryMaxTimes=3) == 0
        assert SubscriptionGroupConfig.decode((await get()).body).retryMaxTimes == 3
        assert await put(groupName="g", consumeEnable=False) == 0
        assert (await client.pull("orders")).code == ResponseCode.NO_PERMISSION
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 5))
        for clean, left in ((None, True), (True, False)):
            header = DeleteSubscriptionGroupRequestHeader("g", clean)
            assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)).code == 0
            assert (await get()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            offsets = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert (b'"orders@g":{0:5}' in bytes(offsets.body)) is left
        everything = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = SubscriptionGroupTable.decode(everything.body).subscriptionGroupTable
        assert "TOOLS_CONSUMER" in table
        assert "g" not in table

    on_broker(talk)


def test_consume_stats_show_how_far_a_group_is(on_broker) -> None:
    """Committed and pulled offsets beside the end of each queue, for topics asked for or known."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        for _ in range(5):
            await client.send("orders")
        await client.pull("orders")
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 2))

        async def stats(**fields):
            header = GetConsumeStatsRequestHeader("g", **fields)
            return ConsumeStats.decode((await client.ask(RequestCode.GET_CONSUME_STATS, header)).body)

        for fields in ({}, {"topic": "orders"}, {"topicList": "orders;unknown"}):
            ((queue, progress),) = (await stats(**fields)).offsetTable.items()
            assert (queue.topic, queue.broker_name, queue.queue_id) == ("orders", "broker-a", 0)
            assert (progress.brokerOffset, progress.consumerOffset, progress.pullOffset) == (5, 2, 5)
            assert progress.lastTimestamp > 0
        assert (await stats(topic="unknown")).offsetTable == {}
        await client.heartbeat(consumer("c1", "invoices"))  # online, and no longer interested in orders
        assert (await stats()).offsetTable == {}
        assert (await stats(topic="orders")).offsetTable == {}
        assert len((await stats(topicList="orders")).offsetTable) == 1  # as observed of RocketMQ 5.5.0

        who = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequestHeader("orders"))
        assert GroupList.decode(who.body).groupList == ["g"]
        what = await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, QueryTopicsByConsumerRequestHeader("g"))
        assert TopicList.decode(what.body).topicList == ["orders"]

    on_broker(talk)


# --- clients --------------------------------------------------------------------------------------------------------


def test_heartbeats_make_clients_known(on_broker) -> None:
    """The group's members, what they subscribe to, and the retry topic that comes with the group."""

    async def talk(bench) -> None:
        client = await bench.connect()
        data = consumer("c1", "orders")
        data.producerDataSet = [ProducerData("p")]
        answer = await client.heartbeat(data)
        assert (answer.code, answer.version) == (0, 479)
        assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        group = ConsumerGroupRequestHeader("g")
        members = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, group)
        assert bytes(members.body) == b'{"consumerIdList":["c1"]}'
        online = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, group)
        connection = ConsumerConnection.decode(online.body)
        assert [entry.clientId for entry in connection.connectionSet] == ["c1"]
        assert list(connection.subscriptionTable) == ["orders"]
        assert connection.messageModel == "CLUSTERING"
        producers = await client.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListRequestHeader("p")
        )
        assert [entry.clientId for entry in ProducerConnection.decode(producers.body).connectionSet] == ["c1"]
        everybody = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        assert [info.clientId for info in ProducerTable.decode(everybody.body).data["p"]] == ["c1"]
        subscription = await client.ask(
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, QuerySubscriptionByConsumerRequestHeader("g", "orders")
        )
        found = SubscriptionOfGroup.decode(subscription.body).subscriptionData
        assert found is not None
        assert found.topic == "orders"
        retry = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("%RETRY%g"))
        assert TopicConfig.decode(retry.body).perm == 6

    on_broker(talk)


@pytest.mark.parametrize(
    ("code", "header", "expected"),
    [
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequestHeader("nobody"), ResponseCode.SYSTEM_ERROR),
        (
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            ConsumerGroupRequestHeader("nobody"),
            ResponseCode.CONSUMER_NOT_ONLINE,
        ),
        (
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            GetProducerConnectionListRequestHeader("nobody"),
            ResponseCode.SYSTEM_ERROR,
        ),
        (RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(99), ResponseCode.SYSTEM_ERROR),
        (RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(-1), ResponseCode.SYSTEM_ERROR),
        (
            RequestCode.QUERY_MESSAGE,
            QueryMessageRequestHeader("orders", "k", 32, 0, 1 << 62),
            ResponseCode.QUERY_NOT_FOUND,
        ),
        (RequestCode.UPDATE_BROKER_CONFIG, None, ResponseCode.INVALID_PARAMETER),
        (
            RequestCode.CONSUMER_SEND_MSG_BACK,
            ConsumerSendMsgBackRequestHeader(0, "nobody", 0),
            ResponseCode.SYSTEM_ERROR,
        ),
        (
            RequestCode.CONSUMER_SEND_MSG_BACK,
            ConsumerSendMsgBackRequestHeader(0, "TOOLS_CONSUMER", 0),
            ResponseCode.SYSTEM_ERROR,
        ),
        (RequestCode.POP_MESSAGE, None, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        (RequestCode.GET_TOPIC_CONFIG, None, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_is_not_there_or_not_allowed_has_its_code(on_broker, code, header, expected) -> None:
    """And a remark that says what it is."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.ask(code, header)
        assert answer.code == expected, answer.remark
        assert answer.remark

    on_broker(talk)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        HeartbeatData("").encode(),
        HeartbeatData("c", [ProducerData("p"), ProducerData("p" * 256)]).encode(),
        consumer("c", *map(str, range(1025))).encode(),
    ],
)
def test_heartbeats_that_cannot_be_are_refused_as_a_whole(on_broker, body) -> None:
    """Nobody of such a heartbeat becomes known."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.ask(RequestCode.HEART_BEAT, body=body)).code != 0
        everybody = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        assert ProducerTable.decode(everybody.body).data == {}

    on_broker(talk)


def test_what_cannot_be_does_not_stop_a_client(on_broker) -> None:
    """Observed of RocketMQ 5.5.0: of a heartbeat with a topic or a consumer group that cannot be the rest counts, and
    producers call their group as they like. Clients do not look at what they subscribe to."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        data = consumer("c", "orders", "no.topic")
        data.producerDataSet.append(ProducerData("my.app"))
        data.consumerDataSet.append(ConsumerData("no group"))
        assert (await client.heartbeat(data)).code == 0
        assert (await client.pull("orders", sysFlag=0, subVersion=1)).code == ResponseCode.PULL_NOT_FOUND
        everybody = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        assert list(ProducerTable.decode(everybody.body).data) == ["my.app"]
        groups = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert "no group" not in SubscriptionGroupTable.decode(groups.body).subscriptionGroupTable

    on_broker(talk)


def test_members_are_told_when_their_group_changes(on_broker) -> None:
    """When one joins, leaves in order, or its connection breaks; broadcasting groups are left in peace."""

    async def talk(bench) -> None:
        first, second, third = [await bench.connect() for _ in range(3)]
        told: asyncio.Queue[str] = asyncio.Queue()
        first.connection._take = _listen(first.connection._take, told)  # the client end only answers requests otherwise
        await first.heartbeat(consumer("c1", "orders"))
        assert await told.get() == "g"
        await second.heartbeat(consumer("c2", "orders"))
        assert await told.get() == "g"
        await second.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequestHeader("c2", consumerGroup="g"))
        assert await told.get() == "g"
        await third.heartbeat(consumer("c3", "orders"))
        assert await told.get() == "g"
        await third.connection.close()
        assert await told.get() == "g"
        members = await first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequestHeader("g"))
        assert bytes(members.body) == b'{"consumerIdList":["c1"]}'
        broadcast = consumer("c1", "orders", group="b")
        broadcast.consumerDataSet[0].messageModel = "BROADCASTING"
        await first.heartbeat(broadcast)
        await first.settle()
        assert told.empty()

    on_broker(talk)


def _listen(take, told):
    def listening(command, body) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and not command.is_response:
            told.put_nowait(command.fields["consumerGroup"])
        take(command, body)

    return listening


@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [
        ("paid || shipped", "TAG", 0),
        ("||", "TAG", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("a > 1", "SQL92", 0),
        ("a > '1'", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_clients_learn_at_start_whether_the_broker_can_filter_for_them(on_broker, expression, kind, code) -> None:
    """46, which clients send for what is no tag expression."""

    async def talk(bench) -> None:
        client = await bench.connect()
        subscription = SubscriptionData("orders", subString=expression, expressionType=kind)
        body = CheckClientConfigBody("c1", "g", subscription).encode()
        assert (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)).code == code

    on_broker(talk)


def test_queues_are_locked_for_one_consumer(on_broker) -> None:
    """Only queues this broker has; what another owns is not given; giving up frees."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)

        async def lock(client_id: str, *queues: tuple[str, str, int], code=RequestCode.LOCK_BATCH_MQ):
            body = LockBatchBody("g", client_id, [Queue(*queue) for queue in queues])
            answer = await client.ask(code, body=body.encode())
            assert answer.code == 0
            if not answer.body:
                return None
            return [queue.queueId for queue in LockBatchResponseBody.decode(answer.body).lockOKMQSet]

        here = [("orders", "broker-a", queue_id) for queue_id in range(3)]
        elsewhere = [("orders", "broker-b", 0), ("unknown", "broker-a", 0)]
        assert await lock("c1", here[0], *elsewhere, here[2]) == [0]
        assert await lock("c2", *here) == [1]
        await lock("c1", *here, code=RequestCode.UNLOCK_BATCH_MQ)
        assert await lock("c2", *here) == [0, 1]

    on_broker(talk)


# --- messages, settings, figures ------------------------------------------------------------------------------------


def test_messages_are_found_by_key(on_broker) -> None:
    """By KEYS tokens and by unique key; an unknown key finds nothing."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for number in range(3):
            await client.send("orders", b"%d" % number, {"KEYS": f"k{number} all", "UNIQ_KEY": f"U{number}"})
        for key, found in (("k1", [b"1"]), ("all", [b"0", b"1", b"2"]), ("U2", [b"2"])):
            header = QueryMessageRequestHeader("orders", key, 32, 0, 1 << 62)
            answer = await client.ask(RequestCode.QUERY_MESSAGE, header)
            assert sorted(record.body for record in bench.records(answer)) == found
            assert answer.fields.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}

    on_broker(talk)


def test_messages_are_found_by_tags(on_broker) -> None:
    """As `mqadmin queryMsgByKey -p T` of RocketMQ 5.5.0 asks: the newest, within times, the older first; "Aa" and "BB"
    have one hash."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        for number, tags in enumerate(["Aa", "BB", "Aa", "", "paid"]):
            await client.send(
                "orders", b"%d" % number, {"TAGS": tags, "KEYS": "k"} if tags else {"KEYS": "k"}, e=number % 2
            )
        times = {
            bytes(record.body): record.store_timestamp_ms
            for queue_id in (0, 1)
            for record in bench.records(await client.pull("orders", queueId=queue_id))
        }

        async def found(key: str, most: int = 32, begin: int = 0, end: int = 1 << 62, **fields) -> list[bytes]:
            header = QueryMessageRequestHeader("orders", key, most, begin, end, **fields)
            answer = await client.ask(RequestCode.QUERY_MESSAGE, header)
            assert answer.code in (0, ResponseCode.QUERY_NOT_FOUND)
            return [bytes(record.body) for record in bench.records(answer)]

        assert await found("Aa", indexType="T") == [b"0", b"2"]
        assert await found("BB", indexType="T") == [b"1"]
        assert await found("paid", indexType="T") == [b"4"]
        assert await found("Aa", 1, indexType="T") == [b"2"]
        assert await found("BB", 1, indexType="T") == [b"1"]
        assert await found("Aa", 0, indexType="T") == []
        assert await found("Aa", indexType="T", begin=times[b"4"] + 1) == []
        assert await found("Aa", indexType="T", end=times[b"0"] - 1) == []
        assert await found("k", indexType="T") == []
        assert await found("Aa") == []
        assert len(await found("k", indexType="K")) == 5

    on_broker(talk)


def test_as_many_messages_of_a_key_are_found_as_fit_into_an_answer(on_broker) -> None:
    """No client takes a frame of more than 16 MiB."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for number in range(5):
            await client.send("orders", bytes(4 << 20), {"KEYS": "long", "UNIQ_KEY": f"U{number}"})
        header = QueryMessageRequestHeader("orders", "long", 32, 0, 1 << 62)
        answer = await client.ask(RequestCode.QUERY_MESSAGE, header)
        assert len(bench.records(answer)) == 3

    on_broker(talk)


def test_messages_of_a_key_are_walked_down(on_broker) -> None:
    """From a place in the log, the newest first; where none is left, that is said, and no error."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for number in range(5):
            await client.send("orders", b"%d" % number, {"KEYS": "k", "UNIQ_KEY": f"U{number}"})
        found, below = [], 1 << 62
        while below >= 0:
            header = QueryMessageRequestHeader("orders", "k", 2, 0, 1 << 62, below)
            answer = await client.ask(RequestCode.QUERY_MESSAGE, header)
            records = bench.records(answer)
            found += [record.body for record in records]
            assert all(record.physical_offset < below for record in records)
            below = int(answer.fields["walkedToPhyOffset"])
        assert found == [b"4", b"3", b"2", b"1", b"0"]

    on_broker(talk)


def test_settings_can_be_read_by_rocketmqs_names(on_broker) -> None:
    """Broker's and store's in one text of properties; the version of the topic table goes with it."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        lines = bytes(answer.body).decode().splitlines()
        assert {"brokerName=broker-a", "flushDiskType=ASYNC_FLUSH", "longPollingEnable=true"} <= set(lines)
        assert "counter" in msgspec.json.decode(answer.fields["version"])

    on_broker(talk)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("listenPort=1", ResponseCode.NO_PERMISSION, "Setting listen_port cannot be changed while the broker runs."),
        ("brokerConfigPath=/tmp/x", ResponseCode.INVALID_PARAMETER, "Unknown setting 'broker_config_path'."),
        ("rocketmqHome=-c $@|sh . echo", ResponseCode.INVALID_PARAMETER, "Unknown setting 'rocketmq_home'."),
        ("fileReservedTime=long", ResponseCode.INVALID_PARAMETER, "but must be a whole number (h)."),
        ("fileReservedTime=-1", ResponseCode.INVALID_PARAMETER, "but must be 0 or more h."),
        ("deleteWhen=99", ResponseCode.INVALID_PARAMETER, "delete_when"),
        ("listenPort=first", ResponseCode.INVALID_PARAMETER, "Setting listen_port is 'first' in the request"),
        ("fileReservedTime=1\nlistenPort=1", ResponseCode.NO_PERMISSION, "Setting listen_port"),
        ("fileReservedTime", ResponseCode.INVALID_PARAMETER, "Settings are lines of name=value."),
        ("# nothing", ResponseCode.INVALID_PARAMETER, "Settings are lines of name=value."),
    ],
)
def test_settings_that_are_not_taken(on_broker, body: str, code: ResponseCode, said: str) -> None:
    """What takes a restart, what is no setting, what makes no sense; and then none of those beside it, either."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, body.encode())
        assert answer.code == code
        assert said in answer.remark
        lines = bytes((await client.ask(RequestCode.GET_BROKER_CONFIG)).body).decode().splitlines()
        assert "fileReservedTime=72" in lines

    on_broker(talk)


def test_a_setting_changes_while_the_broker_runs(on_broker) -> None:
    """Its reader goes by it from the next pull on, its disk from that moment on; both spellings are taken."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"1")
        await client.send("orders", b"2")
        body = b"maxTransferCountOnMessageInMemory=1\n\nshort_polling_time_mills = 7\n"
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, body)).code == 0
        assert len(bench.records(await client.pull("orders"))) == 1
        lines = bytes((await client.ask(RequestCode.GET_BROKER_CONFIG)).body).decode().splitlines()
        assert {"maxTransferCountOnMessageInMemory=1", "shortPollingTimeMills=7"} <= set(lines)
        full = f"minFreeBytes={1 << 62}".encode()
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, full)).code == 0
        assert "min_free_bytes" in (await client.send("orders", b"3")).remark
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"minFreeBytes=1")).code == 0
        assert (await client.send("orders", b"3")).code == 0

    on_broker(talk)


def test_figures_are_all_there_and_count(on_broker) -> None:
    """Every key that mqadmin reads, and totals that follow what was sent and read."""
    read_by_cluster_list = [
        "brokerVersionDesc",
        "putTps",
        "getTransferredTps",
        "sendThreadPoolQueueSize",
        "pullThreadPoolQueueSize",
        "ackThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "pageCacheLockTimeMills",
        "earliestMessageTimeStamp",
        "commitLogDiskRatio",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
        "brokerActive",
        "msgPutTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalTodayNow",
        "msgGetTotalYesterdayMorning",
        "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow",
    ]

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(3):
            await client.send("orders")
        await client.pull("orders")
        table = KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert set(read_by_cluster_list) <= table.keys()
        assert (table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == ("3", "3")
        assert int(table["commitLogMaxOffset"]) == int(table["putMessageSizeTotal"])
        assert len(table["putTps"].split()) == 3

    on_broker(talk)


def test_how_far_what_waits_is_delivered_is_told(on_broker) -> None:
    """By level of delay, and of messages with a deliver time; mqadmin's clusterList shows how many of these wait."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()

        async def told() -> tuple[str, int]:
            table = KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
            waiting = int(table["timerOffsetBehind"]) + int(table["timerCongestNum"])
            return table["scheduleMessageOffset_3"], waiting

        for _ in range(2):
            await client.send("orders", b"later", {"DELAY": "3"})
        await client.send("orders", b"then", {"TIMER_DELAY_SEC": "5"})
        assert await told() == ("0,2", 1)
        clock.advance(seconds=11)

        async def is_delivered() -> bool:
            return await told() == ("2,2", 0)

        await eventually(is_delivered)

    on_broker(talk, clock=clock)
