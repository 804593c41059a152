"""Errors say what is wrong and what to do, and survive the way from a Spark worker to the driver."""

from __future__ import annotations

import pickle

import pytest

from rmqspark import errors

SAMPLES = [
    errors.TopicNotFound("orders"),
    errors.Unreachable("No name server at 127.0.0.1:9876.", address="127.0.0.1:9876", hint="Start one with: rmq up"),
    errors.OffsetMoved("Offset 3 is gone.", next_offset=7),
    errors.ServerFault("broken", code=1),
    errors.MissingExtra("pyarrow", "spark"),
    errors.PortInUse("127.0.0.1", 9876, "--namesrv-port"),
    errors.Busy("later"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: errors.RmqError) -> None:
    """What a Spark worker raises reaches the driver whole, with its hint and its fields."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_the_text_of_an_error_ends_with_what_to_do() -> None:
    """Whoever prints an error prints its hint."""
    assert str(errors.TopicNotFound("t")) == "Topic 't' does not exist. Create it with: rmq topic create t"
