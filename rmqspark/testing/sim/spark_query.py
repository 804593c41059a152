"""A query that copies a topic to another exactly once, as Spark runs one: over the source and the sink of this project.

Spark itself is not there. What it does around them is: offsets are noted before a batch, its tasks run on executors
that outlive a driver for a while, failed ones again, slow ones twice at once; then the driver commits, and notes that
the batch is done. Any of these processes may die between any two steps, or stop and go on when others have its place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pyarrow as pa
from pyspark.sql.types import StructType

from rmqspark.client.cluster.shared import shared_client
from rmqspark.errors import RmqError
from rmqspark.protocol.names import stream_transactional_id
from rmqspark.protocol.records.properties import Property
from rmqspark.remoting.access import OPEN
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.sink.transactions.commit import abort, commit
from rmqspark.source.reader import RmqStreamReader
from rmqspark.source.tasks.task import read_of_batch
from rmqspark.streaming_batch import StreamingBatch
from rmqspark.testing.history import content_of
from rmqspark.testing.sim.processes import SimProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.testing.sim.spark_plan import SparkPlan
    from rmqspark.testing.sim.world import World

QUERY_ID: Final = "copying"
_SCHEMA: Final = (
    StructType().add("brokerName", "string").add("queueId", "integer").add("queueOffset", "long").add("body", "binary")
)
_PLACE: Final = ("brokerName", "queueId", "queueOffset")
_TRIES: Final = 4  # spark.task.maxFailures
_LONGEST_ZOMBIE_S: Final = 20.0


class Checkpoint:
    """What Spark keeps of a query, in files that are there as a whole or not at all."""

    def __init__(self) -> None:
        self.offsets: dict[int, str] = {}
        self.commits: set[int] = set()

    @property
    def last(self) -> int:
        return max(self.offsets, default=-1)


class Copies:
    """Which rows were read in which batch, and what must be in the target of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.checkpoint = Checkpoint()
        self.batch_of: dict[str, int] = {}
        self.rows_of: dict[int, list[str]] = {}

    def reading(self, batch: int, name: str, body: bytes) -> None:
        """A task has a row of a batch. It is the same batch's every time."""
        before = self.batch_of.setdefault(name, batch)
        if before != batch and self._world.is_whole_everywhere:
            self._world.violated(f"Law 13: {name} is read in batch {batch}, and was in {before}")
        if name not in self.rows_of.setdefault(-1, []):
            self.rows_of[-1].append(name)
            number = self._world.history.sending(name, [(name, content_of(body, {Property.KEYS: name}))])
            self._world.history.in_doubt(number)

    def committed(self, batch: int, names: list[str]) -> None:
        self.rows_of[batch] = sorted(names)

    def judge(self, found: dict[str, int]) -> list[str]:
        """`found` is how often each row is in the target."""
        done = [name for batch in sorted(self.checkpoint.commits) for name in self.rows_of.get(batch, ())]
        wrong = [
            f"{name} of batch {self.batch_of[name]} is committed, and not there" for name in done if not found.get(name)
        ]
        return wrong + [f"{name} is there {count} times" for name, count in found.items() if count > 1]


class _TaskRun:
    """One attempt of a task on an executor."""

    def __init__(self, executor: SimProcess) -> None:
        self.executor = executor
        self.written: AttemptWritten | None = None
        self.names: list[str] = []
        self.failure: RmqError | None = None

    @property
    def is_over(self) -> bool:
        return self.written is not None or self.failure is not None or self.executor.life.is_over


