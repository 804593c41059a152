"""The topic table: how topics come into being, and what is refused."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.state.attributes import change_attributes
from rmqspark.broker.state.topics import TopicTable, system_topics
from rmqspark.errors import InvalidArgument, InvalidName, NoPermission, ServerFault, TopicNotFound
from rmqspark.protocol.bodies.route import TopicConfig, TopicConfigTable
from rmqspark.protocol.names import TXN_LEDGER_TOPIC

NOW_MS = 1_700_000_000_000


def table_of(config: BrokerConfig | None = None, *, max_topics: int = 100) -> TopicTable:
    topics = TopicTable(max_topics=max_topics, now_ms=NOW_MS)
    topics.add_system_topics(system_topics(config or BrokerConfig()), NOW_MS)
    return topics


@pytest.mark.parametrize(
    ("asked", "made"),
    [(4, 4), (8, 8), (16, 8), (0, 0), (-3, 0)],
)
def test_a_first_send_makes_a_topic_with_as_many_queues_as_the_template_allows(asked: int, made: int) -> None:
    """The sender's wish counts up to the template's queues; the topic may be read and written, not inherited."""
    topics = table_of()
    config = topics.auto_create("orders", template="TBW102", queues=asked, sys_flag=0, now_ms=NOW_MS)
    assert (config.readQueueNums, config.writeQueueNums, config.perm) == (made, made, 6)
    assert topics.get("orders") == config


@pytest.mark.parametrize("template", ["BenchmarkTest", "nobody", "orders"])
def test_only_a_template_gives_birth(template: str) -> None:
    """A topic that may not be inherited from, or is not there, makes none."""
    with pytest.raises(TopicNotFound, match="'new'"):
        table_of().auto_create("new", template=template, queues=4, sys_flag=0, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("bind_address", "setting", "creates"),
    [
        ("127.0.0.1", None, True),
        ("0.0.0.0", None, False),
        ("0.0.0.0", True, True),
        ("127.0.0.1", False, False),
        ("::1", None, True),
    ],
)
def test_topics_are_made_by_sends_only_on_loopback_unless_told_otherwise(bind_address, setting, creates) -> None:
    """Beyond this machine, strangers fill no topic table."""
    topics = table_of(BrokerConfig(bind_address=bind_address, auto_create_topic_enable=setting))
    assert (topics.get("TBW102") is not None) is creates


@pytest.mark.parametrize("name", ["east@broker-a", "queue1.example.com"])
def test_a_topic_of_the_broker_s_own_name_is_kept(name: str) -> None:
    """A broker named by room or host has a topic of that name, in this run and the next; nobody else may make one."""
    topics = table_of(BrokerConfig(broker_name=name))
    again = TopicTable(max_topics=100, now_ms=NOW_MS)
    again.load(topics.table())
    kept = again.get(name)
    assert kept is not None
    assert kept == topics.get(name)
    with pytest.raises(InvalidName):
        table_of().put(TopicConfig(topicName=name), NOW_MS)


def test_a_broker_makes_the_topics_it_needs_itself() -> None:
    """Names, queues and permissions are RocketMQ's (spec: semantics, section 2.2)."""
    made = {topic.topicName: (topic.writeQueueNums, topic.perm) for topic in table_of()}
    assert made == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
        "RMQ_SYS_TRACE_TOPIC": (1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
    }
    closed = table_of(BrokerConfig(cluster_topic_enable=False, broker_topic_enable=False, trace_topic_enable=False))
    assert (closed.require("DefaultCluster").perm, closed.require("broker-a").perm) == (1, 1)
    assert closed.get("RMQ_SYS_TRACE_TOPIC") is None


def test_a_retry_topic_comes_with_its_group() -> None:
    """Once, with as many queues as the group has retry queues."""
    topics = table_of()
    assert topics.ensure_retry("billing", 2, NOW_MS) is True
    assert topics.ensure_retry("billing", 9, NOW_MS) is False
    assert topics.require("%RETRY%billing").writeQueueNums == 2


def test_a_topic_that_has_messages_comes_back_unless_it_is_the_broker_s() -> None:
    """What is known stays as it is; names that nobody could have made, and the broker's own, are left out."""
    topics = table_of(max_topics=len(table_of()) + 2)
    for name in ("orders", "%DLQ%g"):
        assert topics.restore(name, 3, NOW_MS)
        config = topics.require(name)
        assert (config.readQueueNums, config.writeQueueNums, config.perm) == (3, 3, 6)
    for name in ("orders", "broker-a", TXN_LEDGER_TOPIC, "rmq_sys_anything"):
        assert not topics.restore(name, 9, NOW_MS)
    assert topics.require("orders").readQueueNums == 3
    with pytest.raises(InvalidName):
        topics.restore("../orders", 1, NOW_MS)
    with pytest.raises(NoPermission):
        topics.restore("one-too-many", 1, NOW_MS)


