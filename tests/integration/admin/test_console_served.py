"""The console as it is served: beside REST, behind a sign-in, and more than once in a process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from rmqspark.admin.app import make_app
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.server import serving
from rmqspark.clock import SystemClock
from rmqspark.testing import LocalCluster, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

ADMIN, READ = "admin-token-of-the-tests", "read-token-of-the-tests"


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=1) as local:
        yield local


@contextmanager
def served(mq: LocalCluster, directory: Path, **settings: str) -> Iterator[httpx.Client]:
    config = AdminConfig(admin_port=0, action_log=str(directory / "actions.jsonl"), **settings)
    with start_blocking_portal() as portal:
        app = make_app(config, mq.namesrv, SystemClock(), {})
        with portal.wrap_async_context_manager(serving(app, config)) as url, httpx.Client(base_url=url) as client:
            yield client


def test_beside_rest(mq: LocalCluster, tmp_path: Path) -> None:
    """Pages are pages, what REST does not have is a problem, both with a policy of what may be loaded."""
    with served(mq, tmp_path) as client:
        page = client.get("/topics")
        assert (page.status_code, "<title>Topics · rmqspark</title>" in page.text) == (200, True)
        assert "'unsafe-inline'" in page.headers["content-security-policy"]
        assert client.get("/topics/nothing").status_code == 404
        missing = client.get("/api/v1/nothing")
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        assert missing.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert client.post("/api/v1/cluster").status_code == 405
        assert client.get("/healthz").json() == {"status": "ok"}


def test_again_in_the_same_process(mq: LocalCluster, tmp_path: Path) -> None:
    """With another application, and under a path."""
    for base_path in ("/rmq", ""):
        with served(mq, tmp_path, base_path=base_path) as client:
            page = client.get("/")
            assert page.status_code == 200
            assert f'"href":"{base_path}/topics"' in page.text.replace("&quot;", '"')


def test_signing_in(mq: LocalCluster, tmp_path: Path) -> None:
    """Who is not signed in is asked to, comes back to where they wanted to go, and is out after signing out."""
    with served(mq, tmp_path, admin_token=ADMIN, read_token=READ) as client:
        asked = client.get("/topics?q=a")
        assert asked.headers["location"] == "/login?next=%2Ftopics%3Fq%3Da"
        assert client.get("/login").status_code == 200
        wrong = client.post("/login", data={"token": "wrong", "next": "/topics?q=a"})
        assert wrong.headers["location"] == "/login?next=%2Ftopics%3Fq%3Da&failed=1"
        right = client.post("/login", data={"token": READ, "next": "/topics?q=a"})
        assert (right.status_code, right.headers["location"]) == (303, "/topics?q=a")
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/topics?q=a").status_code == 200
        client.get("/logout")
        assert client.get("/topics").status_code == 307
