"""Members of a group that come and go at random: nothing is left out, and what is read in order stays so."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from rmqspark.client.pushing.config import PushConfig
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue

pytestmark = [pytest.mark.faults, pytest.mark.integration]

QUEUES = 6
MOST_MEMBERS = 5
PATIENCE_S = 30  # a lock that nobody gives up lasts a minute: it would be found
QUICK = PushConfig(suspend_current_queue_time_millis=20)


class Work:
    """A listener that is slow now and then, and fails now and then where that holds a queue up."""

    def __init__(self, seed: int, ordered: bool) -> None:
        self._random, self._ordered = Random(seed), ordered
        self._changed = threading.Condition()
        self._at_work: set[MessageQueue] = set()
        self.consumed: defaultdict[MessageQueue, list[int]] = defaultdict(list)
        self.overlaps: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> None:
        with self._changed:
            if message.queue in self._at_work and self._ordered:
                self.overlaps.append(message)
            self._at_work.add(message.queue)
            slow_s = self._random.choice([0, 0, 0.005])
            fails = self._ordered and self._random.random() < 0.01
        threading.Event().wait(slow_s)
        with self._changed:
            self._at_work.discard(message.queue)
            if fails:
                raise RuntimeError("now and then")
            self.consumed[message.queue].append(message.queue_offset)
            self._changed.notify_all()

    def wait(self, count: int) -> bool:
        def is_done() -> bool:
            return sum(len(set(offsets)) for offsets in self.consumed.values()) >= count

        with self._changed:
            return self._changed.wait_for(is_done, PATIENCE_S)


def uncommitted(reader: PullConsumer) -> int:
    """Some are where a member has just taken a queue over: who had it still consumes them, and commits no more."""
    return sum(reader.max_offset(queue) - (reader.committed(queue) or 0) for queue in reader.queues("orders"))


@pytest.mark.parametrize("ordered", [False, True])
def test_members_come_and_go(ordered: bool, seed: int, amount, tell) -> None:
    """Whatever is sent is consumed, all of it is committed in the end; in order nothing is consumed twice, or before
    what was sent before it."""
    random, work, changes, sent = Random(seed), Work(seed, ordered), amount(30, 600), 0
    with cluster(brokers=2) as mq, Producer(mq.namesrv) as producer:
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=QUEUES // 2)

        def join(listener: Work) -> PushConsumer:
            member = PushConsumer(
                mq.namesrv, "group", listener=listener, ordered=ordered, consume_from="earliest", config=QUICK
            )
            member.subscribe("orders")
            member.start()
            return member

        members: list[PushConsumer] = []
        for change in range(changes):
            if not members or (len(members) < MOST_MEMBERS and random.random() < 0.5):
                members.append(join(work))
            elif change < changes - 1:
                members.pop(random.randrange(len(members))).close()
            for _ in range(random.randrange(10)):
                batch = [Message("orders", b"x")] * random.randrange(1, 20)
                sent += len(producer.send_batch(batch))
        assert work.wait(sent), f"{sent} were sent, and not all are consumed"
        for member in members:
            member.close()
        with PullConsumer(mq.namesrv, "group") as reader:
            left = uncommitted(reader)
            assert not (ordered and left)
            again = Work(seed, ordered)
            with closing(join(again)):
                assert again.wait(left), f"{left} were not committed, and not all are consumed again"
            assert uncommitted(reader) == 0
    assert work.overlaps == []
    if ordered:
        assert all(offsets == list(range(len(offsets))) for offsets in work.consumed.values())
    calls = sum(map(len, work.consumed.values()))
    tell(f"{changes} changes, {sent} messages, {calls - sent} consumed again, ordered: {ordered}, seed {seed}")
