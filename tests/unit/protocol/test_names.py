"""Names: what a topic, a group, a body may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.protocol.names import (
    DLQ_PREFIX,
    MAX_BODY_BYTES,
    NOT_SENDABLE,
    Perm,
    check_body,
    check_broker_name,
    check_group,
    check_sendable,
    check_topic,
    check_transactional,
    is_system_group,
    is_system_topic,
    retry_topic,
)

GOOD_TOPICS = ["T", "orders", "a-b_c|d%e", "9", "x" * 127, retry_topic("g" * 248), DLQ_PREFIX + "g" * 250]
BAD_TOPICS = {
    "": "empty",
    " ": "not allowed",
    "a b": "not allowed",
    "a.b": "not allowed",
    "../../etc": "not allowed",
    "a/b": "not allowed",
    "a\0b": "not allowed",
    "a\n": "not allowed",
    "töpic": "not allowed",
    "主题": "not allowed",
    "x" * 128: "128 characters",
    "%RETRY%" + "x" * 249: "256 characters",
}


@pytest.mark.parametrize("name", GOOD_TOPICS)
def test_good_topic_names_are_taken_as_they_are(name: str) -> None:
    """Every name that RocketMQ accepts is accepted."""
    assert check_topic(name) == name


@pytest.mark.parametrize(("name", "complaint"), BAD_TOPICS.items(), ids=[ascii(name[:12]) for name in BAD_TOPICS])
def test_bad_topic_names_are_refused_with_the_rule(name: str, complaint: str) -> None:
    """A name that RocketMQ refuses, or that would leave the store's directory, is refused with what would be right."""
    with pytest.raises(InvalidName, match=complaint) as refusal:
        check_topic(name)
    assert "a-z A-Z 0-9 _ - % |" in refusal.value.hint


@pytest.mark.property
@given(st.text(max_size=20))
def test_an_accepted_name_is_a_harmless_file_name(name: str) -> None:
    """No name that gets through can mean another directory, or more than one file."""
    try:
        check_topic(name)
    except InvalidName:
        return
    assert name.isascii()
    assert not set(name) & set("/\\.\0 \n")


@pytest.mark.parametrize("name", ["broker-a", "queue1.example.com", "east@broker-a", "b" * 127])
def test_brokers_are_named_after_hosts_and_rooms(name: str) -> None:
    """As RocketMQ's are: by default after the host, and room@name where queues are divided by machine room."""
    assert check_broker_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "@a", "a b", "a/b", "a\\b", "a:b", "a;b", "ä", "b" * 128])
def test_bad_names_of_brokers(name: str) -> None:
    """One that would be another directory, or two brokers in a list, is refused with the rule."""
    with pytest.raises(InvalidName, match="cannot be the name of a broker") as refusal:
        check_broker_name(name)
    assert "behind the first one . and @" in refusal.value.hint


def test_groups_are_shorter() -> None:
    """A group's name leaves room for the prefix of its retry topic."""
    assert check_group("g" * 120) == "g" * 120
    with pytest.raises(InvalidName, match="group name .* 121 characters"):
        check_group("g" * 121)


@pytest.mark.parametrize("topic", sorted(NOT_SENDABLE))
def test_the_brokers_own_topics_take_no_sends(topic: str) -> None:
    """Nobody can forge a delayed message or a half message by sending to the topic that holds them."""
    with pytest.raises(InvalidName, match="broker alone"):
        check_sendable(topic)


def test_other_topics_take_sends() -> None:
    """Ordinary topics can be sent to, and so can the benchmark's."""
    assert check_sendable("orders") == "orders"
    assert check_sendable("BenchmarkTest") == "BenchmarkTest"
    with pytest.raises(InvalidName):
        check_sendable("a b")


def test_bodies_have_a_size() -> None:
    """A body has at least one byte and at most 4 MiB, or what the broker allows."""
    check_body(1)
    check_body(MAX_BODY_BYTES)
    with pytest.raises(InvalidMessage, match="empty"):
        check_body(0)
    with pytest.raises(InvalidMessage, match="4194305 bytes is over the limit of 4194304"):
        check_body(MAX_BODY_BYTES + 1)
    with pytest.raises(InvalidMessage, match="limit of 10"):
        check_body(11, 10)


def test_system_names_are_known() -> None:
    """RocketMQ's own topics and groups are told from the user's."""
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_wheel_timer")
    assert not is_system_topic("orders")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert is_system_group("TOOLS_CONSUMER")
    assert not is_system_group("billing")


def test_permissions_are_bits() -> None:
    """6 is read and write, 7 may also serve as template."""
    assert Perm(6) == Perm.READ | Perm.WRITE
    assert Perm(6).readable
    assert Perm(6).writable
    assert Perm.INHERIT in Perm(7)
    assert not Perm(4).writable
    assert not Perm(2).readable


@pytest.mark.parametrize("name", ["spark-1b6f", "a" * 255, "team/job:1@x.y", "%|"])
def test_a_transactional_id_may_be_what_people_type(name: str) -> None:
    """Ids of queries, paths and addresses do."""
    assert check_transactional("transactional id", name) == name


@pytest.mark.parametrize("name", ["", "a" * 256, "a b", "a\x01", "ä", "a\n"])
def test_a_transactional_id_that_would_break_a_record_is_refused(name: str) -> None:
    """What separates properties, or cannot be typed again, is not taken."""
    with pytest.raises(InvalidName, match="transactional id"):
        check_transactional("transactional id", name)
