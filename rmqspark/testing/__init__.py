"""For tests of what uses rmqspark: a real cluster in process, pytest fixtures, and the seams as fakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.testing.in_process import LocalCluster, cluster

__all__ = ["LocalCluster", "cluster"]


def __getattr__(name: str) -> object:
    """Loads the cluster, and with it the whole server, when it is first asked for: pytest imports this at its start."""
    if name not in __all__:
        raise AttributeError(f"module 'rmqspark.testing' has no attribute {name!r}")
    from rmqspark.testing import in_process

    return getattr(in_process, name)
