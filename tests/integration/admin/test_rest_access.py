"""Who may ask, and from where. Every route is tried, so that a new one cannot be forgotten."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI

from rmqspark.admin.config import AdminConfig
from rmqspark.admin.gate import MOST_BODY_BYTES
from rmqspark.admin.server import serving
from rmqspark.errors import InvalidArgument, RmqError

from .conftest import ADMIN_TOKEN, READ_TOKEN, Rest, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

FREE = {"/healthz", "/readyz"}


@pytest.fixture(scope="module")
def guarded(mq: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    tokens = {"admin_token": ADMIN_TOKEN, "read_token": READ_TOKEN}
    with served(mq.namesrv, tmp_path_factory.mktemp("guarded"), **tokens) as rest:
        yield rest


def test_an_address_that_cannot_be_had_is_no_port_in_use() -> None:
    """Whoever names one that is another machine's is told what is wrong with it, as of brokers."""

    async def serve() -> None:
        elsewhere = AdminConfig(bind_address="203.0.113.1", admin_port=0, insecure=True)
        async with serving(FastAPI(), elsewhere):
            pass

    with pytest.raises(InvalidArgument, match=r"Cannot listen on 203\.0\.113\.1:0: Cannot assign"):
        asyncio.run(serve())


def test_an_application_that_does_not_start_is_an_error() -> None:
    """As others are, of which `rmq up` says that REST and console are not there, and goes on."""

    @asynccontextmanager
    async def failing(_: FastAPI) -> AsyncIterator[None]:
        raise OSError("no room")
        yield

    async def serve() -> None:
        async with serving(FastAPI(lifespan=failing), AdminConfig(admin_port=0)):
            pass

    with pytest.raises(RmqError, match="REST and console do not start"):
        asyncio.run(serve())


def requests(rest: Rest) -> list[tuple[str, str]]:
    """Every method and path that is described, its parameters filled in."""
    paths = rest.app.openapi()["paths"]
    return [
        (method.upper(), re.sub(r"\{\w+\}", "nothing", path)) for path, methods in paths.items() for method in methods
    ]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_without_a_token_nothing_but_health_is_told(guarded: Rest) -> None:
    asked = requests(guarded)
    assert len(asked) > 30
    for headers in ({}, bearer("wrong"), bearer(READ_TOKEN[:-1]), {"Authorization": f"Basic {READ_TOKEN}"}):
        for method, path in asked:
            if path in FREE:
                assert guarded.client.request(method, path, headers=headers).status_code == 200
                continue
            answer = guarded.client.request(method, path, headers=headers, json={})
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["code"] == "unauthorized"
            assert "RMQ_READ_TOKEN" in answer.json()["hint"]


def test_the_read_token_looks_and_changes_nothing(guarded: Rest) -> None:
    """Whatever is no GET is refused, before its document is looked at."""
    for method, path in requests(guarded):
        answer = guarded.client.request(method, path, headers=bearer(READ_TOKEN), json={})
        if method == "GET":
            assert answer.status_code not in (401, 403), (path, answer.text)
        else:
            assert answer.status_code == 403, (method, path, answer.text)
            assert answer.json()["code"] == "forbidden"
            assert "RMQ_ADMIN_TOKEN" in answer.json()["hint"]


def test_the_admin_token_may_do_both(guarded: Rest) -> None:
    made = guarded.client.post("/api/v1/topics", headers=bearer(ADMIN_TOKEN), json={"topic": "guarded"})
    assert made.status_code == 201
    recorded = guarded.client.get("/api/v1/audit", headers=bearer(ADMIN_TOKEN)).json()["items"]
    (action,) = [each for each in recorded if each["subject"] == "guarded"]
    assert (action["who"], action["action"]) == ("admin@127.0.0.1", "create topic")


