"""Who answers in a question to several brokers, over brokers that answer as the test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.cluster.futures import at_hand, failing
from rmqspark.client.cluster.silence import RollCall, Silence, remembered, story
from rmqspark.errors import BrokerNotRegistered, ConnectionLost, NoPermission, RequestTimeout, RmqError, Unreachable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.silence import OnSilent

LATE = RequestTimeout("it did not answer in time.")
SILENCES = [
    LATE,
    Unreachable("nobody is there.", address="h:1"),
    ConnectionLost("it was cut.", address="h:1"),
    BrokerNotRegistered("it is not registered."),
]


class Brokers:
    """Those named here are silent; the others answer with what they are asked about."""

    def __init__(self, **silent: RmqError) -> None:
        self.silent = silent
        self.asked: list[tuple[str, int]] = []

    def broker(self, name: str) -> str:
        return name

    def submit(self, broker: Any, about: int) -> Future[str]:
        self.asked.append((broker, about))
        error = self.silent.get(broker)
        return at_hand(f"{broker}{about}") if error is None else failing(error)

    def roll(self, on_silent: OnSilent | None = None) -> RollCall:
        return RollCall(self, on_silent)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", SILENCES)
def test_a_broker_that_is_silent_is_told_of_once_and_asked_no_more(error: RmqError) -> None:
    """The others are asked on; what is told is its name, and why."""
    brokers, told = Brokers(b=error), []
    roll = brokers.roll(lambda name, why: told.append((name, why)))
    assert roll.ask([("a", 1), ("b", 1), ("a", 2)], brokers.submit) == {("a", 1): "a1", ("a", 2): "a2"}
    assert roll.ask([("b", 3), ("a", 3)], brokers.submit) == {("a", 3): "a3"}
    assert (told, roll.silent) == ([("b", error)], {"b": error.message})
    assert brokers.asked == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_one_that_cannot_even_be_asked_is_silent() -> None:
    """The name servers know no such broker any more: that is told at once, and not by a future."""
    gone = BrokerNotRegistered("it is not registered.")

    def submit(broker: Any, about: None) -> Future[str]:
        raise gone

    roll = Brokers().roll(Silence())
    assert (roll.ask([("b", None)], submit), roll.silent) == ({}, {"b": gone.message})


def test_without_anybody_to_tell_it_is_an_error() -> None:
    """That names the broker, and what to do."""
    with pytest.raises(RequestTimeout, match="Broker 'b' may know more: start it, and ask again"):
        Brokers().roll().ask([("b", 1)], Brokers(b=RequestTimeout("late.")).submit)


def test_what_a_broker_refuses_is_an_error_all_the_same() -> None:
    """It has answered: whoever asks has to mend something."""
    brokers = Brokers(b=NoPermission("no."))
    with pytest.raises(NoPermission):
        brokers.roll(Silence()).ask([("b", 1)], brokers.submit)


def test_several_questions_wait_for_a_broker_once() -> None:
    """Whoever hears of silences for all of them has no broker asked again."""
    brokers, told = Brokers(b=LATE), []
    silence = Silence(lambda name, _: told.append(name))
    for _ in range(2):
        roll = brokers.roll(silence)
        assert roll.ask([("a", 1), ("b", 1)], brokers.submit) == {("a", 1): "a1"}
        assert roll.is_silent("b")
    assert (brokers.asked.count(("b", 1)), told) == (1, ["b"])
    assert remembered(silence) is silence


def test_nothing_from_nobody_is_not_nothing() -> None:
    """Where all are silent, or the one that may know, it is an error; where one answers it is not."""
    brokers = Brokers(a=LATE, b=LATE)
    roll = brokers.roll(Silence())
    roll.insist()
    roll.ask([("b", 1)], brokers.submit)
    roll.insist_on_one(["a", "b"])
    with pytest.raises(RequestTimeout):
        roll.insist()
    roll.ask([("a", 1)], brokers.submit)
    with pytest.raises(RequestTimeout):
        roll.insist_on_one(["a", "b"])


def test_more_questions_than_are_under_way_at_a_time() -> None:
    """All are answered; of a silent broker only those that were asked together are waited for."""
    brokers = Brokers(b=LATE)
    pairs = [(name, number) for number in range(1_000) for name in ("a", "b")]
    found = brokers.roll(Silence()).ask(pairs, brokers.submit)
    assert [number for _, number in found] == list(range(1_000))
    assert sum(name == "b" for name, _ in brokers.asked) == 128


def test_how_it_is_told() -> None:
    """The same on standard error and on a page."""
    assert story("b", "late.") == "Partial: b does not answer, so what it knows is left out: late."
