"""What a limit of open files leaves to connections and to the files of a store."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rmqspark.cli.servers.open_files import limits_within, raised, store_within
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig

WITHOUT = -1
LIMITS, STORE = Limits(), StoreConfig()


@pytest.mark.parametrize(
    ("soft", "hard", "is_raised_to"),
    [
        (1024, 524_288, 524_288),
        (256, WITHOUT, 10_240),  # macOS
        (20_000, 20_000, 20_000),
        (20_000, WITHOUT, 20_000),
        (WITHOUT, WITHOUT, WITHOUT),
        (2**40, 1024, 2**40),  # cannot be; were it so, it would not be lowered
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, is_raised_to: int) -> None:
    """Never lowered; where there is no hard limit, raised to what every system takes."""
    assert raised(soft, hard, WITHOUT) == is_raised_to


@pytest.mark.parametrize(
    ("limit", "connections", "files", "unsynced"),
    [
        (None, 16_384, 256, 8192),
        (1 << 20, 16_384, 256, 8192),
        (65_536, 16_384, 256, 8192),
        (4096, 1525, 256, 661),
        (300, 58, 28, 28),
        (256, 43, 21, 21),
        (10, 16, 16, 16),
    ],
)
def test_connections_and_files_share_a_low_limit(
    limit: int | None, connections: int, files: int, unsynced: int
) -> None:
    """All that two servers and a store may have open at once is less than what the process may."""
    store = store_within(limit, STORE)
    with capture_logs():
        limits = limits_within(limit, LIMITS, store, servers=2)
    assert (limits.max_connections, store.max_open_files, store.max_unsynced_files) == (connections, files, unsynced)


@pytest.mark.parametrize(
    ("limit", "is_told"), [(None, False), (1 << 20, False), (20_000, False), (16_384, True), (300, True)]
)
def test_a_limit_below_what_clients_may_have_is_told(limit: int | None, is_told: bool) -> None:
    """One line, with what the limit is, what it allows, and what to do."""
    with capture_logs() as lines:
        limits = limits_within(limit, LIMITS, store_within(limit, STORE))
    assert len(lines) == is_told
    for line in lines:
        assert (line["log_level"], line["limit"], line["connections_wanted"]) == ("warning", limit, 16_384)
        assert line["connections_taken"] == limits.max_connections < 16_384
        assert "ulimit -Hn" in line["hint"]
        assert "LimitNOFILE=" in line["hint"]
