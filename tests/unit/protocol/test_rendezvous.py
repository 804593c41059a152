"""Which broker is chosen for a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.rendezvous import chosen

NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6, unique=True)


@pytest.mark.parametrize(
    ("key", "name"), [("spark-1", "broker-c"), ("spark-2", "broker-a"), ("spark-3", "broker-c"), ("", "broker-a")]
)
def test_the_choice_never_changes(key: str, name: str) -> None:
    """A client of any version finds the same broker: these choices are part of the wire format."""
    assert chosen(key, ["broker-a", "broker-b", "broker-c"]) == name


@pytest.mark.property
@given(key=st.text(max_size=20), names=NAMES, data=st.data())
def test_everybody_chooses_alike(key: str, names: list[str], data: st.DataObject) -> None:
    """The order in which brokers are listed does not matter, and a broker that leaves moves only its own keys."""
    winner = chosen(key, names)
    assert chosen(key, data.draw(st.permutations(names))) == winner
    rest = [name for name in names if name != data.draw(st.sampled_from(names))]
    assert winner not in rest or chosen(key, rest) == winner


def test_keys_are_spread() -> None:
    """Each of four brokers gets its share of a thousand keys."""
    winners = [chosen(f"spark-{number}", ["a", "b", "c", "d"]) for number in range(1000)]
    assert min(map(winners.count, "abcd")) > 200
