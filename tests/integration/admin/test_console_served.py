"""The console as it is served: beside REST, under a path, behind a sign-in."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from websockets.sync.client import connect

from ...browser.console_process import READ
from ...browser.consoles import console

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

FORGED = {"level": "error", "message": "forged"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """Of one that has tokens, and is told that a proxy has it under /rmq."""
    with console("empty", "--tokens", "--base-path", "/rmq") as served, httpx.Client(base_url=served.url) as client:
        yield client


def signed_in(client: httpx.Client, target: str) -> httpx.Response:
    client.cookies.clear()
    return client.post("/login", data={"token": READ, "next": target})


def test_signing_in_and_out(client: httpx.Client) -> None:
    """Who is not signed in is asked to, comes to where they wanted to go, and is out after signing out."""
    client.cookies.clear()
    asked = client.get("/topics?q=a")
    assert (asked.status_code, asked.headers["location"]) == (307, "/rmq/login?next=%2Ftopics%3Fq%3Da")
    assert client.get("/login").status_code == 200
    wrong = client.post("/login", data={"token": "wrong", "next": "/topics?q=a"})
    assert wrong.headers["location"] == "/rmq/login?next=%2Ftopics%3Fq%3Da&failed=1"
    right = signed_in(client, "/topics?q=a")
    assert (right.status_code, right.headers["location"]) == (303, "/rmq/topics?q=a")
    cookie = right.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/rmq"} <= {each.strip() for each in cookie.split(";")}
    assert "secure" not in cookie
    assert client.get("/topics?q=a").status_code == 200
    assert "set-cookie" in client.get("/logout").headers
    assert client.get("/topics").status_code == 307
    assert "set-cookie" not in client.get("/logout").headers  # a link elsewhere, with which no cookie comes


def test_a_proxy_that_encrypts_gets_a_cookie_that_is_not_sent_without(client: httpx.Client) -> None:
    client.cookies.clear()
    origin = f"https://{client.base_url.netloc.decode()}"
    answer = client.post("/login", data={"token": READ}, headers={"Origin": origin})
    assert "secure" in answer.headers["set-cookie"].lower()


def test_pages_that_nobody_fetches_have_an_end() -> None:
    """Each is kept for a while, and takes no token; who is signed in comes in all the same (S8)."""
    with (
        console("empty", "--tokens") as served,
        httpx.Client(base_url=served.url) as member,
        httpx.Client(base_url=served.url) as stranger,
    ):
        signed_in(member, "/")
        answers = [stranger.get("/topics") for _ in range(130)]
        assert {answer.status_code for answer in answers[:50]} == {307}
        assert (answers[-1].status_code, answers[-1].headers["retry-after"]) == (503, "60")
        assert stranger.get("/healthz").status_code == 200
        assert member.get("/topics").status_code == 200


def test_a_browser_writes_nothing_into_the_log(tmp_path: Path) -> None:
    """Whoever reaches the page to sign in is one, and would fill it."""
    log = tmp_path / "log"
    with log.open("w") as errors, console("empty", "--tokens", errors=errors) as served:
        (page,) = re.findall(r"client_id['\"]?: ?['\"]([0-9a-f-]{36})", httpx.get(f"{served.url}/login").text)
        names = {"client_id": page, "tab_id": "t", "document_id": "d"}
        address = f"{served.url.replace('http', 'ws')}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        with connect(address) as browser:
            for number, words in enumerate(
                ("40", f"420{json.dumps(['handshake', names])}", f"421{json.dumps(['log', {**names, **FORGED}])}")
            ):
                browser.send(words)
                while not str(browser.recv()).startswith(("40", "430[true]", "431")[number]):  # until it is heard
                    pass
    assert "forged" not in log.read_text()


def test_beside_rest(client: httpx.Client) -> None:
    """Pages are pages, what REST does not have is a problem, both with a policy of what may be loaded."""
    signed_in(client, "/")
    page = client.get("/topics")
    assert (page.status_code, "<title>Topics · rmqspark</title>" in page.text) == (200, True)
    assert "'unsafe-inline'" in page.headers["content-security-policy"]
    assert client.get("/topics/nothing").status_code == 404
    assert client.get("/no/such/page").status_code == 404
    assert "No broker has heard of a query" in client.get("/spark/bills%2F2026").text
    missing = client.get("/api/v1/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert missing.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert client.post("/api/v1/cluster").status_code == 405
    assert client.get("/healthz").json() == {"status": "ok"}


def test_with_and_without_the_path(client: httpx.Client) -> None:
    """A proxy may take it away or leave it; links are under it either way."""
    signed_in(client, "/")
    with httpx.Client(base_url=str(client.base_url).removesuffix("/rmq/"), cookies=dict(client.cookies)) as stripped:
        for page in (client.get("/topics"), stripped.get("/topics")):
            assert page.status_code == 200
            assert '"href":"/rmq/groups"' in page.text
            assert '"href":"/groups"' not in page.text


def test_what_was_asked_for_is_text(client: httpx.Client) -> None:
    """In an address, a filter, or a header: nothing of it comes back as a part of the page."""
    signed_in(client, "/")
    canary = "</script><script>alert(1)</script>"
    for address in (f"/topics?q={canary}", f"/messages/{quote(canary, safe='')}", f"/{quote(canary, safe='')}"):
        page = client.get(address, headers={"X-Forwarded-Prefix": canary})
        assert page.status_code in (200, 404)
        assert "alert(1)</script>" not in page.text
