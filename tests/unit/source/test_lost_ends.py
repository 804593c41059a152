"""A broker that lost the end of its store in a crash, and queues of it that were not looked at when that was noticed.

They are out of sight (`away`), or taken out of the subscription (`left`), while others of their topic are read on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import DataLoss
from rmqspark.model import MessageQueue
from rmqspark.source.loss import Loss
from rmqspark.source.offsets import Offsets
from rmqspark.source.options import Subscription
from rmqspark.source.planning.planner import range_in, ranges

from .one_cluster import Q0, Q1, STORE, Cluster, at, progress

if TYPE_CHECKING:
    from rmqspark.source.queue_range import QueueRange

CUT = STORE._replace(incarnation=2)
FIRST, BOTH = (Subscription(("t",), frozenset(queues)) for queues in ({Q0}, {Q0, Q1}))


def recorded(offsets: Offsets) -> Offsets:
    """As it comes back from the checkpoint."""
    return Offsets.from_json(json.loads(json.dumps(offsets.to_json())))


class Told(logging.Handler):
    """Of which queues a loss is told while it listens."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[MessageQueue] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.queues += [said.queue for said in record.args or () if isinstance(said, Loss)]

    def __enter__(self) -> list[MessageQueue]:
        logging.getLogger(Loss.__module__).addHandler(self)
        return self.queues

    def __exit__(self, *failure: object) -> None:
        logging.getLogger(Loss.__module__).removeHandler(self)


def step(
    start: Offsets, cluster: Cluster, subscription: Subscription = BOTH
) -> tuple[Offsets, list[QueueRange], list[MessageQueue]]:
    """One micro-batch of a query started for it that bears losses: its end, what it reads, and whose loss is told."""
    query = progress(cluster, subscription=subscription, fail_on_data_loss=False)
    with Told() as told:
        end = recorded(query.latest(start, None))
    return end, ranges(start, end), told


Notice = Callable[[Offsets], Offsets]


def away(start: Offsets) -> Offsets:
    """After the crash was noticed while Q1 was out of sight, of which nothing is told meanwhile."""
    cluster = Cluster({Q0: 5}, store=CUT)
    end, _, told = step(start, cluster)
    assert (end.positions, told) == (start.positions, [Q0])
    assert progress(cluster, subscription=BOTH).latest(end, None) == end, "the others are read on"
    return end


def left(start: Offsets) -> Offsets:
    """The same while Q1 was taken out of the subscription."""
    end, _, told = step(start, Cluster({Q0: 5}, store=CUT), FIRST)
    assert (end.positions, told) == ({Q0: 5}, [Q0])
    return end


@pytest.mark.parametrize("notice", [away, left])
@pytest.mark.parametrize(
    ("position", "end", "enters", "is_told"),
    [
        (50, 30, 30, True),  # what was read is gone: the others of the topic wait for one batch, under a new epoch
        (50, 50, 50, True),  # nobody can say
        (50, 60, 50, True),
        (0, 9, 0, False),  # nothing was read of it
    ],
)
def test_the_loss_is_told_of_the_queue_that_is_back_and_of_no_other(
    notice: Notice, position: int, end: int, enters: int, is_told: bool
) -> None:
    """The others have been told of. It goes on at its place, or where it now ends, and nothing is read twice."""
    start = notice(at({Q0: 5, Q1: position}))
    cluster = Cluster({Q0: 8, Q1: end}, store=CUT)
    entered, read, told = step(start, cluster)
    assert told == ([Q1] if is_told else [])
    assert entered.positions == {Q0: 5 if end < position else 8, Q1: enters}
    after, later, told = step(entered, cluster)
    assert (after.positions, told) == ({Q0: 8, Q1: end}, [])
    rest = [range_in(CUT, Q1, enters, end)] if enters < end else []
    assert sorted(read + later) == [range_in(CUT, Q0, 5, 8), *rest]


