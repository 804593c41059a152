"""The offset that lives in Spark's checkpoints."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.planning.planner import ranges

DOCUMENT = {
    "group": "billing",
    "topics": {
        "orders": {
            "brokers": {
                "broker-a": {"incarnation": 1, "offsets": {"0": 12, "1": 7}, "storeId": "9f"},
                "broker-b": {"incarnation": 2, "offsets": {"0": 3}, "storeId": "0c", "topicDeleted": 1_700_000_000_000},
            },
            "epoch": 2,
        }
    },
    "v": 1,
}


def test_the_documented_form_reads_and_writes_back_unchanged() -> None:
    """The JSON in a checkpoint is what docs/spark.md shows, key for key."""
    offsets = Offsets.from_json(DOCUMENT)
    assert offsets.positions[MessageQueue("orders", "broker-a", 1)] == 7
    assert offsets.identity(MessageQueue("orders", "broker-a", 0)) == (2, StoreIdentity("9f", 1), 0)
    assert json.dumps(offsets.to_json()) == json.dumps(DOCUMENT)


def test_a_shared_group_s_offset_says_whose_it_is() -> None:
    """Leases and the member's name come and go with it; nothing is read across two leases of a queue."""
    queue = MessageQueue("orders", "broker-a", 1)
    document = {
        "group": "billing",
        "member": "10.0.0.1@spark-7",
        "topics": {
            "orders": {
                "brokers": {"broker-a": {"incarnation": 1, "leases": {"1": 4}, "offsets": {"1": 7}, "storeId": "9f"}},
                "epoch": 0,
            }
        },
        "v": 1,
    }
    offsets = Offsets.from_json(document)
    assert (offsets.member, offsets.leases) == ("10.0.0.1@spark-7", {queue: 4})
    assert offsets.to_json() == document
    later = replace(offsets, positions={queue: 9})
    assert [each.size for each in ranges(offsets, later)] == [2]
    assert ranges(offsets, replace(later, leases={queue: 5})) == []


def test_a_place_says_which_incarnation_it_is_of() -> None:
    """Where that is not the one last seen of its broker; where nothing is said of it, as in older offsets, it is."""
    q0, q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
    entry = {"incarnation": 2, "offsets": {"0": 12, "1": 7}, "storeId": "9f", "incarnations": {"1": 1}}
    document = {"group": "billing", "topics": {"orders": {"brokers": {"broker-a": entry}, "epoch": 0}}, "v": 1}
    offsets = Offsets.from_json(document)
    assert json.dumps(offsets.to_json()) == json.dumps(document)
    assert (offsets.store_of(q0), offsets.store_of(q1)) == (StoreIdentity("9f", 2), StoreIdentity("9f", 1))
    later = replace(offsets, positions={q0: 13, q1: 9})
    assert [each.queue for each in ranges(offsets, later)] == [q0, q1]
    assert [each.queue for each in ranges(offsets, replace(later, incarnations={}))] == [q0]
    del entry["incarnations"]
    assert Offsets.from_json(document) == replace(offsets, incarnations={})


queues = st.builds(
    MessageQueue, st.sampled_from(["a", "b"]), st.sampled_from(["broker-a", "broker-b"]), st.integers(0, 12)
)


@pytest.mark.property
@given(
    st.dictionaries(queues, st.integers(0, 2**62)), st.integers(0, 5), st.integers(0, 5), st.lists(st.integers(0, 5))
)
def test_any_offset_survives_the_checkpoint(
    positions: dict[MessageQueue, int], epoch: int, incarnation: int, others: list[int]
) -> None:
    """Whatever a query has read, its offset comes back from the checkpoint as it was, in one text only."""
    stores = {(queue.topic, queue.broker_name): StoreIdentity("id", incarnation, epoch) for queue in positions}
    offsets = Offsets("g", positions, stores, {queue.topic: epoch for queue in positions})
    offsets = offsets.of_incarnations(dict(zip(positions, others, strict=False)))
    text = json.dumps(offsets.to_json())
    again = Offsets.from_json(json.loads(text))
    assert again == offsets
    assert json.dumps(again.to_json()) == text


@pytest.mark.parametrize(
    ("document", "story"),
    [
        ({"logOffset": 3}, "no offset of the rmq source"),
        ({"v": 2, "group": "g", "topics": {}}, "offset format 2"),
        ({"v": 1, "topics": {}}, "damaged"),
        ({"v": 1, "group": "g", "topics": {"t": {"epoch": 0, "brokers": {"b": {}}}}}, "damaged"),
        (
            {
                "v": 1,
                "group": "g",
                "topics": {
                    "t": {"epoch": 0, "brokers": {"b": {"storeId": "", "incarnation": 0, "offsets": {"0": -1}}}}
                },
            },
            "damaged",
        ),
    ],
)
def test_a_foreign_or_damaged_offset_is_refused(document: dict[str, object], story: str) -> None:
    """A checkpoint of another source, another version or with a damaged file ends in words, not in wrong reads."""
    with pytest.raises(InvalidArgument, match=story):
        Offsets.from_json(document)


@pytest.mark.parametrize(
    "place", [(), ("topics", "orders"), ("topics", "orders", "brokers", "broker-a"), ("left", "t")]
)
def test_what_a_later_version_has_to_say_of_an_offset_is_not_passed_over(place: tuple[str, ...]) -> None:
    """Read without it the places may mean others; the error says who can read it."""
    left = {"t": {"brokers": {"broker-a": {"incarnation": 1, "offsets": {"0": 5}, "storeId": "9f"}}, "epoch": 0}}
    document = copy.deepcopy({**DOCUMENT, "left": left})
    Offsets.from_json(document)
    within: Any = document
    for name in place:
        within = within[name]
    within["skipped"] = [12]
    with pytest.raises(InvalidArgument, match="later version of rmqspark: its offset has skipped.*that wrote it"):
        Offsets.from_json(document)
