"""A coordinator that knows less than the brokers that have completed what was decided: nothing is written twice.

Where the rows of a version that comes again all go to brokers that have nothing of it, no participant refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import TransactionError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import TxnOutcome, TxnPrepareRequestHeader, TxnPrepareResponseHeader
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.coordinator.events import encode_event

from .exactly_once_driver import CHECKPOINT, T, rows_of
from .exactly_once_world import COORDINATOR, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER = "b"
REFUSED = "Version 1 of 'spark-q' is not above 1, which broker 'b' has completed.*under a new transactionalId"
DAYS_S = 86_400


class Tasks:
    """Those of all runs that ask here; none of them dies."""

    life = 1


class Story:
    """Version 0 is recorded by Spark, version 1 committed on both brokers; its driver died before it could record it.
    `earlier` is the coordinator's disk before version 1."""

    def __init__(self) -> None:
        self.world = World(expiration_ms=90 * DAYS_S * 1_000)
        self.coordinator = COORDINATOR
        self.world.start_run()
        self.until_it_records()
        self.world.deliver()
        self.earlier = self.world.nodes[COORDINATOR].copy_of_disk()
        self.world.grow()
        self.until_it_records()
        self.world.lose(0)
        self.world.kill_driver(0)
        assert (self.world.recorded, self.world.nodes[OTHER].rows()) == ({0}, rows_of("b", 0) + rows_of("b", 1))

    def until_it_records(self) -> None:
        """Spark's driver goes on to where it has a version recorded, and nothing else is under way."""
        while [message.target for message in self.world.network] != [CHECKPOINT]:
            self.world.deliver(self.world.network[0].target == CHECKPOINT)

    def prepare(self, version: int, run: str) -> TxnOutcome:
        """What a task of this run is told. Raises what it is refused with."""
        header = TxnPrepareRequestHeader(T, run, version, 0, f"{run}-task", "q")
        asking = self.world.call(Tasks, self.coordinator, RequestCode.RMQ_TXN_PREPARE, header, b"")
        task = self.world.loop.create_task(asking)
        self.world.settle()
        self.world.drain()
        return TxnOutcome(task.result().header(TxnPrepareResponseHeader).outcome)

    def ledger(self) -> list[bytes]:
        """What the coordinator knows of the id."""
        return [encode_event(each) for each in self.world.nodes[self.coordinator].coordination.ledger.restated(T)]


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story()
    yield story
    story.world.close()


def its_disk_is_replaced(story: Story) -> None:
    story.world.nodes[COORDINATOR].restart_on(MemoryFileSystem(clock=story.world.clock))


def its_disk_is_set_back(story: Story) -> None:
    story.world.nodes[COORDINATOR].restart_on(story.earlier)


def it_is_retired(story: Story) -> None:
    story.coordinator = OTHER
    story.world.nodes[COORDINATOR].die(power=False)
    story.world.nodes[OTHER].retired = frozenset({COORDINATOR})


def it_forgets_the_id(story: Story) -> None:
    while story.world.pending():
        story.world.pass_a_minute()
    story.world.tick(0, 91 * DAYS_S)
    assert not story.ledger()


@pytest.mark.parametrize("forget", [its_disk_is_replaced, its_disk_is_set_back, it_is_retired, it_forgets_the_id])
def test_what_a_broker_has_completed_is_not_written_again(story: Story, forget: Callable[[Story], None]) -> None:
    """However often it is tried, and nothing is remembered of that; later versions go through."""
    forget(story)
    before = story.ledger()
    for run in ("run-2", "run-2", "run-3"):
        with pytest.raises(TransactionError, match=REFUSED):
            story.prepare(1, run)
    assert story.ledger() == before
    assert story.prepare(2, "run-3") is TxnOutcome.WRITE
    with pytest.raises(TransactionError, match=REFUSED):
        story.prepare(1, "run-4")


def test_a_run_that_a_set_back_ledger_knows_is_asked_about_too(story: Story) -> None:
    """A job group of the user's is called the same after every restart, and so is its run."""
    its_disk_is_set_back(story)
    for _ in range(2):
        with pytest.raises(TransactionError, match=REFUSED):
            story.prepare(1, "run-1")
    assert story.prepare(2, "run-1") is TxnOutcome.WRITE


def test_others_are_asked_once_after_a_start(story: Story) -> None:
    """Not task by task."""
    story.world.crash(0, power=False)
    story.world.restart(0)
    asked = []
    deliver = story.world.hand_over
    story.world.hand_over = lambda message: (asked.append(message.code), deliver(message))  # type: ignore[method-assign]
    assert [story.prepare(2, "run-1") for _ in range(3)] == [TxnOutcome.WRITE] * 3
    assert asked.count(RequestCode.RMQ_TXN_FIND) == 1


def test_what_a_set_back_ledger_knows_is_answered_by_it(story: Story) -> None:
    """Nobody else need be asked about that."""
    its_disk_is_set_back(story)
    assert story.prepare(0, "run-2") is TxnOutcome.ALREADY_COMMITTED


def test_what_is_still_being_completed_is_no_news_to_its_coordinator(story: Story) -> None:
    """Other brokers have it, and the ledger too, though not yet that they have."""
    world = story.world
    assert world.pending()
    world.crash(0, power=True)
    world.restart(0)
    assert world.pending()
    assert (story.prepare(1, "run-2"), story.prepare(2, "run-2")) == (TxnOutcome.ALREADY_COMMITTED, TxnOutcome.WRITE)