class Driver:
    """One run of the query: from its start until it fails, dies or is to stop."""

    def __init__(self, process: SimProcess, plan: SparkPlan, copies: Copies, source: str, target: str) -> None:
        self.is_to_stop = False
        self.is_done = False
        self._process = process
        self._world = process.world
        self._plan = plan
        self._copies = copies
        self._checkpoint = copies.checkpoint
        token = process.entropy.token(16).hex()
        self._run_id = f"{token[:8]}-{token[8:12]}-{token[12:16]}-{token[16:20]}-{token[20:]}"
        self._given = {
            "namesrv": process.namesrv,
            "subscribe": source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(plan.most_rows),
            "failOnDataLoss": str(plan.fails_on_loss).lower(),
        }
        self._sink = SinkOptions(process.namesrv, target, batch_bytes=plan.batch_bytes)
        self._executors: list[SimProcess] = []
        self._attempts = 0

    def run(self) -> None:
        self._world.trace.reached("query started")
        try:
            self._run()
        except RmqError as error:
            self._world.trace.reached(f"query {type(error).__name__}")
            self._world.note(f"{self._process.name} ends with {error}")
            self._process.pause(1.0)
        finally:
            if not self._process.life.is_over and not self._world.is_over:
                self._let_go()

    def _run(self) -> None:
        reader = RmqStreamReader(self._given, _SCHEMA)
        checkpoint = self._checkpoint
        while not self.is_to_stop:
            batch = checkpoint.last
            if batch < 0 or batch in checkpoint.commits:
                batch += 1
                if not self._plan_batch(reader, batch):
                    self._process.pause(self._plan.longest_pause_s)
                    continue
            self._step()
            self._run_batch(reader, batch)
            self._step()
            checkpoint.commits.add(batch)
            self._world.trace.reached("batch of a query done")

    def _plan_batch(self, reader: RmqStreamReader, batch: int) -> bool:
        """Whether there is anything new; then it is noted."""
        start = self._start_of(reader, batch)
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        self._step()
        if end == start or not (self._world.masters_move or reader.partitions(start, end)):
            return False  # where the same places are another master's, Spark runs a batch of nothing
        if batch != self._checkpoint.last + 1:  # another driver was here
            raise _Overtaken(f"Batch {batch} is planned already.")
        self._checkpoint.offsets[batch] = json.dumps(end)
        return True

    def _start_of(self, reader: RmqStreamReader, batch: int) -> dict[str, Any]:
        noted = self._checkpoint.offsets.get(batch - 1)
        start: dict[str, Any] = reader.initialOffset() if noted is None else json.loads(noted)
        if noted is None:
            self._checkpoint.offsets.setdefault(-1, json.dumps(start))  # as the source keeps it beside
            start = json.loads(self._checkpoint.offsets[-1])
        return start

    def _run_batch(self, reader: RmqStreamReader, batch: int) -> None:
        start, end = self._start_of(reader, batch), json.loads(self._checkpoint.offsets[batch])
        tasks = [self._run_task(batch, number, each) for number, each in enumerate(reader.partitions(start, end))]
        messages = [task.written for task in tasks if task.written is not None]
        client = shared_client(self._process.namesrv, OPEN)
        self._step()
        try:
            if len(messages) < len(tasks):
                raise next(task.failure for task in tasks if task.failure is not None)
            commit(client, TransactionOptions(), messages)
        except RmqError:
            self._step()
            abort(client, messages)
            raise
        self._copies.committed(batch, [name for task in tasks for name in task.names])
        coordinator = client.coordinators.of(stream_transactional_id(QUERY_ID))
        if coordinator is not None:
            self._world.on_promise(coordinator, True)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _run_task(self, batch: int, number: int, partition: Any) -> _TaskRun:
        """The first attempt that succeeds, or the last."""
        runs: list[_TaskRun] = []
        while True:
            if all(run.is_over for run in runs):
                if len(runs) >= _TRIES:
                    return runs[-1] if runs[-1].failure is not None else self._lost(runs[-1])
                twins = 2 if self._process.random.random() < self._plan.twins else 1
                runs += [self._start_task(batch, number, partition) for _ in range(twins)]
            self._process.pause(0.05)
            for run in runs:
                if run.written is not None:
                    return run

    @staticmethod
    def _lost(run: _TaskRun) -> _TaskRun:
        run.failure = _Overtaken("Its executor is lost.")
        return run

    def _start_task(self, batch: int, number: int, partition: Any) -> _TaskRun:
        self._attempts += 1
        executor = self._executor()
        run = _TaskRun(executor)
        name = f"{self._attempts}-{executor.entropy.token(8).hex()}"
        attempt = Attempt(
            stream_transactional_id(QUERY_ID), self._run_id, batch, number, name, query_id=QUERY_ID, batch_id=batch
        )
        executor.run(lambda: self._do_task(run, attempt, partition), f"task-{self._attempts}")
        return run

    def _do_task(self, run: _TaskRun, attempt: Attempt, partition: Any) -> None:
        process = run.executor
        process.batch = StreamingBatch(QUERY_ID, attempt.batch_id, self._run_id)
        try:
            process.pause(0.2)
            rows = self._copied(read_of_batch(partition, _SCHEMA), run, attempt.batch_id)
            written = write_attempt(shared_client(process.namesrv, OPEN), self._sink, attempt, rows)
            self._step_of(process)
            run.written = written
        except RmqError as error:
            self._world.trace.reached(f"task {type(error).__name__}")
            self._world.note(f"{process.name} fails: {error}")
            run.failure = error

    def _copied(self, batches: Iterable[Any], run: _TaskRun, batch: int) -> Iterator[Any]:
        """The rows under names of their own."""
        for rows in batches:
            named, place = (name_by_content, (*_PLACE, "body")) if self._world.masters_move else (name_of, _PLACE)
            names = list(map(named, *(rows.column(each).to_pylist() for each in place)))
            for name, body in zip(names, rows.column("body").to_pylist(), strict=True):
                self._copies.reading(batch, name, body)
            run.names += names
            self._step_of(run.executor)
            yield pa.record_batch({"body": rows.column("body"), "keys": pa.array(names, pa.string())})

    def _executor(self) -> SimProcess:
        alive = [each for each in self._executors if not each.life.is_over]
        if len(alive) < self._plan.executors:
            name = f"{self._process.name}/executor-{len(self._executors)}"
            executor = SimProcess(self._world, name, self._process.life.host, [self._process.namesrv])
            self._executors.append(executor)
            return executor
        return self._process.random.choice(alive)

    def _let_go(self) -> None:
        """The executors of a driver that is gone go, too, but not at once."""
        for executor in self._executors:
            executor.die_later(self._process.random.random() * _LONGEST_ZOMBIE_S)

    # --- death -------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if not self._world.is_healed and self._process.random.random() < self._plan.dies:
            self._world.trace.reached("driver died at a step")
            self._let_go()
            self._process.kill()

    def _step_of(self, executor: SimProcess) -> None:
        if not self._world.is_healed and executor.random.random() < self._plan.dies:
            self._world.trace.reached("executor died at a step")
            executor.kill()


def name_of(broker_name: str, queue_id: int, queue_offset: int) -> str:
    """What the copy of a message is called: by its place, for the same message may be there more than once."""
    return f"copy-{broker_name}-{queue_id}-{queue_offset}"


def name_by_content(broker_name: str, queue_id: int, queue_offset: int, body: bytes) -> str:
    """The same where another message may be in this place later."""
    return f"{name_of(broker_name, queue_id, queue_offset)}-{crc32(body):08x}"


class _Overtaken(RmqError):
    """Spark would end the query here."""
