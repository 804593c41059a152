"""Dead letters counted, shown and sent again, against the real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message
from rmqspark.client.administration import dead_letter_resends
from rmqspark.client.administration.dead_letter_plan import ResendPlan
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.outgoing import Outgoing
from rmqspark.client.sending.selection import Target
from rmqspark.errors import Conflict, GroupNotFound, InvalidArgument, MessageNotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from rmqspark.model import ReceivedMessage
    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.integration


@pytest.fixture
def group(rmq: Rmq, topic: str) -> str:
    """A group that has given up three messages of `topic`."""
    name = f"group-of-{topic}"
    rmq.send(topic, *(Message(topic, b"%d" % n, "paid", [f"k{n}"], {"n": str(n)}, flag=7) for n in range(3)))
    rmq.give_up(name, *rmq.messages(topic))
    return name


def retried(rmq: Rmq, group: str) -> list[ReceivedMessage]:
    return rmq.messages(f"%RETRY%{group}") if f"%RETRY%{group}" in rmq.admin.topics(system=True) else []


def dead(mq: LocalCluster, group: str, contents: Outgoing) -> None:
    """Lays something into the group's dead letters."""
    with ClusterClient(mq.namesrv) as client:
        Delivery(client, "g", tries=1).deliver(Parcel(f"%DLQ%{group}", ("ID",), contents), Target(), 3000)


def test_what_there_is(admin: AdminClient, topic: str, group: str) -> None:
    """Per group how many; of each where it came from, how often it was tried and why it is dead."""
    (count,) = (each for each in admin.dead_letter_counts() if each.group == group)
    assert (count.count, count.waiting) == (3, 3)
    assert count.oldest_ms is not None
    assert count.newest_ms is not None
    assert count.oldest_ms <= count.newest_ms
    letters = admin.dead_letters(group)
    assert [(each.message.body, each.topic, each.tries, each.is_resent) for each in letters] == [
        (b"%d" % n, topic, 1, False) for n in range(3)
    ]
    assert {each.reason for each in letters} == {"given up by its consumer"}
    assert [each.message.body for each in admin.dead_letters(group, 2)] == [b"1", b"2"]


def test_its_group_gets_a_letter_again_as_if_it_were_new(admin: AdminClient, rmq: Rmq, topic: str, group: str) -> None:
    """With its id, keys, tags, flag, properties and body, under its topic, and never consumed so far."""
    first = rmq.messages(topic)
    assert admin.resend_dead_letters(group).count == 3
    again = retried(rmq, group)
    for message, was in zip(again, first, strict=True):
        assert (message.msg_id, message.body, message.tags, message.keys, message.flag) == (
            was.msg_id,
            was.body,
            was.tags,
            was.keys,
            was.flag,
        )
        assert message.born_timestamp_ms == was.born_timestamp_ms
        assert message.reconsume_times == 0
        said = message.properties
        assert (said["RETRY_TOPIC"], said["ORIGIN_MESSAGE_ID"], said["n"]) == (
            topic,
            was.offset_msg_id,
            was.properties["n"],
        )
        assert "DELAY" not in said


def test_a_letter_is_sent_again_once(admin: AdminClient, rmq: Rmq, topic: str, group: str) -> None:
    """The next resend has only what came since; `again` has all, a named letter is meant each time."""
    admin.resend_dead_letters(group)
    assert admin.resend_dead_letters(group).count == 0
    rmq.give_up(group, rmq.messages(topic)[0])
    assert [each.is_resent for each in admin.dead_letters(group)] == [True, True, True, False]
    assert admin.resend_dead_letters(group).count == 1
    assert len(retried(rmq, group)) == 4
    assert admin.resend_dead_letters(group, again=True, dry_run=True).count == 4
    named = admin.dead_letters(group)[1]
    assert admin.resend_dead_letters(group, msg_ids=[named.message.msg_id]).count == 1
    assert retried(rmq, group)[-1].body == named.message.body
    (count,) = (each for each in admin.dead_letter_counts() if each.group == group)
    assert (count.count, count.waiting) == (4, 0)


def test_letters_by_id_and_time(admin: AdminClient, rmq: Rmq, group: str) -> None:
    """A letter sent out of turn leaves a gap, and comes again with it."""
    letters = admin.dead_letters(group)
    ids = [letters[1].message.offset_msg_id, letters[1].origin_msg_id or ""]
    assert admin.resend_dead_letters(group, msg_ids=ids).count == 1
    assert admin.resend_dead_letters(group, dry_run=True).count == 3
    after = letters[2].message.store_timestamp_ms + 1
    assert admin.resend_dead_letters(group, begin_ms=after).count == 0
    assert admin.resend_dead_letters(group, end_ms=letters[0].message.store_timestamp_ms).count == 0
    assert admin.resend_dead_letters(group, begin_ms=1, end_ms=after).count == 3
    assert len(retried(rmq, group)) == 4
    with pytest.raises(MessageNotFound, match="has no dead letter 'nothing'"):
        admin.resend_dead_letters(group, msg_ids=["nothing"])


def test_to_the_topic_for_all_its_readers(admin: AdminClient, rmq: Rmq, topic: str, group: str) -> None:
    """As any message of the topic; the group's retry topic gets nothing."""
    admin.resend_dead_letters(group, to_topic=True)
    there = rmq.messages(topic)
    assert [message.body for message in there] == [b"0", b"1", b"2"] * 2
    assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"} & there[-1].properties.keys()
    assert retried(rmq, group) == []


