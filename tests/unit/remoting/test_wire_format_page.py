"""docs/wire-format.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqspark.protocol.access_classes import ACCESS
from rmqspark.protocol.bodies import queries as bodies_queries
from rmqspark.protocol.bodies import txn as bodies_txn
from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers import queries as headers_queries
from rmqspark.protocol.headers import txn as headers_txn
from rmqspark.protocol.headers.bulk import (
    BulkReadRequestHeader,
    BulkReadResponseHeader,
    BulkSendRequestHeader,
    BulkSendResponseHeader,
    TopicsReadRequestHeader,
    TopicsReadResponseHeader,
    TopicsSendRequestHeader,
    TopicsSendResponseHeader,
)
from rmqspark.protocol.headers.types import Header
from rmqspark.remoting.limits import Limits

PAGE = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| ([a-z-]+) \| [^|]+ \| [a-z, ]+ \|$", re.MULTILINE)


def test_every_request_is_there_with_its_right() -> None:
    """Whoever asks which right a request needs finds it on the page, and nothing that is not so."""
    told = {(int(code), name, access) for code, name, access in ROW.findall(PAGE)}
    assert told == {(int(code), code.name, ACCESS[code].value) for code in RequestCode}


BULK = [BulkSendRequestHeader, BulkSendResponseHeader, BulkReadRequestHeader, BulkReadResponseHeader]
TOPICS = [TopicsSendRequestHeader, TopicsSendResponseHeader, TopicsReadRequestHeader, TopicsReadResponseHeader]
TRANSACTIONS = [
    kind
    for module in (headers_txn, bodies_txn, headers_queries, bodies_queries)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, (Header, Body)) and kind not in (Header, Body)
]


@pytest.mark.parametrize("header", [*BULK, *TOPICS, *TRANSACTIONS])
def test_every_field_of_our_own_requests_is_there(header: type[Header | Body]) -> None:
    """Whoever writes a client for our own requests finds all their fields."""
    named = {*re.findall(r"`(\w+)`", PAGE), *re.findall(r'"(\w+)":', PAGE)}
    assert [name for name in header.__struct_fields__ if name not in named] == []


def test_limits_are_todays() -> None:
    """The limits on the page are the defaults of the server."""
    limits = Limits()
    for text in (
        f"{limits.max_frame_bytes >> 20} MiB",
        f"{limits.first_frame_timeout_ms // 1000} s",
        f"{limits.frame_timeout_ms // 1000} s",
        f"{limits.idle_timeout_ms // 1000} s",
        f"{limits.max_connections:,} · {limits.max_connections_per_address:,}",
        f"{limits.max_newcomer_bytes >> 20} MiB · {limits.max_buffered_bytes >> 20} MiB",
        f"{limits.outgoing_high_bytes >> 20} MiB",
        f"{limits.outgoing_max_bytes >> 20} MiB",
        f"{limits.max_unsent_bytes >> 20} MiB",
        f"{limits.max_requests_under_way:,}",
        f"{limits.max_waiting_bytes >> 20} MiB | `SYSTEM_BUSY` (2)",
    ):
        assert f"| {text} |" in PAGE
