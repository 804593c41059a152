"""A query through all that happens to topics: whatever comes in which order, it reads what was sent, each message once.

After the stress tests of Spark's own sources (KafkaSourceStressSuite).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import AdminClient, Message, Producer
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rmqspark.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.faults]

BROKERS = ("broker-a", "broker-b")
MOST_TOPICS = 5
MOST_QUEUES = 6
MOST_MESSAGES = 60  # at a time
LOOKS, LOOK_S = 1_200, 0.1  # for rows that are due
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"maxOffsetsPerTrigger": 20},
    {"maxBytesPerTrigger": "2k", "minPartitions": 5},
    {"readMode": "direct", "maxOffsetsPerTrigger": 30},
)


@dataclass
class Life:
    """A topic from its creation to its deletion; one of its name may have been there before."""

    topic: str
    number: int
    queues: int
    sent: list[str] = field(default_factory=list)


class Copies:
    """What the query gave, batch by batch; one that is run again, after a stop in its middle, takes its own place."""

    def __init__(self) -> None:
        self._batches: dict[int, list[str]] = {}

    def take(self, batch: DataFrame, number: int) -> None:
        self._batches[number] = [bytes(row.body).decode() for row in batch.collect()]

    def counted(self) -> Counter[str]:
        return Counter(body for rows in list(self._batches.values()) for body in rows)


class Story:
    """A query, topics, and two brokers; each step is drawn, done, and leaves something to be checked.

    With `deletions` the query is told to go on where messages are lost (failOnDataLoss=false): those of a topic that is
    deleted may be read or not. Without, it would end if it missed any, and nothing may ever be missing.
    """

    def __init__(
        self, spark: SparkSession, mq: LocalCluster, directory: Path, draw: Random, *, deletions: bool
    ) -> None:
        self._spark, self._mq, self._draw, self._deletions = spark, mq, draw, deletions
        self._checkpoint = str(directory / "checkpoint")
        self._admin, self._producer = AdminClient(mq.namesrv), Producer(mq.namesrv)
        self._lives: list[Life] = []
        self._ended: list[Life] = []
        self._copies = Copies()
        self._query: StreamingQuery | None = None
        self.done: Counter[str] = Counter()

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._producer.close()
        self._admin.close()

    def step(self) -> None:
        """Whatever may happen next."""
        may: dict[Callable[[], None], int] = {
            self.send: 8,
            self.check: 4 if self._query is not None else 0,
            self.start_or_stop: 3 if self._query is not None else 8,
            self.create: 2 if len(self._lives) < MOST_TOPICS else 0,
            self.add_queues: 2 if self._growable() else 0,
            self.restart_a_broker: 1,
            self.delete: 2 if self._deletions and len(self._lives) > 1 else 0,
        }
        (chosen,) = self._draw.choices(list(may), list(may.values()))
        chosen()
        self.done[chosen.__name__] += 1

    def finish(self) -> None:
        if self._query is None:
            self.start_or_stop()
        self.check()

    # --- steps -------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """A new topic, or one that was deleted."""
        gone = sorted({life.topic for life in self._ended} - {life.topic for life in self._lives})
        name = self._draw.choice(gone) if gone and self._draw.random() < 0.5 else f"stress-{len(self._all())}"
        life = Life(name, len(self._all()), self._draw.randint(1, 3))
        self._admin.create_topic(name, queues=life.queues, brokers=self._draw.choice((BROKERS, BROKERS[:1])))
        self._lives.append(life)

    def add_queues(self) -> None:
        life = self._draw.choice(self._growable())
        life.queues += self._draw.randint(1, 2)
        self._admin.update_topic(life.topic, queues=life.queues)

    def send(self) -> None:
        life = self._draw.choice(self._lives)
        bodies = [
            f"{life.topic}/{life.number}/{len(life.sent) + n}" for n in range(self._draw.randint(1, MOST_MESSAGES))
        ]
        for body in bodies:
            self._producer.send(Message(life.topic, body.encode()))
        life.sent += bodies

    def delete(self) -> None:
        life = self._lives.pop(self._draw.randrange(len(self._lives)))
        self._ended.append(life)
        self._admin.delete_topic(life.topic)

    def restart_a_broker(self) -> None:
        name = self._draw.choice(BROKERS)
        self._mq.stop_broker(name)
        self._mq.start_broker(name)

    def start_or_stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
            return
        frame = (
            self._spark.readStream.format("rmq")
            .option("namesrv", self._mq.namesrv)
            .option("subscribePattern", "stress-.*")
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", str(not self._deletions))
            .options(**self._draw.choice(OPTIONS))
            .schema("body binary")
            .load()
        )
        writer = frame.writeStream.foreachBatch(self._copies.take).option("checkpointLocation", self._checkpoint)
        self._query = writer.start()

    def check(self) -> None:
        """All that was sent and is there is read, each message once; nothing else ever is."""
        assert self._query is not None
        due = {body for life in self._lives for body in life.sent}
        for _ in range(LOOKS):
            copies = self._copies.counted()
            if due <= copies.keys():
                break
            assert not self._query.awaitTermination(LOOK_S)  # type: ignore[arg-type]
        assert sorted(due - copies.keys()) == []
        assert [body for body, times in copies.items() if times > 1] == []
        assert copies.keys() <= {body for life in self._all() for body in life.sent}

    # --- what is there -----------------------------------------------------------------------------------------------

    def _all(self) -> list[Life]:
        return [*self._ended, *self._lives]

    def _growable(self) -> list[Life]:
        return [life for life in self._lives if life.queues < MOST_QUEUES]


@pytest.fixture
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=len(BROKERS)) as running:
        yield running


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("deletions", [False, True])
def test_whatever_happens_to_topics(
    deletions: bool,
    rmq_spark: SparkSession,
    mq: LocalCluster,
    tmp_path: Path,
    amount: Callable[..., int],
    seed: int,
    tell: Callable[[str], None],
) -> None:
    """Sends, stops and starts, new topics, more queues, brokers that restart, and topics deleted and made anew."""
    story = Story(rmq_spark, mq, tmp_path, Random(f"{seed}/{deletions}"), deletions=deletions)
    try:
        story.create()
        for _ in range(amount(12, 200, by=0.5)):
            story.step()
        story.finish()
    finally:
        story.close()
        steps = ", ".join(f"{times} {name}" for name, times in sorted(story.done.items()))
        tell(f"--randomly-seed={seed}: {steps}")
