"""The clients that a process keeps from one task to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster import shared
from rmqspark.client.cluster.shared import shared_client
from rmqspark.remoting.access import Access, Credentials

if TYPE_CHECKING:
    import pytest

NAMESRV = "127.0.0.1:9876"


def access(number: int) -> Access:
    """As somebody has it whose token is another every hour."""
    return Access(Credentials("spark", "secret", f"token-{number}"))


def test_a_process_does_not_keep_a_client_for_each_token_there_ever_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of Spark's lives for months, and so does a driver. What is used stays the same client all along."""
    monkeypatch.setattr(shared, "_clients", {})
    in_use = shared_client(NAMESRV, access(0))
    for number in range(1, 200):
        shared_client(NAMESRV, access(number))
        assert shared_client(NAMESRV, access(0)) is in_use
    assert len(shared._clients) == shared._MOST
    assert not in_use.closed