def test_many_letters_and_a_resend_that_breaks_off(admin: AdminClient, rmq: Rmq, topic: str) -> None:
    """What follows begins where the broken one had told how far it was: a few come twice, none is left out."""
    group = f"many-of-{topic}"
    rmq.send(topic, *(b"%d" % n for n in range(100)))
    rmq.give_up(group, *rmq.messages(topic))
    letters = admin.resending(admin.resend_dead_letters(group, dry_run=True))
    for _ in range(50):
        next(letters)
    del letters
    sent = {message.body for message in retried(rmq, group)}
    assert 50 <= len(sent) < 100
    assert admin.resend_dead_letters(group).count == 100 - len(sent)
    assert {message.body for message in retried(rmq, group)} == {b"%d" % n for n in range(100)}


def test_dead_letters_are_no_lag_of_their_group(admin: AdminClient, rmq: Rmq, topic: str, group: str) -> None:
    """How far they were sent again is kept as an offset; nobody reads there, and no reset of the group moves it."""
    admin.resend_dead_letters(group)
    rmq.give_up(group, rmq.messages(topic)[0])
    assert admin.group(group).queues == []
    with pytest.raises(InvalidArgument, match="committed nothing"):
        admin.reset_group(group, "earliest")


def test_a_group_that_consumes_in_order_gets_its_letters_too(admin: AdminClient, mq: LocalCluster, rmq: Rmq) -> None:
    """RocketMQ's brokers would make dead letters of them at once."""
    rmq.send("ordered", b"0", b"1")
    rmq.give_up("in-order", *rmq.messages("ordered"))
    with ClusterClient(mq.namesrv) as client:
        name = next(iter(mq.brokers))
        client.broker(name).submit_lock("in-order", "c1", [MessageQueue("ordered", name, 0)]).result()
        assert admin.resend_dead_letters("in-order").count == 2
        assert len(retried(rmq, "in-order")) == 2


def test_a_broker_that_makes_dead_letters_of_them_again(
    admin: AdminClient, rmq: Rmq, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found out with the first letter, and no other is sent; that one waits as what was made of it, and only so:
    whoever sends them to their topic then gives nobody two of it."""
    with monkeypatch.context() as patched:
        patched.setattr(dead_letter_resends, "retry_topic", lambda group: f"%DLQ%{group}")
        with pytest.raises(Conflict, match="consumes in order: broker broker-a made a dead letter of it again"):
            admin.resend_dead_letters(group)
    assert [each.is_resent for each in admin.dead_letters(group)] == [True, False, False, False]
    admin.resend_dead_letters(group, to_topic=True)
    assert sorted(message.body for message in rmq.messages(topic)) == [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_a_group_that_was_deleted(admin: AdminClient, rmq: Rmq, topic: str, group: str) -> None:
    """Its dead letters are still there, and can be sent to their topic, once."""
    admin.delete_group(group)
    assert admin.resend_dead_letters(group, to_topic=True).count == 3
    assert len(rmq.messages(topic)) == 6
    assert admin.resend_dead_letters(group, to_topic=True).count == 0


def test_a_body_that_nobody_can_read(admin: AdminClient, mq: LocalCluster, topic: str, group: str) -> None:
    """It may be why it is a dead letter. It is listed as it lies there, and sent again as it is."""
    properties = encode_properties({"UNIQ_KEY": "F" * 32, "RETRY_TOPIC": topic}).decode()
    dead(mq, group, Outgoing(b"no zlib", properties, SysFlag.COMPRESSED, 0))
    letter = admin.dead_letters(group)[-1]
    assert (letter.message.body, letter.message.msg_id) == (b"no zlib", "F" * 32)
    assert admin.resend_dead_letters(group, msg_ids=["F" * 32]).count == 1
    assert admin.resend_dead_letters(group).count == 4


def test_no_letter_has_an_empty_id(admin: AdminClient, mq: LocalCluster, group: str) -> None:
    """A variable that is not set means no letter, not those whose first message is not known."""
    dead(mq, group, Outgoing(b"whose?", "", 0, 0))
    with pytest.raises(MessageNotFound, match="no dead letter ''"):
        admin.resend_dead_letters(group, msg_ids=[""])


def test_a_letter_that_cannot_be_sent(admin: AdminClient, mq: LocalCluster, rmq: Rmq, topic: str, group: str) -> None:
    """What was before it is sent, once, and nothing that is behind it."""
    dead(mq, group, Outgoing(b"whose?", "", 0, 0))
    rmq.give_up(group, rmq.messages(topic)[0])
    for _ in range(2):
        with pytest.raises(Conflict, match="Nothing says in which topic dead letter 3") as failed:
            admin.resend_dead_letters(group, to_topic=True)
    assert [message.body for message in rmq.messages(topic)] == [b"0", b"1", b"2"] * 2
    assert "0 of 2 dead letters were sent again" in failed.value.message


def test_what_is_not_there(admin: AdminClient, rmq: Rmq, topic: str) -> None:
    """An unknown group is an error; one that never failed has no letters."""
    with pytest.raises(GroupNotFound, match="nobody"):
        admin.dead_letters("nobody")
    with pytest.raises(GroupNotFound):
        admin.resend_dead_letters("nobody")
    with pytest.raises(InvalidArgument):
        admin.dead_letters("nobody", 0)
    rmq.admin.group("TOOLS_CONSUMER")
    assert admin.dead_letters("TOOLS_CONSUMER") == []
    assert admin.resend_dead_letters("TOOLS_CONSUMER") == ResendPlan("TOOLS_CONSUMER", (), {})
