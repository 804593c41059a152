"""Groups set to another place, against the real broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.client.administration.group_resets import ResetTarget
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.pull_request import PullStatus
from rmqspark.errors import GroupNotFound, InvalidArgument, RmqError, TopicNotFound
from rmqspark.options import Moment

if TYPE_CHECKING:
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


@pytest.fixture
def group(mq: LocalCluster, topic: str) -> str:
    """A group that has consumed the eight messages of `topic`, two in each queue."""
    with Producer(mq.namesrv) as producer:
        for number in range(8):
            producer.send(Message(topic, b"x"), queue=number % 4)
    with PullConsumer(mq.namesrv, group=f"group-of-{topic}") as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit(dict.fromkeys(queues, 2))
    return f"group-of-{topic}"


def committed(admin: AdminClient, group: str) -> list[int | None]:
    return [queue.committed for queue in admin.group(group).queues]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetTarget(name="earliest")),
        (" latest ", ResetTarget(name="latest")),
        ("12", ResetTarget(offset=12)),
        ("99999999999", ResetTarget(offset=99_999_999_999)),
        ("1700000000000", ResetTarget(moment=Moment(at_ms=1_700_000_000_000))),
        ("-10m", ResetTarget(moment=Moment(ago_ms=600_000))),
        ("1970-01-01T00:00:01", ResetTarget(moment=Moment(at_ms=1000))),
        ("group:other", ResetTarget(group="other")),
    ],
)
def test_targets_as_people_type_them(text: str, target: ResetTarget) -> None:
    """A number of up to eleven digits is an offset, a longer one a time."""
    assert ResetTarget.parse(text) == target


@pytest.mark.parametrize("text", ["", "soon", "-5", "group:", "group:a b"])
def test_targets_that_are_none(text: str) -> None:
    """The error says what is accepted."""
    with pytest.raises(InvalidArgument):
        ResetTarget.parse(text)


def test_a_plan_changes_nothing_until_it_is_carried_out(admin: AdminClient, topic: str, group: str) -> None:
    """dry_run shows every queue with what will be read again; the plan is what is then done."""
    plan = admin.reset_group(group, "earliest", dry_run=True)
    assert [(each.committed, each.target, each.read_again) for each in plan] == [(2, 0, 2)] * 4
    assert committed(admin, group) == [2] * 4
    admin.carry_out_reset(group, plan)
    assert committed(admin, group) == [0] * 4


def test_one_queue_to_an_offset(admin: AdminClient, topic: str, group: str) -> None:
    """Only the queue that is named moves."""
    admin.reset_group(group, "1", topic=topic, queues=[2])
    assert committed(admin, group) == [2, 2, 1, 2]
    admin.reset_group(group, "latest")
    assert committed(admin, group) == [2] * 4


def test_a_reset_that_fails_on_its_way(admin: AdminClient, topic: str, group: str) -> None:
    """It says which queues it had set."""
    plan = admin.reset_group(group, "earliest", topic=topic, dry_run=True)
    plan[2] = replace(plan[2], queue=plan[2].queue._replace(queue_id=99))
    with pytest.raises(
        RmqError, match=r"done for queue topic-\d+/broker-a/0, queue topic-\d+/broker-a/1, and for nothing behind"
    ):
        admin.carry_out_reset(group, plan)
    assert committed(admin, group) == [0, 0, 2, 2]


def test_times_and_other_groups(admin: AdminClient, mq: LocalCluster, topic: str, group: str) -> None:
    """To the first message stored since then; or to where another group is."""
    admin.reset_group(group, "-1h")
    assert committed(admin, group) == [0] * 4
    with PullConsumer(mq.namesrv, group=f"new-{group}") as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit({queues[1]: 1})
    plan = admin.reset_group(group, f"group:new-{group}")
    assert [(each.queue.queue_id, each.target) for each in plan] == [(1, 1)]


def test_a_consumer_that_runs_is_told(admin: AdminClient, mq: LocalCluster, topic: str, group: str) -> None:
    """The next pull for the group says where to go on."""
    (reset,) = admin.reset_group(group, "1", topic=topic, queues=[0])
    with ClusterClient(mq.namesrv) as client:
        broker = client.broker(reset.queue.broker_name)
        told = broker.pull(reset.queue, 2, group=group)
        assert (told.status, told.next_offset) == (PullStatus.OFFSET_MOVED, 1)
        assert broker.pull(reset.queue, 1, group=group).status is PullStatus.FOUND


def test_a_group_that_has_committed_nothing_takes_over_from_another(
    mq: LocalCluster, admin: AdminClient, topic: str, group: str
) -> None:
    """It need not be told which topics: they are those of the group it follows."""
    heir = f"heir-of-{topic}"
    with PullConsumer(mq.namesrv, group=heir) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.poll(timeout_ms=1000)  # the broker knows it then
    with pytest.raises(InvalidArgument, match=f"'{heir}' has committed nothing"):
        admin.reset_group(heir, "earliest")
    admin.reset_group(heir, f"group:{group}")
    assert committed(admin, heir) == [2] * 4


def test_what_cannot_be_reset(admin: AdminClient, topic: str, group: str) -> None:
    """Unknown groups, topics and queues, offsets outside, and nothing to set: errors that name it."""
    with pytest.raises(GroupNotFound):
        admin.reset_group("nobody", "earliest")
    with pytest.raises(GroupNotFound):
        admin.reset_group("nobody", "earliest", topic=topic)
    with pytest.raises(TopicNotFound):
        admin.reset_group(group, "earliest", topic="no-topic")
    with pytest.raises(InvalidArgument, match="has no queue 7"):
        admin.reset_group(group, "earliest", topic=topic, queues=[7])
    with pytest.raises(
        InvalidArgument, match="Offset 9 is not within 0 to 2.*Name the queue that it is meant for: --queue"
    ):
        admin.reset_group(group, "9")
    with pytest.raises(InvalidArgument, match="Offset 9 is not within 0 to 2") as refused:
        admin.reset_group(group, "9", topic=topic, queues=[0])
    assert refused.value.hint == "Say earliest or latest for either end of what a queue holds."
    with pytest.raises(InvalidArgument, match=f"'empty' has committed no offset of {topic}, so"):
        admin.reset_group(group, "group:empty")


def test_no_queues_at_all_are_a_slip(mq: LocalCluster, topic: str, group: str) -> None:
    """It is not told that the group had committed nothing; all of them are meant where none is named."""
    with AdminClient(mq.namesrv) as admin:
        with pytest.raises(InvalidArgument, match="No queue is named"):
            admin.reset_group(group, "earliest", topic=topic, queues=[])
        assert committed(admin, group) == [2] * 4
