"""For tests of what uses rmqspark: a real cluster in process, pytest fixtures, and the seams as fakes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.testing.exactly_once import assert_exactly_once, crash_at
    from rmqspark.testing.in_process import LocalCluster, cluster

__all__ = ["LocalCluster", "assert_exactly_once", "cluster", "crash_at"]

_HOMES = {"assert_exactly_once": "exactly_once", "crash_at": "exactly_once"}


def __getattr__(name: str) -> object:
    """Loads the cluster, and with it the whole server, when it is first asked for: pytest imports this at its start."""
    if name not in __all__:
        raise AttributeError(f"module 'rmqspark.testing' has no attribute {name!r}")
    return getattr(import_module(f"rmqspark.testing.{_HOMES.get(name, 'in_process')}"), name)
