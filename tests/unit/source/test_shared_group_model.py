"""Queries that share a group, in any order of steps, crashes, pauses and comings and goings."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqspark.errors import LeaseLost

from .shared_world import LEASE_MS, OTHERS, QUEUES, Query, World

pytestmark = pytest.mark.property

MOST_QUERIES = 3
TWO_BROKERS = QUEUES[:2] + OTHERS
NAMES = sorted({queue.broker_name for queue in TWO_BROKERS})


class SharedGroupModel(RuleBasedStateMachine):
    """Each message is written once, whatever happens, and every queue is read again in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(TWO_BROKERS)
        self.queries = [Query(self.world), Query(self.world)]
        self.away: list[Query] = []

    def some(self, number: int) -> Query:
        return self.queries[number % len(self.queries)]

    @rule(queue=st.sampled_from(TWO_BROKERS), count=st.integers(1, 3))
    def send(self, queue: object, count: int) -> None:
        self.world.ends[queue] += count  # type: ignore[index]

    @precondition(lambda self: len(self.queries) + len(self.away) < MOST_QUERIES)
    @rule()
    def a_query_is_added(self) -> None:
        self.queries.append(Query(self.world))

    @precondition(lambda self: self.queries)
    @rule(number=st.integers(0, 9), limit=st.sampled_from([None, 2]), steps=st.integers(1, 9))
    def a_query_goes_on(self, number: int, limit: int | None, steps: int) -> None:
        for _ in range(steps):
            self.some(number).step(limit)

    @precondition(lambda self: self.queries)
    @rule(number=st.integers(0, 9))
    def a_driver_is_killed_and_started_again(self, number: int) -> None:
        self.some(number).crash()

    @precondition(lambda self: self.queries)
    @rule(number=st.integers(0, 9), steps=st.integers(1, 9))
    def a_driver_is_frozen_and_wakes_beside_its_replacement(self, number: int, steps: int) -> None:
        """Between two batches: it looks for its next one."""
        query = self.some(number)
        for _ in range(9):
            if query.is_planned:
                query.step()
        if query.is_planned:
            return  # it reads of a broker that is out of sight
        frozen, start = query.progress, query.bounds()[1] if query.offset_log else query.progress.initial()
        query.crash()
        for _ in range(steps):
            query.step()
        with suppress(LeaseLost):
            frozen.latest(start, None)
        frozen.leave()

    @precondition(lambda self: self.queries)
    @rule(number=st.integers(0, 9), killed=st.booleans())
    def a_query_goes_away(self, number: int, killed: bool) -> None:
        query = self.some(number)
        query.disappear() if killed else query.stop()
        self.queries.remove(query)
        self.away.append(query)

    @precondition(lambda self: self.away)
    @rule()
    def a_query_comes_back(self) -> None:
        query = self.away.pop()
        query.start()
        self.queries.append(query)

    @precondition(lambda self: self.queries)
    @rule(queue=st.sampled_from(TWO_BROKERS), number=st.integers(0, 9), is_cut_off=st.booleans())
    def a_driver_is_paused_in_a_batch(self, queue: object, number: int, is_cut_off: bool) -> None:
        """For longer than its leases last, while the others go on."""
        self.world.ends[queue] += 1  # type: ignore[index]
        paused = self.some(number)
        for _ in range(12):
            if not paused.read:
                paused.step()
        if is_cut_off:
            paused.disappear()
        self.world.clock.advance(ms=LEASE_MS + 1)
        for query in self.queries:
            for _ in range(0 if query is paused else 9):
                query.step()

    @rule(share=st.sampled_from([0.3, 1.1]))
    def time_passes(self, share: float) -> None:
        """Nobody renews anything meanwhile: everybody was paused."""
        self.world.clock.advance(ms=int(LEASE_MS * share))

    @rule(name=st.sampled_from(NAMES))
    def a_broker_is_restarted(self, name: str) -> None:
        self.world.brokers[name].restart()

    @rule(name=st.sampled_from(NAMES), is_restarted=st.booleans())
    def a_broker_goes_out_of_sight(self, name: str, is_restarted: bool) -> None:
        """The other one is in sight, or is now."""
        for each in self.world.brokers.values():
            each.in_sight = each.name != name
        if is_restarted:
            self.world.brokers[name].connected.clear()
            self.world.brokers[name].restart()

    @rule()
    def all_brokers_are_back(self) -> None:
        for each in self.world.brokers.values():
            each.in_sight = True

    @invariant()
    def nothing_is_written_twice(self) -> None:
        twice = [place for place, count in Counter(self.world.written).items() if count > 1]
        assert not twice

    @invariant()
    def nothing_is_passed_over(self) -> None:
        """In each queue what is written is its beginning, in order."""
        for queue in TWO_BROKERS:
            offsets = [offset for written, offset in self.world.written if written == queue]
            assert offsets == list(range(len(offsets)))

    def teardown(self) -> None:
        """Once nothing happens any more, all there is gets written, and each queue has one owner."""
        self.all_brokers_are_back()
        if not self.queries:
            self.queries.append(Query(self.world))
        for _ in range(8):
            self.world.clock.advance(ms=LEASE_MS // 3)
            for query in self.queries:
                for _ in range(12):
                    query.step()
        assert sorted(self.world.written) == [
            (queue, offset) for queue in TWO_BROKERS for offset in range(self.world.ends[queue])
        ]
        owners = Counter(queue for query in self.queries if query.offset_log for queue in query.bounds()[1].positions)
        assert owners == Counter(TWO_BROKERS)


TestSharedGroupModel = SharedGroupModel.TestCase
TestSharedGroupModel.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, phases=[Phase.generate]
)
