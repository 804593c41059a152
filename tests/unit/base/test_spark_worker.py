"""What the Python worker of Spark is spared between tasks."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from rmqspark import spark_worker
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterator


class Node:
    """Something that can hold itself."""


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has run no task yet."""
    monkeypatch.setattr(spark_worker, "_tasks", {})
    gc.unfreeze()
    yield
    gc.unfreeze()


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
