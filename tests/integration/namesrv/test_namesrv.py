"""The name server over real sockets: what clients, brokers and mqadmin ask of it."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument, PortInUse
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.bodies.register import register_crc32
from rmqspark.protocol.bodies.route import (
    ClusterInfo,
    DataVersion,
    KVTable,
    QueueData,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
)
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.cluster import (
    BrokerHeartbeatRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetKVConfigRequestHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnregisterBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
    WritePermOfBrokerRequestHeader,
)
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import msgspec

    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration

ADDRESS = "10.0.0.1:10911"
TABLE = TopicConfigTable(
    {name: TopicConfig(topicName=name, readQueueNums=4, writeQueueNums=4) for name in ("orders", "bills")},
    DataVersion(1, 0, 1_700_000_000_000),
)
BODY = RegisterBrokerBody(TABLE).encode()
IDENTITY = UnregisterBrokerRequestHeader(
    brokerName="broker-a", brokerAddr=ADDRESS, clusterName="DefaultCluster", brokerId=0
)


class Session(NamedTuple):
    """A name server and a connection to it."""

    server: NameServer
    connection: AsyncConnection
    clock: ManualClock

    async def ask(self, code: RequestCode, header: msgspec.Struct | None = None, body: bytes = b"") -> Response:
        return await self.connection.call(code, header, body, timeout_ms=60_000)

    async def register(self, body: bytes = BODY, **fields: Any) -> Response:
        return await self.ask(RequestCode.REGISTER_BROKER, registration(**fields), body)

    async def route(self, topic: str = "orders") -> Response:
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))

    async def topics(self, code: RequestCode, header: msgspec.Struct | None = None) -> list[str]:
        return TopicList.decode((await self.ask(code, header)).raise_for_code().body).topicList


def registration(**fields: Any) -> RegisterBrokerRequestHeader:
    defaults: dict[str, Any] = {
        "brokerName": "broker-a",
        "brokerAddr": ADDRESS,
        "clusterName": "DefaultCluster",
        "haServerAddr": "10.0.0.1:10912",
        "brokerId": 0,
    }
    return RegisterBrokerRequestHeader(**{**defaults, **fields})


@asynccontextmanager
async def session(clock: ManualClock, **settings: Any) -> AsyncIterator[Session]:
    async with NameServer(NamesrvConfig(listen_port=0, **settings), clock=clock) as server:
        connection = await AsyncConnection.open(server.address)
        yield Session(server, connection, clock)
        await connection.close()


def converse(talk: Callable[[Session], Awaitable[None]], clock: ManualClock | None = None, **settings: Any) -> None:
    async def main() -> None:
        async with session(clock or ManualClock(), **settings) as opened:
            await talk(opened)

    asyncio.run(main())


def test_a_broker_that_says_what_all_its_topics_are_has_no_others() -> None:
    """A name server that was not told of a deletion learns of it; RocketMQ's brokers, which say nothing, lose none."""
    fewer = TopicConfigTable({"bills": TABLE.topicConfigTable["bills"]}, DataVersion(2, 0, 1_700_000_000_001))

    async def talk(session: Session) -> None:
        for said, left in ((None, ["bills", "orders"]), (True, ["bills"])):
            await session.register()
            await session.register(RegisterBrokerBody(fewer).encode(), allTopics=said)
            assert sorted(await session.topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)) == left

    converse(talk)


def test_what_comes_late_over_a_connection_given_up_is_not_the_last_word() -> None:
    """A broker that had no answer in time registers over a new connection. What it had said before is heard after
    that, its connection ends, and both change nothing: all topics it has now are known still."""
    before = TopicConfigTable({"bills": TABLE.topicConfigTable["bills"]}, DataVersion(0, 0, 1_600_000_000_000))

    async def talk(at: Session) -> None:
        again = at._replace(connection=await AsyncConnection.open(at.server.address))
        assert (await again.register(allTopics=True)).code == 0
        assert (await at.register(RegisterBrokerBody(before).encode(), allTopics=True)).code == 0
        assert (await again.route("orders")).code == 0
        await at.connection.close()
        async with asyncio.timeout(60):
            while at.server._server.connection_count > 1:
                await again.route("orders")
        assert (await again.route("orders")).code == 0
        await again.connection.close()

    converse(talk)


