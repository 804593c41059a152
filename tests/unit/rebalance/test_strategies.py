"""Allocation as RocketMQ does it: its vectors, and what must hold of every strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.model import MessageQueue
from rmqspark.rebalance.strategies import NAMES, Strategy

VECTORS = Path(__file__).parents[2] / "golden" / "allocation"
CASES = {file.stem: json.loads(file.read_text())["meaning"] for file in sorted(VECTORS.glob("*.json"))}
COUNTED = {
    "AVG": Strategy("averagely"),
    "AVG_BY_CIRCLE": Strategy("circle"),
    "CIRCLE": Strategy("circle"),
    "MACHINE_ROOM": Strategy("machine-room", ("room",)),
}


def queues_of(broker_name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("TopicTest", broker_name, queue_id) for queue_id in range(count)]


@pytest.mark.golden
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "owned" in case])
def test_rocketmqs_counts(name: str) -> None:
    """The same queues to the same consumers as RocketMQ; those of other machine rooms are nobody's."""
    case: Any = CASES[name]
    members = [f"c{number}" for number in range(case["consumers"])]
    strategy = COUNTED[case["strategy"]]
    queues = queues_of("room@a", case["queues"]) + (queues_of("far@b", 3) if strategy.rooms else [])
    owned = [[queue.queue_id for queue in strategy.allocate(member, queues, members)] for member in members]
    assert owned == case["owned"]


@pytest.mark.golden
def test_rocketmqs_ring() -> None:
    """Consistent hashing gives each queue to the consumer that Java gives it to."""
    case: Any = CASES["consistent_hash"]
    for member in case["consumers"]:
        owned = Strategy("consistent-hash").allocate(member, queues_of("broker-a", 8), case["consumers"])
        assert [queue.queue_id for queue in owned] == [
            each["queue_id"] for each in case["queues"] if each["owner"] == member
        ]


def test_every_vector_is_proved() -> None:
    """A file added to "allocation" is not passed over."""
    assert {name for name, case in CASES.items() if "owned" not in case} == {"consistent_hash"}


def test_nearby_rooms() -> None:
    """Queues stay in their room while somebody lives there; those of empty rooms are shared by all."""
    queues = queues_of("east@a", 4) + queues_of("west@a", 3)
    members = ["east@1", "east@2", "north@3"]
    nearby = Strategy("machine-room-nearby")
    assert nearby.allocate("east@2", queues, members) == queues_of("east@a", 4)[2:] + queues_of("west@a", 3)[1:2]
    assert nearby.allocate("north@3", queues, members) == queues_of("west@a", 3)[2:]


def test_without_rooms_all_are_read() -> None:
    """In equal number, as in the rooms that are named; what no broker's name says is nobody's only where one is."""
    queues = queues_of("east@a", 3) + queues_of("plain", 2)
    assert Strategy("machine-room").allocate("1", queues, ["1", "2"]) == [*queues[:2], queues[4]]
    assert Strategy("machine-room", ("east",)).allocate("1", queues, ["1", "2"]) == [queues[0], queues[2]]


def test_nearby_without_a_room() -> None:
    """Who lives in none has what nobody lives beside."""
    queues = queues_of("east@a", 2) + queues_of("west@a", 2)
    nearby = Strategy("machine-room-nearby")
    assert nearby.allocate("1", queues, ["1", "east@2"]) == queues_of("west@a", 2)[:1]
    assert nearby.allocate("1", queues, ["1", "2"]) == [queues[0], queues[2]]


def test_config_is_what_was_given() -> None:
    """Who names its queues gets them, whoever else is there."""
    assert Strategy("config").allocate("me", queues_of("a", 2), []) == queues_of("a", 2)


@given(
    st.sampled_from([name for name in NAMES if name != "config"]),
    st.lists(st.tuples(st.sampled_from(["x@a", "y@b", "c"]), st.integers(0, 9)), unique=True),
    st.lists(st.sampled_from(["x@1", "x@2", "y@1", "3", "4", "5"]), unique=True, min_size=1),
    st.randoms(),
)
def test_every_queue_has_one_owner(name: str, places: list[tuple[str, int]], members: list[str], chance: Any) -> None:
    """In whatever order members see queues and each other, and a stranger gets nothing."""
    queues = [MessageQueue("t", *place) for place in places]
    shares: list[MessageQueue] = []
    for member in members:
        chance.shuffle(queues)
        shares += Strategy(name).allocate(member, queues, chance.sample(members, len(members)))
    assert sorted(shares) == sorted(queues)
    assert Strategy(name).allocate("stranger", queues, members) == []


def test_a_word_is_the_same_for_all_who_divide_alike() -> None:
    """Those who read the same rooms do, in whatever order they name them; who lives in which makes no other way."""
    words = {Strategy("machine-room", rooms).word for rooms in (("a", "b"), ("b", "a"))}
    assert words == {"machine-room:a,b"}
    assert Strategy("machine-room", ("a",)).word not in words
    assert Strategy("machine-room-nearby", ("a",)).word == Strategy("machine-room-nearby", ("b",)).word
    assert Strategy("circle").word == "circle"
