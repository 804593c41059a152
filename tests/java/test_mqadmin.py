"""mqadmin against our name server and broker: what RocketMQ's operators type, and what they see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import TopicNotFound

if TYPE_CHECKING:
    from jvm import Jvm
    from ours import Up
    from rocketmq import RocketMQ

pytestmark = [pytest.mark.java, pytest.mark.integration]
TOPIC = "from-mqadmin"


class Sent(NamedTuple):
    """What mqadmin's sendMessage printed of its message."""

    msg_id: str
    broker_name: str
    queue_id: str


@pytest.fixture(scope="module")
def topic(ours: Up, jvm: Jvm) -> str:
    """A topic of two queues, made by mqadmin."""
    said = jvm.mqadmin("updateTopic", "-n", ours.namesrv, "-c", "DefaultCluster", "-t", TOPIC, "-r", "2", "-w", "2")
    assert f"create topic to {ours.broker} success" in said
    return TOPIC


@pytest.fixture(scope="module")
def sent(ours: Up, jvm: Jvm, topic: str) -> Sent:
    """One message, sent by mqadmin with a key and a tag."""
    said = jvm.mqadmin("sendMessage", "-n", ours.namesrv, "-t", topic, "-p", "hello", "-k", "order-1", "-c", "paid")
    found = re.search(r"^(\S+) +(\d+) +SEND_OK +(\S+)$", said, re.MULTILINE)
    assert found, said
    return Sent(found[3], found[1], found[2])


def test_a_name_server_shows_its_cluster(ours: Up, rocketmq: RocketMQ) -> None:
    """`mqadmin clusterList`, in a process of its own, shows our broker as an active master."""
    said = rocketmq.run("tools.command.MQAdminStartup", "clusterList", "-n", ours.namesrv)
    line = next(line for line in said.splitlines() if line.startswith("DefaultCluster"))
    assert line.split()[:4] == ["DefaultCluster", "broker-a", "0", ours.broker]
    assert line.split()[-1] == "true"


def test_a_broker_shows_its_state(ours: Up, jvm: Jvm, sent: Sent) -> None:
    """`mqadmin brokerStatus` reads how much the broker holds."""
    said = jvm.mqadmin("brokerStatus", "-n", ours.namesrv, "-b", ours.broker)
    state = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    state = {name.strip(): value.strip() for name, value in state.items()}
    assert state["brokerActive"] == "true"
    assert int(state["commitLogMaxOffset"]) > int(state["commitLogMinOffset"]) == 0
    assert int(state["msgPutTotalTodayNow"]) >= 1


def test_a_topic_has_a_route(ours: Up, jvm: Jvm, topic: str) -> None:
    """`mqadmin topicList` and `topicRoute` show a topic, where it is and with how many queues."""
    assert topic in jvm.mqadmin("topicList", "-n", ours.namesrv).split()
    said = jvm.mqadmin("topicRoute", "-n", ours.namesrv, "-t", topic)
    assert f'0:"{ours.broker}"' in said
    assert '"writeQueueNums":2' in said


