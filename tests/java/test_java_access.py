"""Access control beside RocketMQ's: the same requests to both brokers, its clients and its mqadmin against ours."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from ours import Up, up
from py4j.protocol import Py4JJavaError
from rocketmq import RocketMQ, wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, LockBatchBody, Queue, SubscriptionData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import (
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader, ResetOffsetRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.consume import (
    ConsumerGroupRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    GetMaxOffsetRequestHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryMessageRequestHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.remoting.access import OPEN, Access, Credentials
from rmqspark.remoting.connection import AsyncConnection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm

    Asked = tuple[str, Credentials | None, RequestCode, Any, bytes]

pytestmark = [pytest.mark.java, pytest.mark.integration]

ROOT, ANN = Credentials("root", "root-secret"), Credentials("ann", "ann-secret")
SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    **{
        f"{work}{part}": f"org.apache.rocketmq.auth.{work}.provider.{name}{work.capitalize()}{part}"
        for work in ("authentication", "authorization")
        for part, name in (("Provider", "Default"), ("MetadataProvider", "Local"))
    },
}


@dataclass(frozen=True)
class Guarded:
    """A broker that knows who asks, and its name server."""

    namesrv: str
    broker: str


@contextmanager
def our_guarded(directory: Path) -> Iterator[Up]:
    """`rmq up` with RocketMQ's own settings of access control."""
    conf = directory / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    with up(directory, "-c", str(conf)) as running:
        yield running


@pytest.fixture(scope="module")
def ours_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with our_guarded(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="module")
def stock_guarded(rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """RocketMQ's broker with the same settings. Its name server asks nobody who he is."""
    store = tmp_path_factory.mktemp("guarded-stock") / "store"
    with rocketmq.name_server() as namesrv, rocketmq.broker(store, namesrv, **SETTINGS) as broker:
        yield Guarded(namesrv, broker.address)
        broker.kill()


def user(name: str, **fields: str) -> tuple[UserRequestHeader, bytes]:
    return UserRequestHeader(name), UserInfo(**fields).encode()


def acl(subject: str | None, *entries: PolicyEntryInfo, kind: str | None = None) -> tuple[AclRequestHeader, bytes]:
    return AclRequestHeader(subject), AclInfo([PolicyInfo(list(entries), kind)], subject).encode()


def entry(resource: str, actions: str, decision: str = "Allow", *source_ips: str) -> PolicyEntryInfo:
    return PolicyEntryInfo(actions.split(","), decision, resource, list(source_ips) or None)


def send(topic: str, group: str = "PG") -> tuple[SendMessageRequestHeaderV2, bytes]:
    return SendMessageRequestHeaderV2(group, topic, "TBW102", 4, 0, 0, 1_700_000_000_000, 0, ""), b"hello"


def pull(topic: str, group: str) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(group, topic, 0, 0, 32, 4, 0, 0, 0, "*")


def of_queue(topic: str, group: str) -> dict[str, Any]:
    return {"topic": topic, "consumerGroup": group, "queueId": 0}


def heartbeat(topic: str, group: str) -> bytes:
    consumer = ConsumerData(group, subscriptionDataSet=[SubscriptionData(topic)])
    return HeartbeatData("java-access", [], [consumer]).encode()


def lock(topic: str, group: str) -> bytes:
    return LockBatchBody(group, "java-access", [Queue(topic, "broker-a", 0)]).encode()


C: Final = RequestCode
TOPIC: Final = CreateTopicRequestHeader("orders", "TBW102", 4, 4, 6, "SINGLE_TAG")
COUNT: Final = CreateTopicRequestHeader("payments", "TBW102", 4, 4, 6, "SINGLE_TAG")


def using(who: Credentials, topic: str, group: str) -> list[Asked]:
    """What clients do with a topic and a group."""
    queue = of_queue(topic, group)
    about = f"{topic}/{group}"
    return [
        (f"send {about}", who, C.SEND_MESSAGE_V2, *send(topic)),
        (f"pull {about}", who, C.PULL_MESSAGE, pull(topic, group), b""),
        (f"heartbeat {about}", who, C.HEART_BEAT, None, heartbeat(topic, group)),
        (f"where {about}", who, C.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequestHeader(**queue), b""),
        (
            f"commit {about}",
            who,
            C.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetRequestHeader(**queue, commitOffset=0),
            b"",
        ),
        (f"end {about}", who, C.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic, 0), b""),
        (f"lock {about}", who, C.LOCK_BATCH_MQ, None, lock(topic, group)),
        (f"unlock {about}", who, C.UNLOCK_BATCH_MQ, None, lock(topic, group)),
        (
            f"reset {about}",
            who,
            C.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetRequestHeader(topic, group, 0, True, 0, 0),
            b"",
        ),
        (f"statistics {about}", who, C.GET_TOPIC_STATS_INFO, TopicRequestHeader(topic), b""),
        (f"leave {about}", who, C.UNREGISTER_CLIENT, UnregisterClientRequestHeader("java-access", None, group), b""),
    ]


