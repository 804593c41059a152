"""When a server rests between turns."""

from __future__ import annotations

import pytest

from rmqspark.remoting.resting import Resting


class Client:
    """Sends at a constant pace, another one while the server rests, and tells how long it rested."""

    def __init__(self, *, without: float, resting: float, turn: int = 4) -> None:
        self.resting = Resting()
        self.now_ms = 1_000_000.0
        self._pace = {False: without, True: resting}
        self._turn = turn
        self._rests = False

    def run(self, duration_ms: float) -> float:
        """How much of this time was spent with rests."""
        end_ms, resting_ms = self.now_ms + duration_ms, 0.0
        while self.now_ms < end_ms:
            took_ms = self._turn / self._pace[self._rests]
            self.now_ms += took_ms
            resting_ms += took_ms * self._rests
            self._rests = self.resting.after_turn(self._turn, self.now_ms)
        return resting_ms / duration_ms


@pytest.mark.parametrize(
    ("without", "resting", "turn", "least", "most"),
    [
        (20, 30, 4, 0.9, 1.0),  # a client of many threads, whose requests gather
        (20, 30, 2, 0.9, 1.0),
        (20, 30, 32, 0.9, 1.0),
        (20, 21, 4, 0.0, 0.1),  # nothing to speak of is gained
        (20, 12, 4, 0.0, 0.1),  # a client that waits for its answers before it goes on
        (20, 30, 1, 0.0, 0.0),  # one that sends one by one
        (20, 30, 33, 0.0, 0.0),  # there is company enough
        (4, 8, 4, 0.0, 0.0),  # little to do
    ],
)
def test_rests_are_kept_only_where_they_help(
    without: float, resting: float, turn: int, least: float, most: float
) -> None:
    """Rests stay while more requests are handled with them, and are only tried, now and then, where not."""
    client = Client(without=without, resting=resting, turn=turn)
    client.run(500)
    assert least <= client.run(10_000) <= most


def test_what_helped_once_is_tried_anew() -> None:
    """Rests end within two seconds after they have stopped to help, and come back when they help again."""
    client = Client(without=20, resting=30)
    client.run(2_000)
    client._pace[True] = 10
    client.run(2_000)
    assert client.run(5_000) < 0.1
    client._pace[True] = 30
    client.run(2_000)
    assert client.run(5_000) > 0.9


def test_a_pause_is_no_evidence_for_rests() -> None:
    """After a time without requests it begins with a trial without rests."""
    client = Client(without=20, resting=30)
    client.run(3_000)
    client.now_ms += 60_000
    assert not client.resting.after_turn(4, client.now_ms)