def test_a_message_is_counted_in_its_queue(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin topicStatus` shows offsets per queue, and when the last message came."""
    said = jvm.mqadmin("topicStatus", "-n", ours.namesrv, "-t", topic)
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in said.splitlines() if line.startswith("broker-a")}
    assert set(rows) == {("broker-a", "0"), ("broker-a", "1")}
    minimum, maximum, day, _ = rows[sent.broker_name, sent.queue_id]
    assert (minimum, maximum) == ("0", "1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)


def test_a_message_is_consumed(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin consumeMessage` reads every queue to its end and prints the message once."""
    said = jvm.mqadmin("consumeMessage", "-n", ours.namesrv, "-t", topic)
    assert said.count(f"MSGID: {sent.msg_id}") == 1
    assert said.count("NO_NEW_MSG") == 2


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("queryMsgById", ["-i", "{sent.msg_id}"]),
        ("queryMsgByUniqueKey", ["-i", "{sent.msg_id}"]),
        ("queryMsgByOffset", ["-b", "{sent.broker_name}", "-i", "{sent.queue_id}", "-o", "0"]),
    ],
)
def test_a_message_is_found(verb: str, arguments: list[str], ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """mqadmin finds a message by its unique id, and by queue and offset, with all that was sent."""
    said = jvm.mqadmin(verb, "-n", ours.namesrv, "-t", topic, *(item.format(sent=sent) for item in arguments))
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in said.splitlines())}
    assert (facts["Topic"], facts["Tags"], facts["Keys"]) == (topic, "[paid]", "[order-1]")
    assert (facts["Queue ID"], facts["Queue Offset"]) == (sent.queue_id, "0")
    assert facts["Store Host"] == ours.broker
    assert f"UNIQ_KEY={sent.msg_id}" in facts["Properties"]
    body = Path(facts["Message Body Path"])  # mqadmin leaves it there
    assert body.read_bytes() == b"hello"
    body.unlink()


def test_the_entries_of_a_queue_are_shown(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin queryCq` shows where the message lies, and how many a queue has."""
    said = jvm.mqadmin("queryCq", "-n", ours.namesrv, "-t", topic, "-q", sent.queue_id, "-i", "0", "-g", "nobody")
    assert f"nobody@{topic} is not online!" in said
    assert "max: 1, min: 0" in said
    assert re.search(r"idx: 0\nConsumeQueueData\{physicOffset=\d+, physicSize=\d\d+, tagsCode=\d+,", said)


def test_a_message_is_found_by_key(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin queryMsgByKey` finds the message through the broker's index, and nothing under another key."""
    assert sent.msg_id in jvm.mqadmin("queryMsgByKey", "-n", ours.namesrv, "-t", topic, "-k", "order-1")
    assert sent.msg_id not in jvm.mqadmin("queryMsgByKey", "-n", ours.namesrv, "-t", topic, "-k", "order-2")


def test_a_group_is_made_reset_and_deleted(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """mqadmin makes a group, sets its offsets, shows its lag, and deletes it; our clients see the same."""
    made = jvm.mqadmin("updateSubGroup", "-n", ours.namesrv, "-c", "DefaultCluster", "-g", "auditors")
    assert f"create subscription group to {ours.broker} success" in made

    reset = jvm.mqadmin("resetOffsetByTime", "-n", ours.namesrv, "-g", "auditors", "-t", topic, "-s", "-1")
    assert {tuple(line.split()) for line in reset.splitlines() if line.startswith("broker-a")} == {
        ("broker-a", queue_id, "1" if queue_id == sent.queue_id else "0") for queue_id in ("0", "1")
    }
    with AdminClient(ours.namesrv) as admin:
        queues = admin.group("auditors").queues
        assert {(queue.queue.queue_id, queue.committed) for queue in queues if queue.queue.topic == topic} == {
            (int(sent.queue_id), 1),
            (1 - int(sent.queue_id), 0),
        }
        jvm.mqadmin("deleteSubGroup", "-n", ours.namesrv, "-c", "DefaultCluster", "-g", "auditors")
        assert "auditors" not in admin.groups()


def test_a_groups_progress_is_shown(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin consumerProgress` shows offsets, lag and total of a group that a Java client joined."""
    with jvm.push_consumer(ours.namesrv, "java-progress", topic) as messages:
        wait_for(lambda: messages, "the Java consumer has its message")
        connected = jvm.mqadmin("consumerConnection", "-n", ours.namesrv, "-g", "java-progress")
        assert "ConsumeType: CONSUME_PASSIVELY" in connected
        assert "MessageModel: CLUSTERING" in connected
        assert re.search(rf"{topic} +\* *$", connected, re.MULTILINE)

    def shows_all_read() -> bool:
        said = jvm.mqadmin("consumerProgress", "-n", ours.namesrv, "-g", "java-progress")
        rows = [line.split() for line in said.splitlines() if line.startswith(topic)]
        ends = {(row[2], row[3], row[4]) for row in rows}
        return ends >= {(sent.queue_id, "1", "1")} and "Consume Diff Total: 0" in said

    wait_for(shows_all_read, "the offset is there that the Java consumer sends last, and waits for no answer to")


def test_what_goes_in_and_out_is_shown(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin statsAll` shows how many messages a topic got, and how many a group read."""

    def shows_both() -> bool:
        said = jvm.mqadmin("statsAll", "-n", ours.namesrv, "-t", topic)
        rows = [line.split() for line in said.splitlines() if line.startswith(topic)]
        return any((row[1], row[-2:]) == ("java-counted", ["1", "1"]) for row in rows)

    with jvm.push_consumer(ours.namesrv, "java-counted", topic) as messages:
        wait_for(lambda: messages, "the Java consumer has its message")
    wait_for(shows_both, "the broker has counted what it read")


def test_the_progress_of_all_groups_is_shown(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`mqadmin brokerConsumeStats` shows each group's lag by queue, and the total."""
    with jvm.push_consumer(ours.namesrv, "java-among-all", topic) as messages:
        wait_for(lambda: messages, "the Java consumer has its message")

    def shows_all_read() -> bool:
        said = jvm.mqadmin("brokerConsumeStats", "-n", ours.namesrv, "-b", ours.broker)
        rows = [line.split()[:7] for line in said.splitlines() if " java-among-all " in line]
        total = re.search(r"^Diff Total: \d+", said, re.MULTILINE)
        return bool(total) and [topic, "java-among-all", "broker-a", sent.queue_id, "1", "1", "0"] in rows

    wait_for(shows_all_read, "the offset is there that the Java consumer sends last")


def test_a_group_takes_over_where_another_one_is(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """`DefaultMQAdminExt.cloneGroupOffset`: the new group goes on where the old one ended."""
    with jvm.push_consumer(ours.namesrv, "java-ahead", topic) as messages:
        wait_for(lambda: messages, "the Java consumer has its message")

    def is_there() -> bool:
        java.cloneGroupOffset("java-ahead", "java-behind", topic, True)
        queues = admin.group("java-behind").queues
        return (int(sent.queue_id), 1) in {(each.queue.queue_id, each.committed) for each in queues}

    jvm.mqadmin("updateSubGroup", "-n", ours.namesrv, "-c", "DefaultCluster", "-g", "java-behind")
    with jvm.admin(ours.namesrv) as java, AdminClient(ours.namesrv) as admin:
        wait_for(is_there, "the offset is there that the Java consumer sends last")


@pytest.mark.parametrize("verb", ["deleteExpiredCommitLog", "cleanExpiredCQ", "cleanUnusedTopic"])
def test_what_has_expired_can_be_deleted_now(verb: str, ours: Up, jvm: Jvm) -> None:
    """mqadmin is told that it is done."""
    assert "success" in jvm.mqadmin(verb, "-n", ours.namesrv, "-b", ours.broker).split()


def test_settings_are_shown(ours: Up, jvm: Jvm) -> None:
    """`mqadmin getBrokerConfig` prints the settings under RocketMQ's names, with what is in force."""
    said = jvm.mqadmin("getBrokerConfig", "-n", ours.namesrv, "-b", ours.broker)
    settings = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in said.splitlines())}
    assert settings["brokerName"] == "broker-a"
    assert settings["flushDiskType"] == "ASYNC_FLUSH"
    assert settings["listenPort"] == ours.broker.rsplit(":", 1)[1]
    assert settings["namesrvAddr"] == ours.namesrv
    assert settings["brokerIP1"] == "127.0.0.1"
    assert settings["autoCreateTopicEnable"] == "true"


def test_a_setting_is_changed(ours: Up, jvm: Jvm) -> None:
    """`mqadmin updateBrokerConfig` changes what can be while the broker runs, and is told what cannot."""
    change = ("updateBrokerConfig", "-n", ours.namesrv, "-b", ours.broker)
    assert f"update broker config success, {ours.broker}" in jvm.mqadmin(*change, "-k", "fileReservedTime", "-v", "48")
    with AdminClient(ours.namesrv) as admin:
        assert admin.broker_config("broker-a")["fileReservedTime"] == "48"
    refused = jvm.mqadmin(*change, "-k", "listenPort", "-v", "1")
    assert "Setting listen_port cannot be changed while the broker runs." in refused


def test_a_topic_is_changed_and_deleted(ours: Up, jvm: Jvm) -> None:
    """What mqadmin changes and deletes, our clients see at once."""
    where = ["-n", ours.namesrv, "-t", "short-lived"]
    jvm.mqadmin("updateTopic", *where, "-c", "DefaultCluster", "-r", "3", "-w", "3")
    with AdminClient(ours.namesrv) as admin, PullConsumer(ours.namesrv) as consumer:
        assert len(consumer.queues("short-lived")) == 3
        jvm.mqadmin("updateTopicPerm", *where, "-b", ours.broker, "-p", "4")
        assert [broker.perm for broker in admin.topic("short-lived").brokers] == ["r"]
        said = jvm.mqadmin("deleteTopic", *where, "-c", "DefaultCluster")
        assert "from cluster [DefaultCluster] success" in said
        assert "from NameServer success" in said
        with pytest.raises(TopicNotFound):
            admin.topic("short-lived")


def test_the_admin_client_of_java_reads_everything(ours: Up, jvm: Jvm, topic: str, sent: Sent) -> None:
    """DefaultMQAdminExt, on which RocketMQ's dashboards stand, understands our answers."""
    with jvm.admin(ours.namesrv) as admin:
        assert topic in admin.fetchAllTopicList().getTopicList()
        assert admin.examineBrokerClusterInfo().getBrokerAddrTable()["broker-a"].selectBrokerAddr() == ours.broker
        assert admin.examineTopicConfig(ours.broker, topic).getWriteQueueNums() == 2
        assert "brokerVersionDesc" in admin.fetchBrokerRuntimeStats(ours.broker).getTable()
        assert admin.getAllTopicConfig(ours.broker, 3000).getTopicConfigTable()[topic].getPerm() == 6
        groups = admin.getAllSubscriptionGroup(ours.broker, 3000).getSubscriptionGroupTable()
        assert "TOOLS_CONSUMER" in groups
        stored = admin.viewMessage(topic, sent.msg_id)
        assert (stored.getBody(), stored.getTags(), stored.getKeys()) == (b"hello", "paid", "order-1")
        assert admin.viewMessage(topic, stored.getOffsetMsgId()).getMsgId() == sent.msg_id
        queue = jvm.rocketmq.common.message.MessageQueue(topic, sent.broker_name, int(sent.queue_id))
        assert (admin.minOffset(queue), admin.maxOffset(queue)) == (0, 1)
        assert admin.earliestMsgStoreTime(queue) == stored.getStoreTimestamp()
        assert admin.searchOffset(queue, stored.getStoreTimestamp() + 1) == 1
        spans = {span.getMessageQueue(): span for span in admin.queryConsumeTimeSpan(topic, "nobody")}
        assert len(spans) == 2
        assert spans[queue].getMinTimeStamp() == spans[queue].getMaxTimeStamp() == stored.getStoreTimestamp()
        assert spans[queue].getDelayTime() > 0
