"""For tests of streaming queries: is everything there once, also when something crashes at the worst moment?

with crash_at("after_decide") as crash:   # the decision is on disk, its answer is lost
    query.processAllAvailable()
assert crash.met
assert_exactly_once(query)
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.spark.audit import findings
from rmqspark.client.spark.proofs import deleted_ms
from rmqspark.client.spark.queries import check_named
from rmqspark.client.spark.txn import audited_batches
from rmqspark.clock import SystemClock
from rmqspark.errors import TopicNotFound
from rmqspark.fault_points import MET_VARIABLE, VARIABLE, InjectedFault, arm, disarm
from rmqspark.model import MessageQueue
from rmqspark.protocol.names import is_system_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.client.spark.audit import DeletedMs
    from rmqspark.model import ReceivedMessage
    from rmqspark.protocol.bodies.txn import AuditedBatch, OutputRange
    from rmqspark.remoting.access import Access

_SHOWN = 10
_PATIENCE_MS = 60_000


def assert_exactly_once(query: Any, *, namesrv: str | None = None, access: Access | None = None) -> None:
    """Raises AssertionError unless every batch of `query` was read, committed and written once.

    `query` is a StreamingQuery, its id, or a transactional id, on the cluster `namesrv`: by default the one of this
    process, else where every client looks. Two things are looked at: what the brokers recorded, as `rmq audit` does,
    and the messages themselves: each offset that a batch was given must hold one, and nowhere in its topic may another
    one have the same unique id, whatever the brokers know of it. `access` as in `Producer`. Raises InvalidArgument
    where several clusters run in this process, and for an empty name.
    """
    name = str(getattr(query, "id", query))
    check_named(name)
    namesrv = namesrv or _namesrv_here()
    with ClusterClient(namesrv, access=access) as client:
        batches = _complete_batches(name, client)
        deletions: DeletedMs = cache(partial(deleted_ms, client))
        found = [finding.story for finding in findings(batches, deletions)]
        found += [
            f"Version {batch.version} was not confirmed by all brokers." for batch in batches if not batch.completed
        ]
        with PullConsumer(namesrv, access=access) as consumer:
            found += _compare(batches, consumer, deletions)
    if found:
        more = f" … and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise AssertionError(f"{name} is not exactly-once: {' '.join(found[:_SHOWN])}{more}")


@dataclass
class Crash:
    """A failure at a fault point; `met` once something has come to it, in this process or in one it has started."""

    point: str
    words: Path  # what processes that are killed there leave a file in
    met_here: bool = False

    @property
    def met(self) -> bool:
        return self.met_here or (self.words / self.point).exists()

    def __call__(self) -> None:
        self.met_here = True
        raise InjectedFault(f"A test has this fail at {self.point!r}.")


@contextmanager
def crash_at(name: str, *, arrival: int = 1) -> Iterator[Crash]:
    """Within the block, what comes to fault point `name` for the `arrival`-th time fails there, once.

    Brokers of `cluster()` live in this process: what they were about to do ends with an error, and the answer is lost.
    A process that is started in the block (a driver, `rmq up`) is killed with SIGKILL instead. Tasks and commits of a
    Spark session that was there before are neither: in such a session only the points of brokers (`before_vote`,
    `after_vote`, `after_decide`, `before_complete`, `mid_complete`, `after_complete`) are ever met. What the block is
    given says whether one was, here or in such a process: a crash that never came proves nothing. All names are in
    `rmqspark.fault_points.NAMES`; another one is InvalidArgument.
    """
    with TemporaryDirectory(prefix="rmq-crash-") as words:
        crash = Crash(name, Path(words))
        arm(name, crash, arrival=arrival)
        try:
            with _added(VARIABLE, f"{name}:kill:{arrival}", ","), _added(MET_VARIABLE, words, os.pathsep):
                yield crash
        finally:
            disarm(name)
            crash.met_here = crash.met


@contextmanager
def _added(variable: str, value: str, separator: str) -> Iterator[None]:
    """Processes that are started inside are given this, and what was there before: blocks may be nested."""
    before = os.environ.get(variable)
    os.environ[variable] = separator.join(filter(None, (before, value)))
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _namesrv_here() -> str | None:
    from rmqspark.testing.in_process import namesrv_of_this_process

    return namesrv_of_this_process()


def _complete_batches(name: str, client: ClusterClient) -> list[AuditedBatch]:
    """What was decided. The last versions are confirmed by all brokers some seconds after they are readable."""
    deadline_ms = client.clock.monotonic_ms() + _PATIENCE_MS
    while True:
        batches = audited_batches(client, query_id=name) or audited_batches(client, transactional_id=name)
        if not batches:
            raise AssertionError(f"No batch of {name} was committed exactly-once.")
        if all(batch.completed for batch in batches) or client.clock.monotonic_ms() > deadline_ms:
            return batches
        client.clock.sleep_ms(50)


def _compare(batches: Sequence[AuditedBatch], consumer: PullConsumer, deletions: DeletedMs) -> list[str]:
    """What the topics hold where the batches say that they wrote, and what of it they hold once more."""
    outputs = [(batch.decidedAtMs, out) for batch in batches for out in batch.outputs if out.deleted is None]
    twice: set[str] = set()
    stories = []
    for topic in dict.fromkeys(out.topic for _, out in outputs):
        own = [(decided_ms, out) for decided_ms, out in outputs if out.topic == topic]
        ids = _ids(consumer, topic, [out for _, out in own])
        times = Counter(ids.values())
        for decided_ms, out in own:
            queue, offsets = _queue(out), range(out.fromOffset, out.toOffset)
            is_gone = decided_ms < deletions(queue)  # with its topic: the next one of the name gives its offsets again
            found = [] if is_gone else [ids[queue, offset] for offset in offsets if (queue, offset) in ids]
            twice.update(msg_id for msg_id in found if times[msg_id] > 1)
            if len(found) != len(offsets):
                stories.append(f"{queue}, offsets {offsets[0]} to {offsets[-1]}, has {len(found)} messages.")
    if twice:
        stories.append(f"{len(twice)} rows are there more than once, {min(twice)} among them.")
    return stories


def _ids(consumer: PullConsumer, topic: str, own: Sequence[OutputRange]) -> dict[tuple[MessageQueue, int], str]:
    """The unique ids of all messages of a topic, by queue and offset. Of one that is the brokers', where rows wait, the
    batches' own alone: what they do there with others is theirs."""
    if is_system_topic(topic):
        stretches = [(_queue(out), out.fromOffset, min(out.toOffset, consumer.max_offset(_queue(out)))) for out in own]
    else:
        try:
            queues = dict.fromkeys((*consumer.queues(topic), *map(_queue, own)))
        except TopicNotFound:
            return {}
        stretches = [(queue, consumer.min_offset(queue), consumer.max_offset(queue)) for queue in queues]
    return {
        (queue, message.queue_offset): message.msg_id
        for queue, first, end in stretches
        for message in _messages(consumer, queue, first, end)
    }


def _queue(out: OutputRange) -> MessageQueue:
    return MessageQueue(out.topic, out.brokerName, out.queueId)


def _messages(consumer: PullConsumer, queue: MessageQueue, first: int, end: int) -> Iterator[ReceivedMessage]:
    """The messages from offset `first` up to, not including, `end`, which the queue has. A broker that is slow is
    waited for: what it has not given yet is neither missing nor there once."""
    consumer.assign([queue])
    consumer.seek(queue, first)
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + _PATIENCE_MS
    while (position := consumer.position(queue)) < end:
        messages = consumer.poll(timeout_ms=1_000)
        yield from (message for message in messages if first <= message.queue_offset < end)
        if consumer.position(queue) != position:
            deadline_ms = clock.monotonic_ms() + _PATIENCE_MS
        elif clock.monotonic_ms() > deadline_ms:
            raise AssertionError(f"{queue} gives nothing from offset {position} on, though it ends at {end}.")