@pytest.mark.parametrize("notice", [away, left])
def test_a_query_that_bears_no_loss_ends_for_that_queue_alone(notice: Notice) -> None:
    """failOnDataLoss: the error counts no others, and there is none where nothing of the queue had been read."""
    cluster = Cluster({Q0: 8, Q1: 60}, store=CUT)
    with pytest.raises(DataLoss, match="^Queue t/broker-a/1 was read up to offset 50, but its.*in a crash") as caught:
        progress(cluster, subscription=BOTH).latest(notice(at({Q0: 5, Q1: 50})), None)
    assert "more queues" not in str(caught.value)
    unread = notice(at({Q0: 5, Q1: 0}))
    assert progress(cluster, subscription=BOTH).latest(unread, None).positions == {Q0: 8, Q1: 0}


Q2 = MessageQueue("t", "broker-a", 2)
others = st.frozensets(st.sampled_from([Q1, Q2]))
steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([Q0, Q1, Q2]), st.integers(1, 3)),
    st.tuples(st.just("crash"), st.dictionaries(st.sampled_from([Q0, Q1, Q2]), st.integers(1, 4))),
    st.tuples(st.just("batch"), others, others),
)


class Model:
    """Queues as lists of messages, none of which is like another; and of each queue what a query may know of it."""

    def __init__(self) -> None:
        self.logs: dict[MessageQueue, list[int]] = {Q0: [], Q1: [], Q2: []}
        self.incarnation = 1
        self.fresh = count()
        self.seen: dict[MessageQueue, int] = {}  # the incarnation that each was last looked at in
        self.read: list[int] = []
        self.offsets = at({})

    def send(self, queue: MessageQueue, number: int) -> None:
        self.logs[queue] += islice(self.fresh, number)

    def crash(self, cuts: dict[MessageQueue, int]) -> None:
        self.incarnation += 1
        for queue, number in cuts.items():
            del self.logs[queue][-number:]

    def batch(self, taken_out: frozenset[MessageQueue], away: frozenset[MessageQueue]) -> None:
        """Q0 is always there: it is by the others of a topic that a crash is noticed. Away is what was there once."""
        chosen = self.logs.keys() - taken_out
        cluster = Cluster(
            {queue: len(log) for queue, log in self.logs.items() if queue in chosen - (away & self.seen.keys())},
            store=STORE._replace(incarnation=self.incarnation),
        )
        end, ranges_read, told = step(self.offsets, cluster, Subscription(("t",), frozenset(chosen)))
        places = self.places()
        cut = {queue for queue in cluster.ends if self.seen.get(queue, self.incarnation) != self.incarnation}
        assert sorted(told) == sorted(queue for queue in cut if places[queue] > 0)
        waits = any(cluster.ends[queue] < places[queue] for queue in cut)  # the epoch rises
        for queue in cluster.ends:
            self.check(queue, places, [each for each in ranges_read if each.queue == queue], queue in cut or waits)
            assert queue not in cut or end.positions[queue] == min(places[queue], len(self.logs[queue]))
        self.offsets = end
        assert self.places() == {**places, **{queue: end.positions[queue] for queue in cluster.ends}}
        self.seen |= dict.fromkeys(cluster.ends, self.incarnation)

    def check(self, queue: MessageQueue, places: dict[MessageQueue, int], read: list[QueueRange], enters: bool) -> None:
        """Nothing is read of a queue that enters; of the others all there is behind their places."""
        log, place = self.logs[queue], places.get(queue)
        if place is None or enters or place == len(log):
            assert read == []
        else:
            assert [(each.start, each.end) for each in read] == [(place, len(log))]
            self.read += log[place:]

    def places(self) -> dict[MessageQueue, int]:
        kept = self.offsets.left.positions if self.offsets.left is not None else {}
        return {**kept, **self.offsets.positions}


@pytest.mark.property
@given(st.lists(steps, max_size=30))
def test_each_loss_is_told_once_and_nothing_is_read_twice(story: list[tuple[Any, ...]]) -> None:
    """However queues come and go between crashes: of a queue that was read a loss is told when it is looked at again,
    if its store lost its end since, and only then."""
    model = Model()
    for name, *given_ in story:
        getattr(model, name)(*given_)
    for _ in range(3):
        model.batch(frozenset(), frozenset())
    assert len(model.read) == len(set(model.read))
    assert model.offsets.positions == {queue: len(log) for queue, log in model.logs.items()}
    assert "incarnations" not in json.dumps(model.offsets.to_json())
