"""What the interop tests share: one JVM, one cluster of ours, one stock cluster, each started when first asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode adds no directory by itself

from jvm import Jvm, started_jvm
from ours import Up, up
from rocketmq import RocketMQ, fetch_jars

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> RocketMQ:
    """RocketMQ's jars and a home directory for its programs."""
    return RocketMQ(fetch_jars(), tmp_path_factory.mktemp("rocketmq"))


@pytest.fixture(scope="session")
def jvm(rocketmq: RocketMQ) -> Iterator[Jvm]:
    """RocketMQ's classes."""
    with started_jvm(rocketmq) as running:
        yield running


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Our name server and broker."""
    with up(tmp_path_factory.mktemp("ours")) as running:
        yield running


@pytest.fixture(scope="session")
def stock_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the stock cluster's broker."""
    return tmp_path_factory.mktemp("stock") / "store"


@pytest.fixture(scope="session")
def stock(rocketmq: RocketMQ, stock_store: Path) -> Iterator[str]:
    """A stock name server and broker; the name server's address."""
    with rocketmq.name_server() as namesrv, rocketmq.broker(stock_store, namesrv) as broker:
        yield namesrv
        broker.kill()  # in order it takes twelve seconds