def test_route_of_a_registered_topic() -> None:
    """A client finds the queues and addresses of a topic that a broker registered; an unknown topic is code 17."""

    async def talk(at: Session) -> None:
        assert (await at.register()).code == 0
        route = TopicRouteData.decode((await at.route()).raise_for_code().body)
        assert route.queueDatas == [QueueData("broker-a", 4, 4, 6)]
        assert route.brokerDatas[0].brokerAddrs == {0: ADDRESS}
        assert (await at.route("unknown")).code == ResponseCode.TOPIC_NOT_EXIST

    converse(talk)


@pytest.mark.parametrize(
    ("version", "fields", "member"),
    [
        (479, {}, '"brokerAddrs":{"0":"'),
        (401, {}, '"brokerAddrs":{"0":"'),
        (400, {}, '"brokerAddrs":{0:"'),
        (0, {}, '"brokerAddrs":{0:"'),
        (0, {"acceptStandardJsonOnly": "true"}, '"brokerAddrs":{"0":"'),
    ],
)
def test_routes_in_the_dialect_of_the_client(version: int, fields: dict[str, str], member: str) -> None:
    """Newer clients are answered in standard JSON, older ones in the dialect they know."""

    async def talk(at: Session) -> None:
        await at.register()
        header = {"code": 105, "opaque": 3, "version": version, "extFields": {"topic": "orders", **fields}}
        reader, writer = await asyncio.open_connection("127.0.0.1", at.server.port)
        text = json.dumps(header).encode()
        writer.write(struct.pack(">ii", 4 + len(text), len(text)) + text)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        raw = split_frame(await reader.readexactly(length))
        assert decode_command(raw).code == 0
        assert member in str(raw.body, "utf-8")
        writer.close()
        await writer.wait_closed()

    converse(talk)


def test_the_exact_bytes_of_a_route() -> None:
    """A route reads as RocketMQ writes it (spec: requests, vector TV-8)."""

    async def talk(at: Session) -> None:
        await at.register()
        assert bytes((await at.route()).body).decode() == (
            '{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
            '"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
            '"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
        )

    converse(talk)


