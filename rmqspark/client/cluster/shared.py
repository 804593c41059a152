"""One `ClusterClient` for each cluster that a process talks to, opened at first use and kept.

Spark uses its Python workers again for the next task, and makes new ones by forking: what a worker opens lives here
rather than in the objects that are pickled to it, and a forked child does not touch its parent's sockets.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.access import resolve_access
from rmqspark.client.cluster.addresses import resolve_namesrv
from rmqspark.client.cluster.cluster_client import ClusterClient

if TYPE_CHECKING:
    from rmqspark.remoting.access import Access

_MOST: Final = 64

_clients: dict[tuple[int, str, Access], ClusterClient] = {}  # that used longest ago first
_lock = threading.Lock()


def shared_client(namesrv: str | None = None, access: Access | None = None) -> ClusterClient:
    """This process's client of the cluster behind `namesrv`, with that access, or the environment's. It stays open; do
    not close it. Where passwords and tokens change all the time, the clients used longest ago are kept no more: one
    that nobody has goes when its brokers close its connections."""
    key = os.getpid(), resolve_namesrv(namesrv), resolve_access(access)
    with _lock:
        client = _clients.pop(key, None)
        if client is None or client.closed:
            client = ClusterClient(key[1], access=key[2])
        _clients[key] = client
        if len(_clients) > _MOST:
            del _clients[next(iter(_clients))]
        return client


def _forget_parent() -> None:
    """In a forked child: the lock may be held by a thread that is not there, the clients are the parent's."""
    global _lock
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_forget_parent)
