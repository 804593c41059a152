"""REST over a real cluster, asked by a real client."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI

from rmqspark.admin.app import make_app
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.server import serving
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.settings import describe
from rmqspark.store.config import StoreConfig
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.testing import LocalCluster

KNOWN = {info.name: info for kind in (BrokerConfig, StoreConfig) for info in describe(kind)}
ADMIN_TOKEN, READ_TOKEN = "an-admin-token-of-tests", "a-read-token-of-tests"


@dataclass(frozen=True)
class Rest:
    """An application that is served, and a client of it."""

    app: FastAPI
    url: str
    client: httpx.Client

    def get(self, path: str, **query: Any) -> Any:
        """The document of a path under /api/v1 that is answered with 200."""
        answer = self.client.get(f"/api/v1{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pages(self, path: str, **query: Any) -> list[Any]:
        """The items of all pages."""
        items: list[Any] = []
        page = self.get(path, **query)
        while page["next"] is not None:
            items += page["items"]
            page = self.get(path, **query, cursor=page["next"])
        return items + page["items"]

    def problem(self, method: str, path: str, status: int, code: str, **asked: Any) -> Any:
        """The problem that a request is answered with: each has a detail that says what is wrong."""
        answer = self.client.request(method, path, **asked)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        document = answer.json()
        assert document["status"] == status
        assert document["code"] == code
        assert document["type"].endswith(code)
        assert document["detail"]
        assert {"title", "instance", "hint"} <= document.keys()
        return document


@contextmanager
def served(namesrv: str, directory: Path, **settings: Any) -> Iterator[Rest]:
    """REST on a free port, in a thread of its own. Without the console, of which a process has one."""
    config = AdminConfig(admin_port=0, action_log=str(directory / "actions.jsonl"), console=False, **settings)
    app = make_app(config, namesrv, SystemClock(), KNOWN)
    urls: list[str] = []
    serves = threading.Event()
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        async with serving(app, config) as url:
            urls.append(url)
            serves.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert serves.wait(60)
        with httpx.Client(base_url=urls[0], timeout=60) as client:
            yield Rest(app, urls[0], client)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(60)
        loop.close()


@pytest.fixture(scope="module")
def rmq(mq: LocalCluster) -> Iterator[Rmq]:
    """What tests look at the cluster with."""
    with Rmq(mq) as connected:
        yield connected


@pytest.fixture(scope="module")
def rest(mq: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    """Without tokens, as on a laptop."""
    with served(mq.namesrv, tmp_path_factory.mktemp("admin")) as connected:
        yield connected


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")[:100]