CASES: Final[list[Asked]] = [
    # who asks
    ("nobody asks", None, C.AUTH_GET_USER, UserRequestHeader("root"), b""),
    ("a wrong secret", Credentials("root", "x"), C.AUTH_GET_USER, UserRequestHeader("root"), b""),
    # users
    ("create ann", ROOT, C.AUTH_CREATE_USER, *user("ann", password="ann-secret")),
    ("create ann again", ROOT, C.AUTH_CREATE_USER, *user("ann", password="x")),
    ("create without a name", ROOT, C.AUTH_CREATE_USER, *user("", password="x")),
    ("create without a password", ROOT, C.AUTH_CREATE_USER, *user("bob")),
    ("create bob", ROOT, C.AUTH_CREATE_USER, *user("bob", password="b", userType="super")),
    ("update bob", ROOT, C.AUTH_UPDATE_USER, *user("bob", userType="Normal", userStatus="enable")),
    ("update nobody", ROOT, C.AUTH_UPDATE_USER, *user("nobody", password="x")),
    ("get bob", ROOT, C.AUTH_GET_USER, UserRequestHeader("bob"), b""),
    ("get nobody", ROOT, C.AUTH_GET_USER, UserRequestHeader("nobody"), b""),
    ("get without a name", ROOT, C.AUTH_GET_USER, UserRequestHeader(), b""),
    ("list", ROOT, C.AUTH_LIST_USER, ListUsersRequestHeader(), b""),
    ("delete bob", ROOT, C.AUTH_DELETE_USER, UserRequestHeader("bob"), b""),
    ("delete bob again", ROOT, C.AUTH_DELETE_USER, UserRequestHeader("bob"), b""),
    ("ann makes users", ANN, C.AUTH_CREATE_USER, *user("x", password="x")),
    ("ann lists users", ANN, C.AUTH_LIST_USER, ListUsersRequestHeader(), b""),
    # rights
    ("of nobody", ROOT, C.AUTH_GET_ACL, AclRequestHeader("User:nobody"), b""),
    ("of ann, who has none", ROOT, C.AUTH_GET_ACL, AclRequestHeader("User:ann"), b""),
    ("take what was not given", ROOT, C.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann"), b""),
    ("give nobody", ROOT, C.AUTH_CREATE_ACL, *acl("User:nobody", entry("Topic:*", "Pub"))),
    ("give of nothing", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("orders", "Pub"))),
    ("give no action", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("Topic:*", "Fly"))),
    ("give any action", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("Topic:*", "Any"))),
    ("decide nothing", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("Topic:*", "Pub", "Perhaps"))),
    ("from nowhere", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("Topic:*", "Pub", "Allow", "no address"))),
    ("make orders", ROOT, C.UPDATE_AND_CREATE_TOPIC, TOPIC, b""),
    ("ann makes payments", ANN, C.UPDATE_AND_CREATE_TOPIC, COUNT, b""),
    ("ann deletes orders", ANN, C.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"), b""),
    *using(ANN, "orders", "billing"),
    ("allow Pub", ROOT, C.AUTH_CREATE_ACL, *acl("User:ann", entry("Topic:orders", "Pub"))),
    *using(ANN, "orders", "billing"),
    ("allow Sub of the topic", ROOT, C.AUTH_UPDATE_ACL, *acl("User:ann", entry("Topic:ord*", "Sub"))),
    *using(ANN, "orders", "billing"),
    ("and of the group", ROOT, C.AUTH_UPDATE_ACL, *acl("User:ann", entry("Group:*", "Sub"))),
    *using(ANN, "orders", "billing"),
    ("deny the group", ROOT, C.AUTH_UPDATE_ACL, *acl("User:ann", entry("Group:bill*", "Sub", "Deny"))),
    *using(ANN, "orders", "billing"),
    ("by default", ROOT, C.AUTH_UPDATE_ACL, *acl("User:ann", entry("*", "All"), kind="Default")),
    ("ann makes payments now", ANN, C.UPDATE_AND_CREATE_TOPIC, COUNT, b""),
    ("members", ANN, C.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequestHeader("billing"), b""),
    ("by key", ANN, C.QUERY_MESSAGE, QueryMessageRequestHeader("payments", "k", 1, 0, 1), b""),
    ("send back", ANN, C.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequestHeader(0, "billing", 1), b""),
    ("from elsewhere", ROOT, C.AUTH_UPDATE_ACL, *acl("User:ann", entry("Topic:orders", "Pub", "Allow", "10.0.0.0/8"))),
    ("take the default", ROOT, C.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann", "Default", "*"), b""),
    ("from here", ANN, C.SEND_MESSAGE_V2, *send("orders")),
    ("what is said", ROOT, C.AUTH_GET_ACL, AclRequestHeader("User:ann"), b""),
    ("of all", ROOT, C.AUTH_LIST_ACL, ListAclsRequestHeader("User:a", "Topic"), b""),
    ("take the rest", ROOT, C.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann"), b""),
    ("of nothing", ROOT, C.AUTH_LIST_ACL, ListAclsRequestHeader("ann"), b""),
    ("to what a group retries", ANN, C.SEND_MESSAGE_V2, *send("%RETRY%theirs", "billing")),
    # disabled
    ("disable ann", ROOT, C.AUTH_UPDATE_USER, *user("ann", userStatus="disable")),
    ("ann asks", ANN, C.SEND_MESSAGE_V2, *send("orders")),
    ("as a super user", ROOT, C.SEND_MESSAGE_V2, *send("orders")),
]
SHOWN: Final = {C.AUTH_GET_ACL, C.AUTH_LIST_ACL}  # of these the bodies are the same, too


async def answers(address: str) -> dict[str, tuple[str, int, str | None, bytes]]:
    """What a broker answers to all cases, one after the other; numbered, for some are asked more than once."""
    who = {each[1] for each in CASES}
    talks = {each: await AsyncConnection.open(address, access=OPEN if each is None else Access(each)) for each in who}
    found = {}
    for number, (name, asked_by, code, header, body) in enumerate(CASES):
        answer = await talks[asked_by].call(code, header, body, timeout_ms=30_000)
        shown = bytes(answer.body) if code in SHOWN else b""
        found[f"{number} {name}"] = (answer.code, answer.remark, shown)
    for talk in talks.values():
        await talk.close()
    return found


def test_both_brokers_answer_alike(ours_guarded: Up, stock_guarded: Guarded) -> None:
    """Who may do what, and what is said to who may not: the same codes, remarks and lists of rights."""
    ours, stock = asyncio.run(answers(ours_guarded.broker)), asyncio.run(answers(stock_guarded.broker))
    differing = {name: (ours[name], stock[name]) for name in stock if not same(ours[name], stock[name])}
    assert differing == {}
    assert len({stock[name][1] for name in stock}) > 20  # that many different remarks


def same(ours: tuple[int, str | None, bytes], stock: tuple[int, str | None, bytes]) -> bool:
    """The remark of a success means nothing: RocketMQ leaves the one that it began with."""
    return (ours[0], ours[0] and ours[1], ours[2]) == (stock[0], stock[0] and stock[1], stock[2])


BOB: Final = Credentials("bob", "bob-secret")
FURTHER: Final[list[Asked]] = [
    ("the settings, without a right", BOB, C.GET_BROKER_CONFIG, None, b""),
    ("the figures, without a right", BOB, C.GET_BROKER_RUNTIME_INFO, None, b""),
    ("all offsets, without a right", BOB, C.GET_ALL_CONSUMER_OFFSET, None, b""),
    ("what another group retries", BOB, C.PULL_MESSAGE, pull("%RETRY%theirs", "mine"), b""),
    ("a lite pull, without a right", BOB, C.LITE_PULL_MESSAGE, pull("theirs", "theirs"), b""),
    ("a group, without a right", BOB, C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, b'{"groupName":"theirs"}'),
]


async def refusals(address: str) -> dict[str, str]:
    """What users without these rights are told, where they are refused by the guard."""
    root, bob = [await AsyncConnection.open(address, access=Access(who)) for who in (ROOT, BOB)]
    await root.call(C.AUTH_CREATE_USER, *user("bob", password="bob-secret"), timeout_ms=30_000)
    await root.call(C.AUTH_CREATE_ACL, *acl("User:bob", entry("Group:mine", "Sub")), timeout_ms=30_000)
    found = {}
    for name, _, code, header, body in FURTHER:
        answer = await bob.call(code, header, body, timeout_ms=30_000)
        if answer.code == 16 and "no permission to access" in (answer.remark or ""):
            found[name] = answer.remark or ""
    for talk in (root, bob):
        await talk.close()
    return found


async def unknown(address: str) -> tuple[int, str | None]:
    talk = await AsyncConnection.open(address, access=Access(Credentials("nobody", "x")))
    answer = await talk.call(C.AUTH_GET_USER, UserRequestHeader("root"), timeout_ms=30_000)
    await talk.close()
    return answer.code, answer.remark


async def told_of(address: str) -> UserInfo:
    talk = await AsyncConnection.open(address, access=Access(ROOT))
    answer = await talk.call(C.AUTH_GET_USER, UserRequestHeader("inner"), timeout_ms=30_000)
    await talk.close()
    return UserInfo.decode(answer.body)


def test_where_ours_goes_further(ours_guarded: Up, stock_guarded: Guarded) -> None:
    """What RocketMQ's broker lets everybody do, ours asks a right for; and it tells no names and no passwords."""
    assert asyncio.run(refusals(stock_guarded.broker)) == {}
    assert list(asyncio.run(refusals(ours_guarded.broker))) == [name for name, *_ in FURTHER]
    assert asyncio.run(unknown(stock_guarded.broker)) == (16, "User:nobody is not found.")
    assert asyncio.run(unknown(ours_guarded.broker)) == (16, "check signature failed.")
    stock, ours = asyncio.run(told_of(stock_guarded.broker)), asyncio.run(told_of(ours_guarded.broker))
    assert (stock.password, ours.password) == ("inner-secret", None)
    assert (stock.userType, stock.userStatus) == (ours.userType, ours.userStatus) == ("Super", "enable")


# --- RocketMQ's clients -----------------------------------------------------------------------------------------------


def hook(jvm: Jvm, who: Credentials) -> Any:
    """RocketMQ's AclClientRPCHook."""
    common = jvm.rocketmq.acl.common
    return common.AclClientRPCHook(common.SessionCredentials(who.access_key, who.secret_key))


@contextmanager
def java_producer(jvm: Jvm, namesrv: str, who: Credentials | None) -> Iterator[Any]:
    signing = () if who is None else (hook(jvm, who),)
    producer = jvm.rocketmq.client.producer.DefaultMQProducer("java-producer", *signing)
    with jvm.started(producer, namesrv):
        yield producer


@contextmanager
def java_consumer(jvm: Jvm, namesrv: str, who: Credentials, group: str, topic: str) -> Iterator[list[Any]]:
    consumer_package = jvm.rocketmq.client.consumer
    averagely = consumer_package.rebalance.AllocateMessageQueueAveragely()
    consumer = consumer_package.DefaultMQPushConsumer(group, hook(jvm, who), averagely)
    consumer.setConsumeFromWhere(jvm.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with jvm.subscribed(consumer, namesrv, topic) as messages:
        yield messages


def java_send(jvm: Jvm, producer: Any, topic: str, body: bytes) -> str:
    """Ok, or what the client was told."""
    message = jvm.rocketmq.common.message.Message(topic, body)
    try:
        return str(producer.send(message).getSendStatus().toString())
    except Py4JJavaError as error:
        told, cause = [], error.java_exception
        while cause is not None:  # the client tells of its tries, and behind that what the broker said
            told.append(str(cause.getMessage()))
            cause = cause.getCause()
        return " ".join(told)


def admin_of(namesrv: str) -> AdminClient:
    return AdminClient(namesrv, access=Access(ROOT))


def test_rocketmqs_clients_are_served_by_their_keys(ours_guarded: Up, jvm: Jvm, rocketmq: RocketMQ) -> None:
    """With rights they send and consume; without, with a wrong secret or with no keys they are refused, and told why.

    Who may not ask for a route is told by the name server, which the client only has in its log.
    """
    namesrv, java = ours_guarded.namesrv, Credentials("java", "java-secret")
    client_log = rocketmq.home / "rocketmq.log"
    with admin_of(namesrv) as admin:
        admin.create_topic("by-keys", queues=1)
        admin.create_user(java.access_key, java.secret_key)
        with java_producer(jvm, namesrv, java) as producer:
            assert "has no permission to access Topic:by-keys" in java_send(jvm, producer, "by-keys", b"none")
        admin.create_acl("java", ["Topic:by-keys"], ["Pub", "Sub"])
        with java_producer(jvm, namesrv, java) as producer:
            assert java_send(jvm, producer, "by-keys", b"first") == "SEND_OK"
        admin.create_acl("java", ["Group:java-*"], ["Sub"])
    with java_consumer(jvm, namesrv, java, "java-readers", "by-keys") as received:
        wait_for(lambda: [bytes(each.getBody()) for each in received] == [b"first"], "the message has come")
    for who, told in (
        (java._replace(secret_key="wrong"), "check signature failed."),
        (None, "username cannot be null."),
    ):
        with java_producer(jvm, namesrv, who) as producer:
            assert "No route info of this topic: by-keys" in java_send(jvm, producer, "by-keys", b"never")
        assert told in client_log.read_text()
    with admin_of(namesrv) as admin:
        assert [queue.max_offset for queue in admin.topic("by-keys").queues] == [1]


def test_mqadmin_sees_to_users_and_rights(ours_guarded: Up, jvm: Jvm) -> None:
    """All its verbs about them, on a broker and on a name server, which has users of its own."""
    for server in (ours_guarded.broker, ours_guarded.namesrv):

        def mqadmin(verb: str, *words: str, where: str = server) -> str:
            return jvm.mqadmin(verb, "-n", ours_guarded.namesrv, "-b", where, *words, hook=hook(jvm, ROOT))

        assert f"create user to {server} success." in mqadmin("createUser", "-u", "eve", "-p", "pw", "-t", "Normal")
        assert f"update user to {server} success." in mqadmin("updateUser", "-u", "eve", "-s", "disable")
        shown = mqadmin("getUser", "-u", "eve").splitlines()[-1].split()
        assert shown == ["eve", "null", "Normal", "disable"]  # no password
        assert [line.split()[0] for line in mqadmin("listUser", "-f", "eve").splitlines()[1:]] == ["eve"]
        words = ["-s", "User:eve", "-r", "Topic:*,Group:eve-*", "-a", "Pub,Sub", "-d", "Allow", "-i", "10.0.0.0/8"]
        assert f"create acl to {server} success." in mqadmin("createAcl", *words)
        assert f"update acl to {server} success." in mqadmin(
            "updateAcl", "-s", "User:eve", "-r", "Topic:*", "-a", "Get", "-d", "Deny"
        )
        for verb, said in (("getAcl", ["-s", "User:eve"]), ("listAcl", ["-s", "eve"])):
            rows = [" ".join(line.split()) for line in mqadmin(verb, *said).splitlines()[1:]]
            assert rows == [
                "User:eve Custom Topic:* [Get] null Deny",
                "User:eve Custom Group:eve-* [Pub, Sub] [10.0.0.0/8] Allow",
            ]
        assert f"delete acl to {server} success." in mqadmin("deleteAcl", "-s", "User:eve", "-r", "Topic:*")
        assert "Topic:*" not in mqadmin("getAcl", "-s", "User:eve")
        assert f"delete user to {server} success." in mqadmin("deleteUser", "-u", "eve")
        assert mqadmin("getUser", "-u", "eve").strip() == ""
        assert "The subject is not exist." in mqadmin("getAcl", "-s", "User:eve")


def test_mqadmin_signs_by_its_file(ours_guarded: Up, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """conf/tools.yml, in a process of its own: with the keys the cluster is shown, without them it is refused."""
    home = RocketMQ(rocketmq.jars, tmp_path)
    refused = home.run("tools.command.MQAdminStartup", "clusterList", "-n", ours_guarded.namesrv)
    assert "username cannot be null." in refused
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")
    assert ours_guarded.broker in home.run("tools.command.MQAdminStartup", "clusterList", "-n", ours_guarded.namesrv)
