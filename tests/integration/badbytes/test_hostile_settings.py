"""Every setting there is, and those that RocketMQ was attacked by, with values nobody should set: over the wire, and by
REST (F2; CVE-2023-33246, CVE-2023-37582)."""

from __future__ import annotations

import sys
from itertools import cycle, islice
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.admin.config import AdminConfig
from rmqspark.broker.config import BrokerConfig
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.limits import Limits
from rmqspark.settings import camel_case, describe
from rmqspark.store.config import StoreConfig
from rmqspark.testing.fuzz.canary import Canary
from rmqspark.testing.fuzz.victim import Victim

from ..admin.conftest import served
from .test_names_from_outside import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="rmq up tells of itself in /proc"),
]

KINDS: Final = (BrokerConfig, StoreConfig, Limits, NamesrvConfig, AdminConfig)
OURS: Final = {info.name: info for kind in KINDS for info in describe(kind)}
LIVE: Final = {name for name, info in OURS.items() if info.live}
ROCKETMQS: Final = (
    *("rocketmqHome", "filterServerNums", "configStorePath", "kvConfigPath", "brokerConfigPath", "configBlackList"),
    *("storePathRootDir", "storePathCommitLog", "storePathDLedgerCommitLog", "productEnvName", "controllerAddr"),
    *("configStorePathName", "aclFile", "messageStorePlugIn", "abortFile", "storeCheckpoint", "__class__", "=", " "),
)
VALUES: Final = (
    *("../../x", "/etc/passwd", "$(touch x)", "a;touch x", "`x`", "-1", "0", str(2**63), "1e9", "NaN", "true", ""),
    *("9" * 5_000, "{}", "${jndi:ldap://127.0.0.1:1/x}", "http://127.0.0.1:1/", "java.lang.Runtime", "\u2603", "\0"),
    *("1\rlistenPort=1", "1\u2028listenPort=1", "1\x85listenPort=1", "\\u000alistenPort=1", "!x"),
)
PATIENCE_MS: Final = 60_000


def read(connection: BlockingConnection, code: RequestCode) -> dict[str, str]:
    text = str(connection.call(code, timeout_ms=PATIENCE_MS).raise_for_code().body, "utf-8")
    return dict(line.split("=", 1) for line in text.splitlines())


def changed(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    assert before.keys() == after.keys()
    return {name: value for name, value in after.items() if before[name] != value}


def may_be(name: str, text: str) -> bool:
    """Whether a live setting can be that."""
    info = OURS[name]
    if info.kind is int:
        return text.isdecimal() and info.at_least <= int(text) <= info.at_most
    return text in ("true", "false") if info.kind is bool else all(hour.isdecimal() for hour in text.split(";"))


def test_no_setting_takes_what_it_should_not(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """What is not declared to be harmless is refused whatever it is set to; what is, takes what it can be. Nothing
    outside the store changes, and the servers go on as before."""
    (tmp_path / "x").write_text("untouched")
    some = by_turns(amount(2, len(VALUES)))
    spellings = {name: (name, camel_case(name)) for name in OURS} | {name: (name,) for name in ROCKETMQS}
    with Victim(tmp_path / "victim") as victim, Canary(victim.namesrv) as canary:
        own = victim.store / "broker-a"
        before_tree = tree(tmp_path, but=own)
        refused = 0
        for address, get, update, live in (
            (victim.broker, RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG, LIVE),
            (victim.namesrv, RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, set[str]()),
        ):
            connection = BlockingConnection(address)
            before = read(connection, get)
            for name, spelled in spellings.items():
                for line in (f"{each}={value}" for each in spelled for value in next(some)):
                    answer = connection.call(update, None, line.encode("utf-8", "replace"), timeout_ms=PATIENCE_MS)
                    assert answer.code == ResponseCode.SUCCESS or answer.remark, line
                    refused += answer.code != ResponseCode.SUCCESS
                    assert name in live or answer.code != ResponseCode.SUCCESS, line
            after = changed(before, read(connection, get))
            assert {name for name in OURS if camel_case(name) in after} <= live
            assert all(may_be(name, after[camel_case(name)]) for name in live if camel_case(name) in after)
            connection.close()
        canary.sing()
        names = Random(seed).sample([*OURS, *ROCKETMQS], amount(40, len(spellings)))
        refused += _by_rest(victim, tmp_path, names, by_turns(amount(2, 5)))
        canary.check()
        assert victim.complaints() == []
        after_tree = tree(tmp_path, but=own)
    for record in ("actions.jsonl", "actions.jsonl.lock"):
        after_tree.pop(str(tmp_path / "rest" / record))
    assert after_tree.pop(str(victim.directory / "log"))
    before_tree.pop(str(victim.directory / "log"))
    assert after_tree == before_tree
    tell(f"{len(spellings)} settings, seed {seed}: {refused:,} values refused")


def by_turns(count: int) -> Iterator[list[str]]:
    """So many of the values each time, so that all get their turn."""
    values = cycle(VALUES)
    while True:
        yield list(islice(values, count))


def _by_rest(victim: Victim, directory: Path, names: list[str], some: Iterator[list[str]]) -> int:
    """How many were refused. Each is recorded, and so takes the disk a while."""
    (directory / "rest").mkdir()
    refused = 0
    with served(victim.namesrv, directory / "rest") as rest:
        before = {each["setting"]: each["value"] for each in rest.get("/config/broker-a")["items"]}
        for name in names:
            for value in next(some):
                asked = {"settings": {name: value}}
                answer = rest.client.patch("/api/v1/config/broker-a", json=asked)
                assert answer.status_code < 500, answer.text
                assert name in LIVE or answer.status_code in (400, 403, 422), answer.text
                refused += answer.status_code != 200
        after = {each["setting"]: each["value"] for each in rest.get("/config/broker-a")["items"]}
    assert {name for name, value in after.items() if before[name] != value} <= LIVE
    return refused