def test_cluster_and_topic_lists() -> None:
    """What mqadmin's clusterList and topicList show."""

    async def talk(at: Session) -> None:
        await at.register()
        answer = await at.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in bytes(answer.body)
        assert ClusterInfo.decode(answer.body).clusterAddrTable == {"DefaultCluster": ["broker-a"]}
        assert await at.topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["orders", "bills"]
        of_cluster = GetTopicsByClusterRequestHeader(cluster="DefaultCluster")
        assert await at.topics(RequestCode.GET_TOPICS_BY_CLUSTER, of_cluster) == ["orders", "bills"]
        assert await at.topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == ["DefaultCluster", "broker-a"]
        assert await at.topics(RequestCode.GET_UNIT_TOPIC_LIST) == []
        assert await at.topics(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == []
        assert await at.topics(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == []

    converse(talk)


def test_lists_can_be_forbidden() -> None:
    """A name server told not to list topics does not."""

    async def talk(at: Session) -> None:
        for code in (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS):
            assert (await at.ask(code)).code == ResponseCode.SYSTEM_ERROR

    converse(talk, enable_all_topic_list=False, enable_topic_list=False)


def test_member_group() -> None:
    """The addresses under one broker name; none for an unknown one."""

    async def talk(at: Session) -> None:
        await at.register()
        for name, addresses in (("broker-a", b'{0:"10.0.0.1:10911"}'), ("ghost", b"{}")):
            header = GetBrokerMemberGroupRequestHeader(clusterName="DefaultCluster", brokerName=name)
            body = bytes((await at.ask(RequestCode.GET_BROKER_MEMBER_GROUP, header)).body)
            assert b'"brokerAddrs":' + addresses in body

    converse(talk)


def compressed_body() -> bytes:
    """The body of 4.x brokers with compressedRegister."""

    def piece(text: str) -> bytes:
        return struct.pack(">i", len(text)) + text.encode()

    lines = [f"{name} 4 4 6 SINGLE_TAG" for name in ("orders", "bills")]
    version = piece('{"counter":1,"timestamp":1700000000000}')
    return zlib.compress(version + struct.pack(">i", len(lines)) + b"".join(map(piece, lines)) + piece("[]"))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_bodies_of_registrations(compressed: bool, checked: bool) -> None:
    """Registrations come plain and compressed, with and without a checksum."""
    body = compressed_body() if compressed else BODY

    async def talk(at: Session) -> None:
        crc = register_crc32(body) if checked else 0
        assert (await at.register(body, compressed=compressed, bodyCrc32=crc)).code == 0
        assert (await at.route()).code == 0

    converse(talk)


@pytest.mark.parametrize(
    ("body", "fields", "remark"),
    [
        (BODY, {"bodyCrc32": 1}, "crc32 not match"),
        (b"not zlib", {"compressed": True}, "inflated"),
        (b"[1,2,", {}, "RegisterBrokerBody"),
        (RegisterBrokerBody(TopicConfigTable({"t": TopicConfig("t")})).encode(), {}, "register broker failed"),
        (BODY, {"brokerAddr": "nowhere"}, "host:port"),
    ],
)
def test_registrations_refused(body: bytes, fields: dict[str, Any], remark: str) -> None:
    """A registration that cannot be right is refused in words, and nothing of it stays."""

    async def talk(at: Session) -> None:
        answer = await at.register(body, **fields)
        assert answer.code != 0
        assert remark in (answer.remark or "")
        assert await at.topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == []

    converse(talk)


def test_a_registration_without_body() -> None:
    """A broker without topics is known all the same."""

    async def talk(at: Session) -> None:
        assert (await at.register(b"")).code == 0
        assert await at.topics(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == ["DefaultCluster", "broker-a"]

    converse(talk)


def test_a_slave_is_told_its_master_and_the_orders() -> None:
    """A slave learns its master; every broker learns the order configurations, if there are any."""

    async def talk(at: Session) -> None:
        assert not (await at.register()).body
        slave = await at.register(brokerId=1, brokerAddr="10.0.0.2:10911")
        assert slave.header(RegisterBrokerResponseHeader) == RegisterBrokerResponseHeader("10.0.0.1:10912", ADDRESS)
        config = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
        await at.ask(RequestCode.PUT_KV_CONFIG, config)
        assert KVTable.decode((await at.register()).body).table == {"orders": "broker-a:4"}
        assert b"orderTopicConf" not in bytes((await at.route()).body)

    converse(talk)


def test_order_configuration_in_routes() -> None:
    """Where it is asked for, a route carries the order configuration of its topic."""

    async def talk(at: Session) -> None:
        await at.register()
        config = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
        await at.ask(RequestCode.PUT_KV_CONFIG, config)
        assert TopicRouteData.decode((await at.route()).body).orderTopicConf == "broker-a:4"
        assert TopicRouteData.decode((await at.route("bills")).body).orderTopicConf is None

    converse(talk, order_message_enable=True)


def test_a_living_broker_is_not_replaced() -> None:
    """A stranger that claims a living broker's name and id is refused in words."""

    async def talk(at: Session) -> None:
        await at.register()
        answer = await at.register(brokerAddr="10.6.6.6:10911")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert ADDRESS in (answer.remark or "")

    converse(talk)


def test_unregistering() -> None:
    """A broker that says goodbye is gone at once."""

    async def talk(at: Session) -> None:
        await at.register()
        assert (await at.ask(RequestCode.UNREGISTER_BROKER, IDENTITY)).code == 0
        assert (await at.route()).code == ResponseCode.TOPIC_NOT_EXIST

    converse(talk)


def test_the_end_of_its_connection_unregisters_a_broker() -> None:
    """A broker whose connection ends is gone."""

    async def talk(at: Session) -> None:
        other = await AsyncConnection.open(at.server.address)
        await other.call(RequestCode.REGISTER_BROKER, registration(), BODY, timeout_ms=60_000)
        assert (await at.route()).code == 0
        await other.close()
        async with asyncio.timeout(60):
            while (await at.route()).code == 0:
                pass

    converse(talk)


def test_silence_ends_in_expiry() -> None:
    """A broker that falls silent is dropped after its timeout, and its connection with it; heartbeats keep it."""

    async def talk(at: Session) -> None:
        other = await AsyncConnection.open(at.server.address)
        await other.call(
            RequestCode.REGISTER_BROKER, registration(heartbeatTimeoutMillis=10_000), BODY, timeout_ms=60_000
        )
        at.clock.advance(seconds=8)
        beat = BrokerHeartbeatRequestHeader(clusterName="DefaultCluster", brokerAddr=ADDRESS, brokerName="broker-a")
        assert (await at.ask(RequestCode.BROKER_HEARTBEAT, beat)).code == 0
        at.clock.advance(seconds=8)
        at.server.expire()
        assert (await at.route()).code == 0
        at.clock.advance(seconds=3)
        at.server.expire()
        assert (await at.route()).code == ResponseCode.TOPIC_NOT_EXIST
        await other.wait_closed()

    converse(talk)


class TickingClock(ManualClock):
    """Goes on a little with each look at it, and knows how many there were."""

    looks = 0

    def monotonic_ms(self) -> int:
        self.looks += 1
        self.advance(ms=5)
        return super().monotonic_ms()


def test_expiry_runs_by_itself() -> None:
    """Nobody has to ask for it."""

    async def talk(at: Session) -> None:
        await at.register(heartbeatTimeoutMillis=100)
        async with asyncio.timeout(60):
            await at.connection.wait_closed()

    converse(talk, TickingClock(), scan_not_active_broker_interval=10)


def test_who_was_stopped_counts_no_silence_of_that_time() -> None:
    """A name server that wakes after ten minutes has heard nothing of what its brokers said meanwhile, or they were
    stopped with it."""
    clock = TickingClock()

    async def talk(at: Session) -> None:
        await at.register()
        clock.advance(seconds=600)
        looks = clock.looks
        async with asyncio.timeout(60):
            while clock.looks < looks + 10:
                assert (await at.route()).code == 0

    converse(talk, clock, scan_not_active_broker_interval=10)


def test_data_versions() -> None:
    """A broker learns whether it has to register anew; if not, asking keeps it alive."""

    async def query(at: Session, version: DataVersion) -> tuple[bool, bytes]:
        answer = await at.ask(RequestCode.QUERY_DATA_VERSION, IDENTITY, version.encode())
        return answer.header(QueryDataVersionResponseHeader).changed, bytes(answer.body)

    async def talk(at: Session) -> None:
        assert await query(at, TABLE.dataVersion) == (True, b"")
        await at.register()
        at.clock.advance(seconds=100)
        assert await query(at, TABLE.dataVersion) == (False, TABLE.dataVersion.encode())
        assert await query(at, DataVersion(2, 0, 5)) == (True, TABLE.dataVersion.encode())
        at.clock.advance(seconds=100)
        at.server.expire()
        assert (await at.route()).code == 0

    converse(talk)


def test_key_value_configurations() -> None:
    """What is put can be got, listed and deleted; what is not there is code 22."""

    async def talk(at: Session) -> None:
        key = GetKVConfigRequestHeader(namespace="ns", key="k")
        namespace = GetKVListByNamespaceRequestHeader(namespace="ns")
        assert (await at.ask(RequestCode.GET_KV_CONFIG, key)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await at.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace)).code == ResponseCode.QUERY_NOT_FOUND
        put = PutKVConfigRequestHeader(namespace="ns", key="k", value="v")
        assert (await at.ask(RequestCode.PUT_KV_CONFIG, put)).code == 0
        assert (await at.ask(RequestCode.GET_KV_CONFIG, key)).fields == {"value": "v"}
        listed = await at.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace)
        assert KVTable.decode(listed.body).table == {"k": "v"}
        assert (await at.ask(RequestCode.DELETE_KV_CONFIG, key)).code == 0
        assert (await at.ask(RequestCode.GET_KV_CONFIG, key)).code == ResponseCode.QUERY_NOT_FOUND

    converse(talk)


def test_administration_of_topics() -> None:
    """Write permissions are wiped and given back, topics deleted and entered by hand."""

    async def talk(at: Session) -> None:
        await at.register()
        name = WritePermOfBrokerRequestHeader(brokerName="broker-a")
        wiped = await at.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, name)
        assert wiped.header(WipeWritePermOfBrokerResponseHeader).wipeTopicCount == 2
        assert TopicRouteData.decode((await at.route()).body).queueDatas[0].perm == 4
        added = await at.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, name)
        assert added.fields == {"addTopicCount": "2"}
        assert TopicRouteData.decode((await at.route()).body).queueDatas[0].perm == 6
        deleted = DeleteTopicFromNamesrvRequestHeader(topic="orders", clusterName="DefaultCluster")
        assert (await at.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, deleted)).code == 0
        assert (await at.route()).code == ResponseCode.TOPIC_NOT_EXIST
        entered = TopicRouteData(queueDatas=[QueueData("broker-a", 2, 2, 6)]).encode()
        header = RegisterTopicRequestHeader(topic="orders")
        assert (await at.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, header, entered)).code == 0
        assert TopicRouteData.decode((await at.route()).body).queueDatas[0].writeQueueNums == 2

    converse(talk)


