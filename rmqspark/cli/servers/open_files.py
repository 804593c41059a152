"""How many files and connections this process may have open at once, and what it has them for.

To the system a connection is an open file, too, and so is each queue with bytes that are not on disk yet. It starts
programs with a soft limit of 1,024 or even 256, for the sake of old ones, and lets each raise that to the hard limit,
as Java's and Go's do. Where the hard limit is low as well, connections and files of the store get shares of it: then
neither a flood of clients nor a thousand busy queues take the last one from the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from rmqspark.remoting.limits import Limits
    from rmqspark.store.config import StoreConfig

_RESERVED: Final = 128  # standard streams, listeners, tables while they are saved, calls to other servers, children
_WITHOUT_HARD_LIMIT: Final = 10_240  # macOS says that there is none, and refuses more
_STORE_SHARE: Final = 6  # a sixth for each kind of file of the store
_LEAST: Final = 16  # of whatever is shared out: below that nothing works anyway
_HINT: Final = "Raise the hard limit: `ulimit -Hn`, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container."

log = structlog.get_logger("rmqspark.open_files")


def raise_limit() -> None:
    """Raises the soft limit of open files to the hard one; does nothing where the system has none, or refuses."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = raised(soft, hard, resource.RLIM_INFINITY)
    if wanted != soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return


def raised(soft: int, hard: int, infinity: int) -> int:
    """What a soft limit may be raised to; `infinity` stands for no limit. Never less than it is."""
    if soft == infinity:
        return soft
    return max(soft, _WITHOUT_HARD_LIMIT if hard == infinity else hard)


def current_limit() -> int | None:
    """How many files this process may have open now; None where there is no limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def store_within(limit: int | None, store: StoreConfig) -> StoreConfig:
    """The settings of a store that leaves most of so many open files to connections."""
    if limit is None:
        return store
    most = max(_LEAST, (limit - _RESERVED) // _STORE_SHARE)
    return replace(
        store,
        max_open_files=min(store.max_open_files, most),
        max_unsynced_files=min(store.max_unsynced_files, most),
    )


def limits_within(limit: int | None, limits: Limits, store: StoreConfig | None = None, *, servers: int = 1) -> Limits:
    """The limits of each of so many servers in one process that may have so many files open, those of `store` too.

    Logs a warning where all of them would not do for the connections that one server was meant to take.
    """
    if limit is None:
        return limits
    files = _RESERVED + (_files_of(store) if store is not None else 0)
    most = max(_LEAST, (limit - files) // servers)
    fitting = replace(limits, max_connections=min(limits.max_connections, most))
    if limit < limits.max_connections + _RESERVED:
        log.warning(
            "few files may be open at once, and connections are files",
            limit=limit,
            connections_taken=fitting.max_connections,
            connections_wanted=limits.max_connections,
            hint=_HINT,
        )
    return fitting


def _files_of(store: StoreConfig) -> int:
    """Those of the log, and of the queues, where all that are open may have bytes that are not on disk."""
    return store.max_open_files + max(store.max_open_files, store.max_unsynced_files)
