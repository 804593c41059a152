"""Errors and codes: what a server raises a client gets, through RocketMQ's numbers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from rmqspark import errors
from rmqspark.errors import RmqError
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.faults import PRODUCER_RETRY_CODES, from_response, to_response

# error, its code, what the client gets
BOTH_WAYS: list[tuple[RmqError, int, type[RmqError]]] = [
    (errors.ServerFault("disk on fire", code=605), 605, errors.ServerFault),
    (errors.ServerFault("oops"), 1, errors.ServerFault),
    (errors.Busy("too many held pulls"), 2, errors.Busy),
    (errors.NotSupported("request type 999 not supported"), 3, errors.NotSupported),
    (errors.FlushTimeout("stored, not flushed"), 10, errors.FlushTimeout),
    (errors.InvalidMessage("body too large"), 13, errors.InvalidMessage),
    (errors.NotWritable("the disk is full"), 14, errors.NotWritable),
    (errors.NoPermission("not readable"), 16, errors.NoPermission),
    (errors.TopicNotFound("T"), 17, errors.TopicNotFound),
    (errors.OffsetMoved("below 5", next_offset=5), 21, errors.OffsetMoved),
    (errors.OffsetNotFound("never committed"), 22, errors.OffsetNotFound),
    (errors.InvalidFilter("no such operator"), 23, errors.InvalidFilter),
    (errors.SubscriptionNotFound("no heartbeat yet"), 24, errors.SubscriptionNotFound),
    (errors.SubscriptionOutdated("older"), 25, errors.SubscriptionOutdated),
    (errors.GroupNotFound("G"), 26, errors.GroupNotFound),
    (errors.FilterNotFound("wrong at character 5"), 27, errors.FilterNotFound),
    (errors.InvalidArgument("what"), 29, errors.InvalidArgument),
    (errors.GoingAway("shutting down"), 1500, errors.GoingAway),
    (errors.Fenced("another run has taken over"), 30000, errors.Fenced),
    (errors.LeaseLost("a later run has it"), 30001, errors.LeaseLost),
    (errors.TopicRemade("deleted since"), 30002, errors.TopicRemade),
]
# these have no code of their own: they travel as something more general
ONE_WAY: list[tuple[RmqError, int, type[RmqError]]] = [
    (errors.InvalidName("bad name"), 29, errors.InvalidArgument),
    (errors.InvalidQueue("queue 9 of 4"), 29, errors.InvalidArgument),
    (errors.RecordError("bad magic"), 13, errors.InvalidMessage),
    (errors.HeaderError("lacks topic"), 1, errors.ServerFault),
    (errors.BodyError("no JSON"), 1, errors.ServerFault),
    (errors.MessageNotFound("offset 7"), 1, errors.ServerFault),
    (errors.NotFound("no such key"), 22, errors.OffsetNotFound),
    (errors.DamagedFile("segment 0"), 1, errors.ServerFault),
]


@pytest.mark.parametrize(("error", "code", "received"), BOTH_WAYS + ONE_WAY, ids=lambda value: str(value)[:24])
def test_errors_cross_the_wire(error: RmqError, code: int, received: type[RmqError]) -> None:
    """A client gets the kind of error that the server raised, with what it said."""
    sent_code, remark = to_response(error)
    assert sent_code == code
    arrived = from_response(sent_code, remark)
    assert type(arrived) is received
    if not isinstance(error, errors.GoingAway):  # its words are RocketMQ's
        assert error.message in str(arrived)


@pytest.mark.parametrize(("error", "code", "received"), BOTH_WAYS, ids=lambda value: str(value)[:24])
def test_received_errors_can_be_pickled(error: RmqError, code: int, received: type[RmqError]) -> None:
    """An error that a Spark task received reaches the driver as it was."""
    arrived = from_response(*to_response(error))
    copy = pickle.loads(pickle.dumps(arrived))
    assert (type(copy), str(copy), vars(copy)) == (received, str(arrived), vars(arrived))
    assert to_response(copy)[0] == code


def every_error(kind: type[RmqError] = RmqError) -> list[type[RmqError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", every_error())
def test_every_error_can_be_answered(kind: type[RmqError]) -> None:
    """Whatever goes wrong in a server, its client is told; nothing is left without a code."""
    error = kind.__new__(kind)
    error.message, error.hint, error.args = "what happened", "", ("what happened",)
    if isinstance(error, errors.ServerFault):
        error.code = 1
    code, remark = to_response(error)
    assert code != ResponseCode.SUCCESS
    assert remark


CODES = [(2, errors.Busy), (215, errors.Busy), (11, errors.SlaveNotAvailable), (12, errors.FlushSlaveTimeout)]
CODES += [(15, errors.NotSupported), (206, errors.NotFound), (604, errors.NotRecallable), (-7, errors.ServerFault)]


@pytest.mark.parametrize(("code", "kind"), CODES)
def test_codes_of_stock_servers_have_an_error(code: int, kind: type[RmqError]) -> None:
    """Answers that only RocketMQ gives are errors to our clients, too, with or without a remark."""
    assert type(from_response(code, "words")) is kind
    assert str(from_response(code, "words")) == "words"
    assert str(from_response(code, None))


def test_an_unknown_code_keeps_its_number() -> None:
    """A code that nobody has a word for is reported with its number."""
    fault = from_response(2015, None)
    assert isinstance(fault, errors.ServerFault)
    assert fault.code == 2015
    assert "2015" in str(fault)


def test_what_the_caller_knows_makes_the_error_better() -> None:
    """A missing topic is named, with the command that creates it, even if the server said something else."""
    missing: Any = from_response(17, "No topic route info", topic="orders")
    assert missing.topic == "orders"
    assert "rmq topic create orders" in str(missing)
    absent: Any = from_response(26, "subscription group not exist", group="billing")
    assert absent.group == "billing"
    moved: Any = from_response(21, "OFFSET_TOO_SMALL", next_offset=40)
    assert moved.next_offset == 40
    assert str(from_response(17, "No topic route info")) == "No topic route info"


def test_flow_control_says_what_clients_know() -> None:
    """Refusals for load begin with RocketMQ's words, unless they already do."""
    assert to_response(errors.Busy("x"))[1].startswith("[OVERLOAD]system busy, start flow control for a while")
    assert to_response(errors.Busy("[REJECTREQUEST]system busy"))[1] == "[REJECTREQUEST]system busy"
    assert to_response(errors.GoingAway("x"))[1] == "please go away"


