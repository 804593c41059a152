"""Our clients, command line and Spark on a stock broker that lets nobody in without a signature (RocketMQ's ACL 2.0).

RocketMQ's name server has no such check: what it is asked is signed all the same.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from ours import RMQ
from rocketmq import wait_for

from rmqspark import Access, AdminClient, Credentials, Message, Producer, PullConsumer, PushConsumer
from rmqspark.errors import NoPermission
from rmqspark.remoting.access import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from pyspark.sql import SparkSession
    from rocketmq import RocketMQ

    from rmqspark.model import ReceivedMessage

pytestmark = [pytest.mark.java, pytest.mark.integration]

USER, PASSWORD = "rocketmq", "12345678"
RIGHT = Access(Credentials(USER, PASSWORD))
WRONG = Access(Credentials(USER, "87654321"))
STRANGER = Access(Credentials("stranger", PASSWORD))

WHO = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
RIGHTS = "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider"
ROWS = 300


@dataclass(frozen=True)
class Guarded:
    namesrv: str
    broker: str


@pytest.fixture(scope="module")
def guarded(rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A stock name server, and a broker with authentication and authorization."""
    with rocketmq.name_server() as namesrv:
        settings = {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationMetadataProvider": WHO,
            "authorizationMetadataProvider": RIGHTS,
            "initAuthenticationUser": json.dumps({"username": USER, "password": PASSWORD}),
            "innerClientAuthenticationCredentials": json.dumps({"accessKey": USER, "secretKey": PASSWORD}),
        }
        with rocketmq.broker(tmp_path_factory.mktemp("guarded") / "store", namesrv, **settings) as broker:
            yield Guarded(namesrv, broker.address)
            broker.kill()


