"""Slips of the pen in what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import SendConfig, outgoing, outgoing_batch
from rmqspark.errors import InvalidArgument, InvalidMessage, InvalidName
from rmqspark.model import Message
from rmqspark.protocol.names import check_topic


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("topic", 5, "text"),
        ("tags", 5, "text"),
        ("tags", b"paid", "text"),
        ("tags", ["paid"], "text"),
        ("keys", 5, "a list of texts"),
        ("keys", [5], "a list of texts"),
        ("keys", b"k", "a list of texts"),
        ("properties", 5, "a mapping of text to text"),
        ("properties", {"a": 5}, "a mapping of text to text"),
        ("properties", {5: "a"}, "a mapping of text to text"),
        ("properties", None, "a mapping of text to text"),
        ("properties", [], "a mapping of text to text"),
        ("flag", "x", "32 bits"),
        ("flag", 2**31, "32 bits"),
        ("flag", True, "32 bits"),
        ("delay_level", "3", "an integer"),
        ("delay_level", True, "an integer"),
        ("wait_stored", "no", "True or False"),
        ("shard", 7, "text"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(name: str, value: Any, wanted: str) -> None:
    """Who sends with tags=5 is told which argument that was and what it takes, for single messages and batches."""
    shard = value if name == "shard" else None
    message = Message(**{"topic": "t", "body": b"x", **({} if name == "shard" else {name: value})})
    with pytest.raises(InvalidMessage, match=f"^{name} is .*{wanted}"):
        outgoing(message, "ID", SendConfig(), shard)
    with pytest.raises(InvalidMessage, match=f"^{name} is .*{wanted}"):
        outgoing_batch([message], ["ID"], SendConfig(), shard)


@pytest.mark.parametrize("slip", [b"x", {"topic": "t", "body": b"x"}, None])
def test_what_is_no_message_is_said(slip: Any) -> None:
    """A body alone, or a dictionary, is answered with the line that works."""
    with pytest.raises(InvalidMessage, match=r"is no message.*Message\("):
        outgoing(slip, "ID", SendConfig())
    with pytest.raises(InvalidMessage, match="is no message"):
        outgoing_batch([slip], ["ID"], SendConfig())


@pytest.mark.parametrize(("name", "hint"), [("tags", 'tags="5"'), ("keys", r'keys=\["5"\]'), ("shard", 'shard="5"')])
def test_numbers_are_to_be_written_as_text(name: str, hint: str) -> None:
    """The commonest slip, an id that is a number, is answered with the line that works."""
    message = Message("t", b"x", **({} if name == "shard" else {name: 5}))  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage, match=hint):
        outgoing(message, "ID", SendConfig(), 5 if name == "shard" else None)  # type: ignore[arg-type]


def test_the_least_numbers_there_are() -> None:
    """Java's Integer.MIN_VALUE is a flag as good as any."""
    assert outgoing(Message("t", b"x", flag=-(2**31)), "ID", SendConfig()).flag == -(2**31)
    with pytest.raises(InvalidMessage, match="32 bits"):
        outgoing(Message("t", b"x", flag=-(2**31) - 1), "ID", SendConfig())


@pytest.mark.parametrize("message", ["x", None, b"x"])
def test_what_is_no_message_is_named(message: Any) -> None:
    """A body in the place of a message is told what a message is."""
    with Producer("127.0.0.1:1") as producer, pytest.raises(InvalidMessage, match="takes a Message, not"):
        producer.send(message)


@pytest.mark.parametrize("timeout_ms", [0, -1, "x", 1.5])
def test_a_time_that_is_none_is_named(timeout_ms: Any) -> None:
    """No send has no time, and none has less."""
    with Producer("127.0.0.1:1") as producer, pytest.raises(InvalidArgument, match="^timeout_ms is "):
        producer.send(Message("t", b"x"), timeout_ms=timeout_ms)


@pytest.mark.parametrize("topic", [None, 5])
def test_a_topic_that_is_no_text_is_named(topic: Any) -> None:
    """None, as a variable that is not set, is not an error of ours."""
    with pytest.raises(InvalidName, match="topic's name is text"):
        check_topic(topic)