def test_hints_travel() -> None:
    """What the user can do about an error is told on the other side as well."""
    error = errors.NotWritable("The disk is full.", hint="Free some space.")
    assert str(from_response(*to_response(error))) == "The disk is full. Free some space."


def test_producers_retry_where_rocketmqs_do() -> None:
    """A send is tried on another broker after the same answers as with RocketMQ's producer."""
    assert sorted(PRODUCER_RETRY_CODES) == [1, 2, 14, 16, 17, 204, 205, 1500]


@pytest.mark.parametrize(
    ("remark", "hint"),
    [
        ("username cannot be null.", "RMQ_ACCESS_KEY and RMQ_SECRET_KEY, rmq --credentials, the options accessKey and"),
        ("check signature failed.", "The secret key is not this user's."),
        ("User:ak is not found.", "The access key names no user who may come in."),
        ("User:ak is disabled.", "The access key names no user who may come in."),
        ("User:ak has no permission to access Topic:t from 127.0.0.1, no matched policies.", "mqadmin createAcl"),
        ("the topic[t] sending message is forbidden", ""),
    ],
)
def test_a_refusal_says_what_to_set(remark: str, hint: str) -> None:
    """By RocketMQ's words for it; what has nothing to do with who asks gets no such advice."""
    error = from_response(ResponseCode.NO_PERMISSION, remark)
    assert error.message == remark
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)
