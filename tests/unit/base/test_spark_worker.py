"""What the Python worker of Spark is spared between tasks."""

from __future__ import annotations

import gc
import pickle
import socket
import weakref
from array import array
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import TYPE_CHECKING

import pytest

from rmqspark import spark_worker
from rmqspark.sink.at_least_once import RowsWritten
from rmqspark.spark_worker import acknowledge, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Node:
    """Something that can hold itself."""


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch, nothing_frozen: None) -> None:
    """A process that has run no task yet."""
    monkeypatch.setattr(spark_worker, "_tasks", {})
    monkeypatch.setattr(spark_worker, "_connections", {})


def test_what_a_worker_has_loaded_is_not_looked_at_after_every_task() -> None:
    """Modules that the first tasks of a worker brought are left out of the collections that follow."""
    settle()
    assert gc.get_freeze_count() > 10_000
    imported_by_the_first_task = Node()
    settle()
    assert not _is_looked_at(imported_by_the_first_task)


def test_what_later_tasks_make_is_looked_at() -> None:
    """A worker that runs for weeks does not keep what it should not."""
    for _ in range(100):
        settle()
        made_by_a_task = Node()
    assert _is_looked_at(made_by_a_task)


def test_garbage_of_tasks_is_collected_as_ever() -> None:
    """What a task leaves in a circle is gone after PySpark's collection, in the first task and in later ones."""
    for _ in range(10):
        settle()
        circle = Node()
        circle.itself = circle  # type: ignore[attr-defined]
        gone = weakref.ref(circle)
        del circle
        gc.collect()
        assert gone() is None


def _is_looked_at(wanted: object) -> bool:
    return any(each is wanted for each in gc.get_objects())


needs_quick_acknowledgements = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program say when TCP acknowledges"
)


@needs_quick_acknowledgements
def test_what_a_task_is_to_do_is_acknowledged_at_once(connected: tuple[socket.socket, socket.socket]) -> None:
    """Else Nagle's algorithm holds back what it is to be done on, for as long as the kernel waits after an answer. An
    answer makes the kernel wait again, so it is told in every task, by what all of them unpickle."""
    spark, worker = connected
    manager(worker, _nothing)
    for _ in range(10):
        _answer(spark, worker)
        spark.sendall(pickle.dumps(RowsWritten(2, 300, {})))
        packed = worker.recv(65_536)
        assert _unacknowledged(spark)
        pickle.loads(packed)
        assert any(not _unacknowledged(spark) for _ in range(1_000))


@needs_quick_acknowledgements
def test_a_connection_that_is_gone_is_no_matter(connected: tuple[socket.socket, socket.socket]) -> None:
    """What the last task of a worker unpickles raises nothing where its Spark has gone."""
    _, worker = connected
    manager(worker, _nothing)
    worker.close()
    acknowledge()


def test_a_process_that_is_not_a_worker_is_left_alone() -> None:
    """A driver, or a task run in a test, has no connection to tell anything."""
    settle()
    assert not spark_worker._connections
    acknowledge()


def manager(sock: socket.socket, work: Callable[[], None]) -> None:
    """Runs a task as PySpark's function of this name does, which calls its connection so, too."""
    settle()
    work()


def _nothing() -> None:
    """A task that has no rows."""


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection over the loopback, Spark's first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as spark,
        listener.accept()[0] as worker,
    ):
        yield spark, worker


def _answer(spark: socket.socket, worker: socket.socket) -> None:
    """Question and answer, again and again: from then on the kernel takes it for a conversation."""
    for _ in range(5):
        spark.sendall(b"?")
        worker.recv(1)
        worker.sendall(b"!")
        spark.recv(1)


def _unacknowledged(sender: socket.socket) -> int:
    """Bytes that were sent and are not acknowledged."""
    waiting = array("i", [0])
    ioctl(sender, TIOCOUTQ, waiting)  # of a TCP connection SIOCOUTQ, which has the same number
    return waiting[0]
