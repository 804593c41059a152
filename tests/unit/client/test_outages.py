"""Brokers that are registered and answer nothing: out of sight until they do, and nobody waits for them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from rmqspark.client.cluster.outages import LOOK_MS, Outages
from rmqspark.errors import RequestTimeout
from rmqspark.testing.manual_clock import ManualClock

A, B, C = "broker-a", "broker-b", "broker-c"


class Cluster:
    """Stands in for the client: brokers that answer, that do not, or that take their time."""

    def __init__(self, *silent: str) -> None:
        self.clock = ManualClock()
        self.silent = set(silent)
        self.open: dict[str, Future[Any]] = {}  # questions that are under way, of those that take their time
        self.slow: set[str] = set()
        self.asked: list[str] = []

    def broker(self, name: str) -> Broker:
        return Broker(self, name)


class Broker:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    def submit(self, code: int, *, timeout_ms: int) -> Future[Any]:
        self.cluster.asked.append(self.name)
        answer: Future[Any] = Future()
        if self.name in self.cluster.slow:
            self.cluster.open[self.name] = answer
        elif self.name in self.cluster.silent:
            answer.set_exception(RequestTimeout("Nothing was heard."))
        else:
            answer.set_result(None)
        return answer


@pytest.mark.parametrize(
    ("silent", "begun"), [((), False), ((A, B, C), False), ((B,), True), ((A, B), True)], ids=["no", "all", "1", "2"]
)
def test_only_some_can_be_left_out(silent: tuple[str, ...], begun: bool) -> None:
    """Where all answer, what failed was something else; where none does there is nothing to read on."""
    cluster = Cluster(*silent)
    outages = Outages(cluster.clock, cluster.broker)  # type: ignore[arg-type]
    assert outages.look([A, B, C]) is begun
    assert outages.among([A, B, C]) == (set(silent) if begun else set())


def test_a_second_one_is_left_out_too_but_not_the_last() -> None:
    cluster = Cluster(B)
    outages = Outages(cluster.clock, cluster.broker)  # type: ignore[arg-type]
    assert outages.look([A, B, C])
    cluster.silent = {B, C}
    assert outages.look([A, B, C])
    cluster.silent = {A, B, C}
    assert not outages.look([A, B, C])
    assert outages.among([A, B, C]) == {B, C}


def test_nobody_waits_for_the_answer_that_brings_it_back() -> None:
    """One question is under way at any time, a next one a second after the last at the soonest."""
    cluster = Cluster(B)
    outages = Outages(cluster.clock, cluster.broker)  # type: ignore[arg-type]
    outages.look([A, B])
    cluster.slow = {B}
    assert outages.among([A, B]) == {B}
    assert cluster.asked.count(B) == 1
    cluster.clock.advance(ms=LOOK_MS)
    for _ in range(3):
        assert outages.among([A, B]) == {B}
    assert cluster.asked.count(B) == 2
    cluster.open[B].set_result(None)
    assert outages.among([A, B]) == set()


def test_one_that_was_waited_for_in_vain_is_silent_until_it_answers() -> None:
    """Whoever has waited for another answer of it need not wait for this one."""
    cluster = Cluster()
    outages = Outages(cluster.clock, cluster.broker)  # type: ignore[arg-type]
    cluster.slow = {B}
    outages.add(B)
    outages.add(B)
    assert outages.among([A, B, C]) == {B}
    assert outages.among([A, C]) == set()
    cluster.open[B].set_result(None)
    assert outages.among([A, B, C]) == set()
    assert cluster.asked == [B]