def test_the_version_moves_with_changes_and_only_with_them() -> None:
    """Name servers go by it: a change it hides would never reach the clients."""
    topics = table_of()
    version = topics.version
    assert topics.put(TopicConfig(topicName="orders"), NOW_MS + 1) is True
    assert topics.version.counter == version.counter + 1
    assert topics.version.timestamp == NOW_MS + 1
    assert topics.put(TopicConfig(topicName="orders"), NOW_MS + 2) is False
    assert topics.version.counter == version.counter + 1
    assert topics.remove("orders", NOW_MS + 3) is True
    assert topics.remove("orders", NOW_MS + 3) is False
    assert topics.version.counter == version.counter + 2


def test_a_broker_has_a_bounded_number_of_topics() -> None:
    """The one too many is refused; changing one that is there is not."""
    topics = TopicTable(max_topics=1, now_ms=NOW_MS)
    topics.put(TopicConfig(topicName="a"), NOW_MS)
    with pytest.raises(NoPermission):
        topics.put(TopicConfig(topicName="b"), NOW_MS)
    assert topics.put(TopicConfig(topicName="a", perm=4), NOW_MS) is True
    topics.load(TopicConfigTable({name: TopicConfig(topicName=name) for name in "abc"}))  # of a run that allowed more
    topics.require_room(["a", "b"])
    with pytest.raises(NoPermission):
        topics.require_room(["a", "d"])


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "a" * 128, "ü"])
def test_names_that_could_leave_the_store_are_refused(name: str) -> None:
    """From a request; what a planted file says of one is left out, and named in the log."""
    topics = table_of()
    with pytest.raises(InvalidName):
        topics.put(TopicConfig(topicName=name), NOW_MS)
    with capture_logs() as logs:
        topics.load(TopicConfigTable({name: TopicConfig(topicName="fine"), "orders": TopicConfig()}))
    assert (topics.get(name), topics.get("fine")) == (None, None)
    assert topics.require("orders").topicName == "orders"
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_the_table_survives_in_rocketmqs_form() -> None:
    """Written and read again, topics and version are the same."""
    topics = table_of()
    topics.put(TopicConfig(topicName="orders", readQueueNums=3, attributes={"message.type": "FIFO"}), NOW_MS)
    again = TopicTable(max_topics=100, now_ms=0)
    again.load(TopicConfigTable.decode(topics.table().encode()))
    assert list(again) == list(topics)
    assert again.version == topics.version


@pytest.mark.parametrize(
    ("current", "changes", "creating", "expected"),
    [
        ({}, None, True, {}),
        ({}, "+message.type=FIFO", True, {"message.type": "FIFO"}),
        ({}, "+message.type=FIFO, +reserve.time=-1", True, {"message.type": "FIFO", "reserve.time": "-1"}),
        ({"message.type": "FIFO"}, "+message.type=NORMAL", False, {"message.type": "NORMAL"}),
        ({"message.type": "FIFO"}, "-message.type", False, {}),
        (
            {},
            "+queue.type=SimpleCQ,+cleanup.policy=DELETE",
            True,
            {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"},
        ),
    ],
)
def test_attributes_change_as_they_are_told(current, changes, creating, expected) -> None:
    """RocketMQ's notation: + sets, - takes away."""
    assert change_attributes(current, changes, creating=creating) == expected


@pytest.mark.parametrize(
    ("changes", "creating"),
    [
        ("message.type=FIFO", True),
        ("+message.type=WRONG", True),
        ("+no.such=1", True),
        ("-message.type", True),
        ("-message.type", False),
        ("+queue.type=BatchCQ", True),
        ("+cleanup.policy=COMPACTION", True),
        ("+queue.type=SimpleCQ", False),
        ("+reserve.time=soon", True),
        ("+reserve.time=-2", True),
        ("+message.type=LITE", True),
        ("+message.type=PRIORITY", True),
        ("+message.type=FIFO,+message.type=DELAY", True),
    ],
)
def test_attributes_that_cannot_be_are_refused(changes: str, creating: bool) -> None:
    """Unknown names, bad values, kinds of queue that are not there, changes of what is fixed."""
    with pytest.raises(ServerFault):
        change_attributes({}, changes, creating=creating)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"broker_role": "SLAVE"}, InvalidArgument),
        ({"broker_id": 1}, InvalidArgument),
        ({"broker_role": "SLAVE", "broker_id": 0}, InvalidArgument),
        ({"broker_role": "MASTER"}, InvalidArgument),
        ({"broker_role": "SLAVE", "broker_id": 1}, InvalidArgument),
        ({"broker_name": "../x"}, InvalidName),
        ({"broker_cluster_name": ""}, InvalidName),
        ({"default_topic_queue_nums": 0}, InvalidArgument),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings, error) -> None:
    """A broker that cannot be as it is told does not start as something else."""
    with pytest.raises(error):
        BrokerConfig(**settings)