@pytest.fixture
def topic(guarded: Guarded, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname.replace("_", "-")
    with AdminClient(guarded.namesrv, access=RIGHT) as admin:
        admin.create_topic(name, queues=2, exist_ok=True)
    return str(name)


def bodies(guarded: Guarded, topic: str, access: Access = RIGHT, group: str | None = None) -> list[bytes]:
    """What is in a topic; a group commits that it has read it."""
    with PullConsumer(guarded.namesrv, group, access=access) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        ends = {queue: consumer.max_offset(queue) for queue in queues}
        found: list[bytes] = []
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            found += [message.body for message in consumer.poll(1_000)]
        if group is not None:
            consumer.commit()
    return sorted(found)


def rmq(guarded: Guarded, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RMQ_NAMESRV": guarded.namesrv, **variables}
    return subprocess.run([*RMQ, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_with_the_right_keys(guarded: Guarded, topic: str) -> None:
    """Sends of all kinds, large ones too, reads, commits and a group's member: all as on an open broker."""
    with Producer(guarded.namesrv, access=RIGHT) as producer:
        producer.send(Message(topic, b"one", tags="paid", keys=["k", "\u00e9\U0001f600"], properties={"a": "b"}))
        producer.send(Message(topic, os.urandom(900_000)))
        producer.send_batch([Message(topic, b"three"), Message(topic, b"four")])
        producer.send_oneway(Message(topic, b"five"))
    wait_for(lambda: len(bodies(guarded, topic)) == 5, "what was sent oneway is there")
    assert sorted(map(len, bodies(guarded, topic, group="pullers"))) == [3, 4, 4, 5, 900_000]
    received: list[ReceivedMessage] = []
    consumer = PushConsumer(guarded.namesrv, "pushers", listener=received.append, consume_from="earliest", access=RIGHT)
    with consumer:
        consumer.subscribe(topic)
        wait_for(lambda: len(received) == 5, "a member of a group has them")
    with AdminClient(guarded.namesrv, access=RIGHT) as admin:
        assert admin.topic(topic).message_count == 5
        (found,) = admin.query(topic, "\u00e9\U0001f600")
        assert found.body == b"one"
        assert {"pullers", "pushers"} <= set(admin.groups())


@pytest.mark.parametrize(
    ("access", "story", "hint"),
    [
        (OPEN, "username cannot be null.", "It wants to know who asks. Say it with RMQ_ACCESS_KEY and RMQ_SECRET_KEY"),
        (WRONG, "check signature failed.", "The secret key is not this user's."),
        (STRANGER, "User:stranger is not found.", "The access key names no user who may come in."),
    ],
    ids=["nobody", "wrong", "stranger"],
)
def test_without_them(guarded: Guarded, topic: str, access: Access, story: str, hint: str) -> None:
    """Whatever is asked is refused in the broker's words, and says what to set."""
    namesrv = guarded.namesrv
    with Producer(namesrv, access=access) as producer, pytest.raises(NoPermission) as unsent:
        producer.send(Message(topic, b"x"))
    with pytest.raises(NoPermission) as unread:
        bodies(guarded, topic, access)
    with AdminClient(namesrv, access=access) as admin, pytest.raises(NoPermission) as unmade:
        admin.create_topic(f"{topic}-2")
    for refused in (unsent, unread, unmade):
        assert story in refused.value.message
        assert hint in refused.value.hint


def test_the_command_line(guarded: Guarded, topic: str) -> None:
    """By environment and by file, RocketMQ's own too."""
    keys = {"RMQ_ACCESS_KEY": USER, "RMQ_SECRET_KEY": PASSWORD}
    assert rmq(guarded, "send", topic, "hello", **keys).returncode == 0
    assert topic in rmq(guarded, "topic", "list", **keys).stdout
    assert "hello" in rmq(guarded, "consume", topic, "-n", "1", **keys).stdout
    refused = rmq(guarded, "send", topic, "hello")
    assert refused.returncode == 1
    assert "username cannot be null" in refused.stderr
    assert "rmq --credentials" in refused.stderr


def test_spark(guarded: Guarded, topic: str, rmq_spark: SparkSession) -> None:
    """A batch is written and read with the keys among the options; without them the error says which options."""
    keys = {"accessKey": USER, "secretKey": PASSWORD}
    rows = rmq_spark.range(ROWS).selectExpr("concat('row ', id) body")
    writer = rows.write.format("rmq").options(namesrv=guarded.namesrv, topic=topic, **keys)
    writer.mode("append").save()
    read = rmq_spark.read.format("rmq").options(namesrv=guarded.namesrv, **keys).load(topic)
    found = {row[0] for row in read.selectExpr("CAST(body AS STRING)").collect()}
    assert found == {f"row {number}" for number in range(ROWS)}
    quick = {"fetchOffset.numRetries": "0", "namesrv": guarded.namesrv}
    with pytest.raises(Exception, match="username cannot be null.*options accessKey and secretKey of Spark"):
        rmq_spark.read.format("rmq").options(**quick).load(topic).count()
    with pytest.raises(Exception, match="check signature failed"):
        rows.write.format("rmq").options(
            namesrv=guarded.namesrv, topic=topic, accessKey=USER, secretKey="87654321"
        ).mode("append").save()


@contextmanager
def administrator(jvm: Jvm, namesrv: str) -> Iterator[Any]:
    """RocketMQ's own, with its own hook that signs."""
    common = jvm.rocketmq.acl.common
    hook = common.AclClientRPCHook(common.SessionCredentials(USER, PASSWORD))
    admin = jvm.rocketmq.tools.admin.DefaultMQAdminExt(hook)
    admin.setNamesrvAddr(namesrv)
    admin.setInstanceName(f"{jvm.java.lang.System.nanoTime()}")
    admin.start()
    try:
        yield admin
    finally:
        admin.shutdown()


def test_an_ordinary_user(guarded: Guarded, topic: str, jvm: Jvm, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """Pub, Sub and Get of the topic, and Sub of the group, are all that sending and reading take, of Spark too; what is
    asked beyond that is refused by name, and it is said who gives the right."""
    with administrator(jvm, guarded.namesrv) as admin:
        admin.createUser(guarded.broker, "ordinary", "pass", "Normal")
        for resource, actions in ((f"Topic:{topic}", ["Pub", "Sub", "Get"]), ("Group:readers", ["Sub"])):
            admin.createAcl(guarded.broker, "User:ordinary", [resource], actions, ["127.0.0.1"], "Allow")
    ordinary = Access(Credentials("ordinary", "pass"))
    with Producer(guarded.namesrv, access=ordinary) as producer:
        producer.send(Message(topic, b"mine"))
    assert bodies(guarded, topic, ordinary, group="readers") == [b"mine"]
    spark = {"namesrv": guarded.namesrv, "accessKey": "ordinary", "secretKey": "pass"}
    rmq_spark.sql("SELECT 'his' body").write.format("rmq").options(**spark).mode("append").save(topic)
    assert rmq_spark.read.format("rmq").options(**spark, group="readers").load(topic).count() == 2
    stream = rmq_spark.readStream.format("rmq").options(**spark, group="readers", startingOffsets="earliest")
    query = stream.load(topic).writeStream.format("memory").queryName("ordinary").trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    assert rmq_spark.table("ordinary").count() == 2
    with AdminClient(guarded.namesrv, access=ordinary) as admin, pytest.raises(NoPermission) as refused:
        admin.create_topic(f"{topic}-2")
    assert f"User:ordinary has no permission to access Topic:{topic}-2" in refused.value.message
    assert "mqadmin createAcl gives it" in refused.value.hint
