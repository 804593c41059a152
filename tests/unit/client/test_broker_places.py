"""Where a client takes brokers to be, and when it asks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster.broker_places import BrokerPlaces
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.routes import HEADLESS_FRESH_MS
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    import pytest

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def test_a_master_is_asked_until_it_does_not_answer() -> None:
    """However long ago a name server named it; with its slaves it is the one with the lowest id."""
    places = BrokerPlaces(clock := ManualClock())
    assert places.certain("broker-a") is places.address("broker-a") is None
    places.note("broker-a", {1: SLAVE, 0: MASTER})
    clock.advance(ms=1 << 40)
    assert places.certain("broker-a") == MASTER
    places.suspect("broker-a", OTHER)  # where it was before
    assert places.certain("broker-a") == MASTER
    places.suspect("broker-a", MASTER)
    assert (places.certain("broker-a"), places.address("broker-a")) == (None, MASTER)
    places.looked("broker-a")  # they do not know it
    assert places.certain("broker-a") is None
    places.unanswered("broker-a")
    assert places.certain("broker-a") == MASTER


def test_a_slave_is_asked_while_its_master_is_looked_for() -> None:
    """Now and then, although it answers: what it lacks its master may have."""
    places = BrokerPlaces(clock := ManualClock())
    places.note("broker-a", {2: OTHER, 1: SLAVE})
    for told in (places.looked, places.unanswered):
        clock.advance(ms=HEADLESS_FRESH_MS - 1)
        assert places.certain("broker-a") == SLAVE
        clock.advance(ms=1)
        assert places.certain("broker-a") is None
        told("broker-a")
        assert places.certain("broker-a") == SLAVE
    places.note("broker-a", {})  # of a cluster without it: what was known is all there is
    assert places.address("broker-a") == SLAVE
    places.note("broker-a", {0: MASTER, 1: SLAVE})
    clock.advance(ms=1 << 40)
    assert places.certain("broker-a") == MASTER


def test_what_another_process_knows_counts_where_nobody_else_says_anything() -> None:
    """The name servers are asked first; what they have said is not overruled."""
    places = BrokerPlaces(ManualClock())
    places.note("a", {0: "a:1"})
    places.hear({"a": "elsewhere:1", "b": "b:1"})
    assert (places.certain("a"), places.certain("b"), places.address("b")) == ("a:1", None, "b:1")
    places.unanswered("b")
    assert places.certain("b") == "b:1"
    places.note("c", {1: "c:2"})
    assert places.masters() == {"a": "a:1", "b": "b:1"}, "of c a slave is known"


def test_brokers_that_were_there_once_take_no_room_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines get a new name each time they start, and who registers brokers may invent some. The newest are known."""
    monkeypatch.setattr("rmqspark.client.cluster.broker_places._MOST", 10)
    places = BrokerPlaces(ManualClock())
    for number in range(100):
        places.note(f"broker-{number}", {1: SLAVE})
        places.suspect(f"broker-{number}", SLAVE)
    assert {len(each) for each in (places._addresses, places._suspects, places._looked_ms)} == {10}
    assert (places.address("broker-89"), places.address("broker-90")) == (None, SLAVE)
    places.note("broker-0", {0: MASTER})  # a name server still names it
    assert places.certain("broker-0") == MASTER


def test_a_client_keeps_no_broker_for_each_name_it_was_ever_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has one goes on with it; the next one of its name is like it."""
    monkeypatch.setattr("rmqspark.client.cluster.cluster_client._MOST_BROKERS", 10)
    with ClusterClient("127.0.0.1:9876") as client:
        first = client.broker("broker-0")
        assert client.broker("broker-0") is first
        for number in range(100):
            assert client.broker(f"broker-{number}").name == f"broker-{number}"
        assert len(client._brokers) == 10
        assert client.broker("broker-0").name == first.name
