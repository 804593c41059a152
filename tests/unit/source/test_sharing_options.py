"""Options of a shared group: how they are read, and what contradicts them."""

from __future__ import annotations

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue
from rmqspark.rebalance.strategies import Strategy
from rmqspark.source.groups.sharing import Sharing
from rmqspark.source.options import SourceOptions

SHARED = {"subscribe": "t", "group": "g", "groupMode": "shared"}


@pytest.mark.parametrize(
    ("given", "sharing"),
    [
        ({}, Sharing()),
        ({"groupOffsetReset": "earliest"}, Sharing(from_earliest=True)),
        ({"startingOffsets": "group"}, Sharing()),
        ({"startingOffsets": "earliest"}, Sharing(from_earliest=True)),
        ({"startingOffsets": "latest"}, Sharing()),
        ({"startingOffsets": "earliest", "groupOffsetReset": "earliest"}, Sharing(from_earliest=True)),
        ({"readMode": "direct"}, Sharing()),
        ({"allocateStrategy": "config", "assign": '{"t":{"b":[0]}}', "subscribe": None}, Sharing(Strategy("config"))),
        ({"groupOffsetReset": "latest", "allocateStrategy": "circle"}, Sharing(Strategy("circle"))),
        ({"allocateStrategy": "Consistent-Hash"}, Sharing(Strategy("consistent-hash"))),
        ({"allocateStrategy": "machine-room: a, b"}, Sharing(Strategy("machine-room", ("a", "b")))),
        ({"allocateStrategy": "Machine-Room"}, Sharing(Strategy("machine-room"))),
        ({"allocateStrategy": "machine-room-nearby"}, Sharing(Strategy("machine-room-nearby"))),
        ({"allocateStrategy": "MACHINE-ROOM:East"}, Sharing(Strategy("machine-room", ("East",)))),
        ({"allocateStrategy": "machine-room-nearby:a"}, Sharing(Strategy("machine-room-nearby", ("a",)))),
    ],
)
def test_how_a_group_is_shared(given: dict[str, str | None], sharing: Sharing) -> None:
    """allocateStrategy takes RocketMQ's strategies by name, with rooms where they go by rooms."""
    options = {name: value for name, value in {**SHARED, **given}.items() if value is not None}
    assert SourceOptions.parse(options, streaming=True).sharing == sharing


def test_a_group_is_not_shared_unasked() -> None:
    """groupMode is exclusive where nothing is said."""
    assert SourceOptions.parse({"subscribe": "t"}, streaming=True).sharing is None


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"subscribe": "t", "groupMode": "shared"}, "needs the name of the group"),
        ({**SHARED, "commitOffsets": "false"}, "commitOffsets=false is against it"),
        ({**SHARED, "startingOffsets": '{"t":{"b":{"0":4}}}'}, "not at 'startingOffsets'.*groupOffsetReset"),
        ({**SHARED, "startingOffsets": "-1000"}, "not at 'startingOffsets'"),
        (
            {**SHARED, "startingOffsets": "earliest", "groupOffsetReset": "latest"},
            "startingOffsets=earliest and groupOffsetReset=latest contradict each other",
        ),
        ({**SHARED, "startingTimestamp": "-10m"}, "not at 'startingTimestamp'"),
        ({**SHARED, "allocateStrategy": "fairly"}, "one of averagely, circle, config"),
        ({**SHARED, "allocateStrategy": "circle:a"}, "circle takes no rooms"),
        ({**SHARED, "allocateStrategy": "machine-room:"}, "goes by rooms, like machine-room:EAST,WEST"),
        ({**SHARED, "allocateStrategy": "machine-room-nearby:a,b"}, "like machine-room-nearby:EAST"),
        ({**SHARED, "allocateStrategy": "config"}, "the queues of option 'assign'"),
        (
            {"subscribe": "t", "allocateStrategy": "circle"},
            "'allocateStrategy' has no meaning without groupMode=shared",
        ),
    ],
)
def test_options_that_contradict_a_shared_group(given: dict[str, str], story: str) -> None:
    """The error names the option and what it is about."""
    with pytest.raises(InvalidArgument, match=story):
        SourceOptions.parse(given, streaming=True)


def test_a_batch_read_shares_nothing() -> None:
    """There is no second micro-batch between which and the first anything could change hands."""
    with pytest.raises(InvalidArgument, match="no meaning for a batch read"):
        SourceOptions.parse(SHARED, streaming=False)


def test_members_are_named_apart() -> None:
    """Like RocketMQ's client ids: where it runs, and what it is; its room first, where others go by that."""
    entropy = SystemEntropy(1)
    first, second = (Sharing().draw_member("10.0.0.1", entropy) for _ in range(2))
    assert first.startswith("10.0.0.1@spark-")
    assert first != second
    assert Sharing(Strategy("machine-room-nearby", ("east",))).draw_member("10.0.0.1", entropy).startswith("east@10.")


def test_rooms_that_no_broker_is_in_are_told() -> None:
    """A query that never reads anything says why; one broker that is named after a room is enough."""
    sharing = Sharing(Strategy("machine-room", ("EAST", "WEST")))
    plain, west = MessageQueue("t", "broker-a", 0), MessageQueue("t", "WEST@broker-b", 0)
    assert "machine-room:EAST,WEST reads queues of brokers named EAST@… alone, and these are of broker-a" in str(
        sharing.idle_story([plain])
    )
    assert sharing.idle_story([plain, west]) is None
    assert sharing.idle_story([]) is None
    assert Sharing(Strategy("machine-room-nearby", ("EAST",))).idle_story([plain]) is None
    assert Sharing(Strategy("machine-room")).idle_story([plain]) is None
