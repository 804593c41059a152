"""Names of topics, groups and brokers that are paths, patterns or nothing at all, wherever a request may have one."""

from __future__ import annotations

import re
import sys
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.protocol import fastjson
from rmqspark.testing.fuzz.attack import converse, served_codes
from rmqspark.testing.fuzz.canary import Canary
from rmqspark.testing.fuzz.hostile import NAMES
from rmqspark.testing.fuzz.requests import Requests
from rmqspark.testing.fuzz.shapes import Names
from rmqspark.testing.fuzz.victim import Victim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
BAD: Final = tuple(
    name.encode("utf-8", "replace").decode()
    for name in (
        *NAMES,
        "../" * 20 + "etc/passwd",
        "..\\..\\x",
        "a" * 30_000,
        "store/../../x",
        "/",
        "\u2044",
        "．．／x",
    )
)
REQUESTS: Final = 2_000
REQUESTS_OF_A_SOAK: Final = 40_000
_AT_A_TIME: Final = 50


def tree(directory: Path, *, but: Path) -> dict[str, bytes]:
    """Every file below `directory`, and what is in it."""
    files = [path for path in directory.rglob("*") if path.is_file() and but not in path.parents]
    return {str(path): path.read_bytes() for path in files}


def test_no_name_leads_out_of_the_store(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """Every request that names something names a path instead: no file appears or changes but where it should, and
    nothing with such a name is kept."""
    for place in ("x", "etc/passwd", "victim/x", "victim/store/x"):
        canary_file = tmp_path / place
        canary_file.parent.mkdir(parents=True, exist_ok=True)
        canary_file.write_text("untouched")
    wanted = amount(REQUESTS, REQUESTS_OF_A_SOAK)
    with Victim(tmp_path / "victim") as victim, Canary(victim.namesrv) as canary:
        own = (victim.store / "broker-a", victim.directory / "log")
        before = tree(tmp_path, but=own[0])
        names = Names(topics=BAD, groups=BAD, brokers=BAD)
        for role, address in (("broker", victim.broker), ("namesrv", victim.namesrv)):
            requests = Requests(Random(f"{seed}/names/{role}"), served_codes(address), names=names)
            for _ in range(wanted // 2 // _AT_A_TIME):
                frames = [requests.next() for _ in range(_AT_A_TIME)]
                converse(address, b"".join(frame.wire for frame in frames if frame.readable))
                canary.sing()
        canary.check()
        with AdminClient(victim.namesrv) as admin:
            topics = admin.topics()
        assert victim.complaints() == []
        assert victim.stop() == 0
    assert [name for name in topics if not LEGAL.fullmatch(str(name))] == []
    after = tree(tmp_path, but=own[0])
    assert after.pop(str(own[1]))
    before.pop(str(own[1]))
    before.pop(str(victim.store / "endpoints.json"))
    assert after == before
    _require_legal(victim.store / "broker-a")
    tell(f"{wanted} requests, seed {seed}")


def _require_legal(store: Path) -> None:
    """Nothing that the broker keeps has a name that breaks the rules."""
    assert [path.name for path in (store / "consumequeue").iterdir() if not LEGAL.fullmatch(path.name)] == []
    for file, table in (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")):
        assert [name for name in _names(store / "config" / file, table) if not LEGAL.fullmatch(name)] == []
    offsets = _names(store / "config" / "consumerOffset.json", "offsetTable")
    assert [key for key in offsets if not all(map(LEGAL.fullmatch, key.split("@")))] == []


def _names(file: Path, table: str) -> list[str]:
    """The names in a table of the broker; none where it was never written."""
    return list(fastjson.loads(file.read_bytes())[table]) if file.exists() else []
