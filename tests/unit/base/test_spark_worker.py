"""What the Python worker of Spark is spared between tasks."""

from __future__ import annotations

import gc
import socket
import weakref
from typing import TYPE_CHECKING

import pytest

from rmqspark import spark_worker
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Node:
    """Something that can hold itself."""


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch, nothing_frozen: None) -> Iterator[None]:
    """A process that has run no task yet."""
    monkeypatch.setattr(spark_worker, "_tasks", {})
    before = [*gc.callbacks]
    yield
    gc.callbacks[:] = before


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
def test_the_next_task_is_acknowledged_at_once(connected: tuple[socket.socket, socket.socket]) -> None:
    """Nagle's algorithm holds the second half of the next task back no longer than the kernel holds the first one's
    acknowledgement, which after an answer it does for 40 ms."""
    spark, worker = connected
    manager(worker, lambda: _answer(spark, worker))
    assert _acknowledges_late(worker)
    gc.collect()  # as PySpark's daemon does between two tasks
    assert not _acknowledges_late(worker)


@needs_quick_acknowledgements
def test_every_task_is(connected: tuple[socket.socket, socket.socket]) -> None:
    """An answer makes the kernel late again, so it is told after each task, however many there are."""
    spark, worker = connected
    for _ in range(10):
        manager(worker, lambda: _answer(spark, worker))
        gc.collect()
        assert not _acknowledges_late(worker)
    assert sum(_is_of_ours(callback) for callback in gc.callbacks) == 1


@needs_quick_acknowledgements
def test_a_connection_that_is_gone_is_no_matter(connected: tuple[socket.socket, socket.socket]) -> None:
    """The last collection of a worker whose Spark has gone raises nothing, not even where nobody would see it."""
    spark, worker = connected
    manager(worker, lambda: _answer(spark, worker))
    worker.close()
    gc.collect()


def test_a_process_that_is_not_a_worker_is_left_alone() -> None:
    """A driver, or a task run in a test, has no connection to tell anything."""
    settle()
    assert not any(map(_is_of_ours, gc.callbacks))


def manager(sock: socket.socket, answer: Callable[[], None]) -> None:
    """Runs a task as PySpark's function of this name does, which calls its connection so, too."""
    settle()
    answer()


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


def _acknowledges_late(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 0


def _is_of_ours(callback: object) -> bool:
    return getattr(callback, "func", None) is spark_worker._after_a_task
