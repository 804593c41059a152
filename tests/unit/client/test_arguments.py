"""Slips of the pen in what a client is asked to do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rmqspark import (
    AdminClient,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    TransactionProducer,
    TransactionState,
    peek,
)
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import InvalidArgument, InvalidMessage
from rmqspark.protocol.names import check_group

if TYPE_CHECKING:
    from collections.abc import Callable

NOWHERE = "127.0.0.1:1"
QUEUE = MessageQueue("t", "broker-a", 0)
SHOWN_ELSEWHERE = {"message", "messages", "arg", "start", "plan", "namesrv"}  # told by tests of their own


class Listener:
    def execute(self, message: Any, arg: Any) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: Any) -> TransactionState:
        return TransactionState.COMMIT


def parameters() -> list[Any]:
    """Every parameter of every public call."""
    owners = (Producer, TransactionProducer, PullConsumer, AdminClient)
    calls = [
        (f"{owner.__name__}.{name}", getattr(owner, name))
        for owner in owners
        for name in vars(owner)
        if inspect.isfunction(getattr(owner, name)) and (name == "__init__" or not name.startswith("_"))
    ]
    return [
        pytest.param(call, name, id=f"{title} {name}")
        for title, call in (*calls, ("peek", peek))
        for name in inspect.signature(call).parameters
        if name != "self" and name not in SHOWN_ELSEWHERE
    ]


@pytest.mark.parametrize(("call", "name"), parameters())
def test_every_argument_of_every_call_is_told_by_its_name(call: Callable[..., Any], name: str) -> None:
    """Whatever is called with something that makes no sense at all says which argument that is, and asks nobody."""
    if name == "queues" and "assign" in call.__name__:
        return  # takes anything that gives queues one after the other; see below
    is_open = inspect.signature(call).parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
    with pytest.raises(InvalidArgument, match=f"^{name} is <object .*>, but must be "):
        _ = call(None, QUEUE, object()) if is_open else call(**{name: object()})


@pytest.mark.parametrize(
    ("slip", "story"),
    [
        (lambda: Producer(NOWHERE, group=5), 'group is 5, but must be text. Write it as text: group="5"'),  # type: ignore[arg-type]
        (lambda: Producer(NOWHERE, config={}), "config is {}, but must be a SendConfig or None"),  # type: ignore[arg-type]
        (lambda: PullConsumer(NOWHERE, max_poll_messages=0), "max_poll_messages is 1 or more, not 0"),
        (lambda: PullConsumer(NOWHERE, max_poll_messages=2.5), "max_poll_messages is 2.5, but must be a whole"),  # type: ignore[arg-type]
        (lambda: PullConsumer(NOWHERE, tags=["paid"]), "tags is ['paid'], but must be text"),  # type: ignore[arg-type]
        (lambda: PullConsumer(NOWHERE).poll("5"), "timeout_ms is '5', but must be a whole number"),  # type: ignore[arg-type]
        (lambda: PullConsumer(NOWHERE).poll(True), "timeout_ms is True, but must be a whole number"),
        (lambda: PullConsumer(NOWHERE).seek(QUEUE, 1 << 64), "queue_offset is 18446744073709551616, but must be"),
        (lambda: PullConsumer(NOWHERE).min_offset(MessageQueue("t", "broker-a", "0")), "queue is MessageQueue(topic="),  # type: ignore[arg-type]
        (
            lambda: PullConsumer(NOWHERE, "g").commit({QUEUE: "5"}),  # type: ignore[dict-item]
            "must be a mapping of MessageQueue to offset or None",
        ),
        (lambda: PullConsumer(NOWHERE).assign(None), "None are no queues"),  # type: ignore[arg-type]
        (
            lambda: AdminClient(NOWHERE).create_topic("t", brokers="broker-a"),
            "brokers is 'broker-a', but must be a list",
        ),
        (
            lambda: AdminClient(NOWHERE).reset_group("g", "earliest", queues=["0"]),
            "queues is ['0'], but must be a list",
        ),  # type: ignore[list-item]
        (lambda: AdminClient(NOWHERE).carry_out_reset("g", "earliest"), "'earliest' is no plan. reset_group("),  # type: ignore[arg-type]
        (lambda: AdminClient(NOWHERE).query("t", "k", max_count=0), "max_count is 1 to 2147483647, not 0"),
        (lambda: check_group(None), "A group's name is text, not None"),  # type: ignore[arg-type]
        (lambda: SendConfig().timeout(1 << 31), "timeout_ms is 1 to 2147483647 milliseconds, not 2147483648"),
    ],
)
def test_a_slip_is_answered_with_what_is_right(slip: Callable[[], Any], story: str) -> None:
    """The answer says what was given, and what would be taken."""
    with pytest.raises(InvalidArgument) as told:
        slip()
    assert story in str(told.value)


@pytest.mark.parametrize("slip", [None, 5, b"x", {"topic": "t", "body": b"x"}])
def test_what_is_no_message_is_no_message_of_a_transaction_either(slip: Any) -> None:
    """A body in the place of a message is told what a message is, alone, in a batch, and in a transaction."""
    with TransactionProducer(NOWHERE, "g", listener=Listener()) as producer:
        with pytest.raises(InvalidMessage, match="is no message"):
            producer.send(slip)
        with pytest.raises(InvalidArgument, match="timeout_ms is 1 to 2147483647 milliseconds"):
            producer.send(Message("t", b"x"), timeout_ms=0)
    with Producer(NOWHERE) as plain, pytest.raises(InvalidMessage, match="is no message|A batch is a list of messages"):
        plain.send_batch(slip)


def test_numbers_of_numpy_are_numbers() -> None:
    """Offsets and queues out of a pandas frame are taken as they are."""
    with PullConsumer(NOWHERE) as consumer:
        consumer.assign([QUEUE])
        consumer.seek(QUEUE, np.int64(7))  # type: ignore[arg-type]
        assert consumer.position(QUEUE) == 7