@pytest.mark.parametrize("text", [b"listenPort=1", b"kvConfigPath=/etc/passwd", b"bindAddress=0.0.0.0", b"", b"\xff"])
def test_no_setting_can_be_changed_remotely(text: bytes) -> None:
    """Settings can be read over the network, not changed."""

    async def talk(at: Session) -> None:
        before = bytes((await at.ask(RequestCode.GET_NAMESRV_CONFIG)).body)
        assert b"orderMessageEnable=false\n" in before
        assert (await at.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=text)).code == ResponseCode.NO_PERMISSION
        assert bytes((await at.ask(RequestCode.GET_NAMESRV_CONFIG)).body) == before

    converse(talk)


def test_port_in_use() -> None:
    """A second name server on the same port does not start, and says which flag helps."""

    async def talk(at: Session) -> None:
        with pytest.raises(PortInUse, match=f"{at.server.port}.*--namesrv-port"):
            async with NameServer(NamesrvConfig(listen_port=at.server.port), clock=SystemClock()):
                pass

    converse(talk)


def test_beyond_loopback_only_by_name() -> None:
    """A name server for the world has to be told so by name."""
    with pytest.raises(InvalidArgument, match="insecure"):
        NameServer(NamesrvConfig(bind_address="0.0.0.0", listen_port=0), clock=SystemClock())


def test_a_binary_header_is_answered_in_kind() -> None:
    """Clients that speak binary headers are served the same."""

    async def talk(at: Session) -> None:
        await at.register()
        reader, writer = await asyncio.open_connection("127.0.0.1", at.server.port)
        header = GetRouteInfoRequestHeader(topic="orders")
        writer.write(b"".join(encode_request(105, 1, header, serialize="ROCKETMQ")))
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        raw = split_frame(await reader.readexactly(length))
        assert (raw.serialize_type, decode_command(raw).code) == (1, 0)
        writer.close()
        await writer.wait_closed()

    converse(talk)