def test_no_answer_holds_a_token(guarded: Rest) -> None:
    """Not in errors, not in the description, not in what was recorded (S6)."""
    for method, path in [*requests(guarded), ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/nothing")]:
        for token in (ADMIN_TOKEN, READ_TOKEN):
            answer = guarded.client.request(method, path, headers=bearer(token), json={})
            assert ADMIN_TOKEN not in answer.text + str(answer.headers)
            assert READ_TOKEN not in answer.text + str(answer.headers)
    assert ADMIN_TOKEN not in repr(guarded.app.state.config) + repr(guarded.app.state.desk)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[::1"])
def test_a_name_that_is_not_ours_is_refused(rest: Rest, host: str) -> None:
    """A page elsewhere whose name was made to mean this machine gets nothing (DNS rebinding, S16)."""
    answer = httpx.get(f"{rest.url}/healthz", headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert "ok" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:1"])
def test_names_of_this_machine_are_ours(rest: Rest, host: str) -> None:
    assert httpx.get(f"{rest.url}/healthz", headers={"Host": host}).status_code == 200


OTHERS = ["http://evil.example", "null", "http://localhost.evil.example", "http://[", "http://127.0.0.1:1", ""]


@pytest.mark.parametrize("origin", OTHERS)
def test_a_page_of_another_origin_may_not_ask(rest: Rest, origin: str) -> None:
    """Nor one of another server of this machine."""
    answer = rest.client.delete("/api/v1/topics/any", headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"


@pytest.mark.parametrize("origin", OTHERS)
def test_nor_open_a_websocket(rest: Rest, origin: str) -> None:
    """For which browsers ask nobody (S16)."""
    wanted = {"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = rest.client.get("/_nicegui_ws/socket.io/", headers={**wanted, "Sec-WebSocket-Key": "a" * 22 + "=="})
    assert answer.status_code == 403


def test_our_own_pages_may(rest: Rest) -> None:
    for origin in (rest.url, rest.url.upper()):
        assert rest.client.get("/api/v1/topics", headers={"Origin": origin}).status_code == 200


def test_a_body_beyond_the_limit_is_not_read(rest: Rest) -> None:
    """Whether its length is told or not."""
    large = b"x" * (MOST_BODY_BYTES + 1)
    told = rest.client.post("/api/v1/topics", content=large)
    assert (told.status_code, "rmq send" in told.json()["hint"]) == (413, True)

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield large[: MOST_BODY_BYTES // 32]

    untold = rest.client.post("/api/v1/topics", content=pieces())
    assert (untold.status_code, untold.json()["code"]) == (413, "request_entity_too_large")
    assert (untold.json()["detail"], untold.json()["hint"]) == (told.json()["detail"], told.json()["hint"])
    assert rest.client.get("/healthz").status_code == 200


def test_who_sends_all_before_it_reads_is_told_too(rest: Rest) -> None:
    """As Python's own HTTP client does, and those that are made of it: the answer is there, and not a reset."""
    large = b"x" * (8 * MOST_BODY_BYTES)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{rest.url}/api/v1/topics", large, timeout=60)
    assert (refused.value.code, json.load(refused.value)["status"]) == (413, 413)


def test_errors_are_described_as_they_come(rest: Rest) -> None:
    """Whoever has a client made of the description can read them."""
    refused = rest.client.post("/api/v1/topics", json={"topic": 1})
    kind, names = refused.headers["content-type"], set(refused.json())
    for methods in rest.app.openapi()["paths"].values():
        for operation in methods.values():
            assert {status for status in operation["responses"] if status[0] != "2"} == {"default"}
            content = operation["responses"]["default"]["content"]
            assert {each: set(told["schema"]["properties"]) for each, told in content.items()} == {kind: names}


def test_every_answer_has_the_headers_that_protect_a_browser(rest: Rest) -> None:
    for path in ("/healthz", "/api/v1/topics", "/nothing", "/docs"):
        headers = rest.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "referrer-policy" in headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "set-cookie" not in headers


def test_a_proxy_in_front_has_its_own_port(mq: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its name is told with --admin-hosts."""
    with served(mq.namesrv, tmp_path_factory.mktemp("proxied"), admin_hosts="queue.example") as rest:
        asked = {"Origin": "https://queue.example:8443"}
        assert rest.client.get("/api/v1/topics", headers=asked).status_code == 200
        assert rest.client.get("/api/v1/topics", headers={**asked, "Host": "queue.example"}).status_code == 200
        assert rest.client.get("/api/v1/topics", headers={"Origin": "http://localhost:8443"}).status_code == 403
