"""Who is given up when too many answers wait."""

from __future__ import annotations

from rmqspark.remoting.unsent import UnsentAnswers


class Client:
    def __init__(self, name: str, closed: list[str]) -> None:
        self.name = name
        self.unsent_bytes = 0
        self._closed = closed

    def close(self, reason: str) -> None:
        assert "waited longest" in reason
        self.unsent_bytes = 0
        self._closed.append(self.name)


def setting(limit: int, *names: str) -> tuple[UnsentAnswers, list[str], list[Client]]:
    closed: list[str] = []
    return UnsentAnswers(limit), closed, [Client(name, closed) for name in names]


def hold(unsent: UnsentAnswers, client: Client, count: int) -> None:
    client.unsent_bytes = count
    unsent.note(client, count)


def test_those_who_have_waited_longest_go_first() -> None:
    """A client that begins to read slowly is not given up for those who have not read for longer."""
    unsent, closed, (a, b, c) = setting(100, "a", "b", "c")
    hold(unsent, a, 40)
    hold(unsent, b, 60)
    assert closed == []
    hold(unsent, c, 50)
    assert closed == ["a", "b"]
    assert unsent.total_bytes == 50


def test_whoever_has_taken_its_answers_is_no_holder_any_more() -> None:
    """What was noted may be old: a client that has read since is left alone."""
    unsent, closed, (a, b, c) = setting(100, "a", "b", "c")
    hold(unsent, a, 60)
    hold(unsent, b, 40)
    a.unsent_bytes = 0
    hold(unsent, c, 60)
    assert closed == []
    assert unsent.total_bytes == 100
    hold(unsent, a, 1)
    assert closed == ["b"]


def test_one_that_exceeds_the_bound_alone_is_closed_itself() -> None:
    """The bound holds also for a single client."""
    unsent, closed, (a,) = setting(100, "a")
    hold(unsent, a, 101)
    assert closed == ["a"]
    assert unsent.total_bytes == 0


def test_an_ended_connection_holds_nothing() -> None:
    """Room comes back when a client goes."""
    unsent, closed, (a, b) = setting(100, "a", "b")
    hold(unsent, a, 90)
    hold(unsent, a, 0)
    hold(unsent, b, 90)
    assert closed == []
