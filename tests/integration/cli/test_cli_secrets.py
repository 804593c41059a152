"""What `rmq up` knows of secrets, and what it leaves behind: said nowhere, and readable by nobody else."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...certificates import Authority
    from .conftest import Processes

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="command lines are read from /proc"),
]

SECRETS = {
    "root": "5ecret-of-root",
    "inner": "5ecret-of-servers",
    "ann": "5ecret-of-ann",
    "guessed": "5ecret-that-was-guessed",
    "key": "5ecret-of-the-key",
    "admin": "5ecret-token-of-admins",
    "read": "5ecret-token-of-readers",
}
CONF = f"""
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser={{"username":"root","password":"{SECRETS["root"]}"}}
innerClientAuthenticationCredentials={{"accessKey":"servers","secretKey":"{SECRETS["inner"]}"}}
tlsEnable=true
"""
WRONG = (
    {"conf": f'initAuthenticationUser={{"username":"root","password":"{SECRETS["root"]}"'},
    {"conf": f'authenticationEnabled=true\ninitAuthenticationUser={{"password":"{SECRETS["root"]}"}}'},
    {"conf": f'innerClientAuthenticationCredentials=["{SECRETS["inner"]}"]'},
    {"RMQ_INIT_AUTHENTICATION_USER": SECRETS["root"], "conf": "authenticationEnabled=true"},
    {"RMQ_ADMIN_TOKEN": SECRETS["admin"] + "\n"},
    {"RMQ_READ_TOKEN": SECRETS["read"]},
    {"RMQ_ADMIN_TOKEN": SECRETS["admin"], "RMQ_READ_TOKEN": SECRETS["admin"]},
    {"RMQ_TLS_SERVER_KEY_PASSWORD": SECRETS["guessed"], "certified": "true"},
)


@pytest.fixture
def open_handed() -> Iterator[None]:
    """Whoever starts the servers lets everybody read what they write."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_handed")
def test_no_secret_leaves_the_servers(processes: Processes, authority: Authority) -> None:
    """Not in logs at their most talkative, in listings, answers of REST, errors, command lines, or files but those of
    the users (F7); and all files are their owner's alone (S20)."""
    made = authority.issue(password=SECRETS["key"])
    (processes.directory / "broker.conf").write_text(CONF)
    (processes.directory / "ann.txt").write_text(SECRETS["ann"])
    trusted = {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_TRUST_CERT_PATH": authority.path}
    root = {**trusted, "RMQ_ACCESS_KEY": "root", "RMQ_SECRET_KEY": SECRETS["root"]}
    server = processes.serve(
        *("up", "--store", "store", "--namesrv-port", "0", "--broker-port", "0", "--admin-port", "0"),
        *("-c", "broker.conf", "--tls-server-mode", "enforcing", "--auto-create-topic-enable", "false"),
        *("--tls-server-cert-path", made.cert_path, "--tls-server-key-path", made.key_path),
        RMQ_TLS_SERVER_KEY_PASSWORD=SECRETS["key"],
        RMQ_ADMIN_TOKEN=SECRETS["admin"],
        RMQ_READ_TOKEN=SECRETS["read"],
        RMQ_LOG_LEVEL="debug",
        **root,
    )
    namesrv = server.namesrv
    shown = server.greeting

    def rmq(*words: str, **variables: str) -> None:
        nonlocal shown
        outcome = processes.run(*words, **{"RMQ_NAMESRV": namesrv, **root, **variables})
        shown += outcome.out + outcome.err

    rmq("user", "create", "ann", "--password-file", "ann.txt")
    rmq("topic", "create", "orders", "--queues", "1")
    assert "orders" in shown
    rmq("send", "orders", "hello", RMQ_ACCESS_KEY="ann", RMQ_SECRET_KEY=SECRETS["ann"])
    rmq("topic", "list", RMQ_ACCESS_KEY="ann", RMQ_SECRET_KEY=SECRETS["guessed"])
    for words in ("user list --json", "config get", "doctor --json"):
        rmq(*words.split())
    shown += "".join(_asked(server.endpoints["admin"]))
    for each in _pids(server.endpoints["pids"]):
        shown += Path(f"/proc/{each}/cmdline").read_text()
    files = {path: path.read_bytes() for path in (processes.directory / "store").rglob("*") if path.is_file()}
    own = [processes.directory / "store", *(processes.directory / "store").rglob("*")]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in own}
    assert len(modes) > 10
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert server.end(signal.SIGTERM) == 0
    shown += processes.errors
    assert "refused" in shown
    assert "***" in shown
    assert [name for name, secret in SECRETS.items() if secret in shown] == []
    leaks = {path.name for path, content in files.items() for secret in SECRETS.values() if secret.encode() in content}
    assert leaks == {"users.json", "users.json.bak"}


def _pids(pids: dict[str, int | list[int]]) -> list[int]:
    return [pid for each in pids.values() for pid in (each if isinstance(each, list) else [each])]


def _asked(url: str) -> Iterator[str]:
    """All that REST and console tell, with every right and with none."""
    with httpx.Client(base_url=url, timeout=60) as client:
        described = client.get("/openapi.json").text
        yield described
        paths = [path for path, methods in json.loads(described)["paths"].items() if "get" in methods]
        assert len(paths) > 20
        known = {"{broker}": "broker-a", "{topic}": "orders", "{group}": "billing"}
        for path in (*paths, "/", "/login", "/brokers/broker-a", "/docs"):
            for name, value in known.items():
                path = path.replace(name, value)
            for token in (SECRETS["admin"], SECRETS["guessed"]):
                answer = client.get(path, headers={"Authorization": f"Bearer {token}"})
                yield answer.text + str(answer.headers)
        signed_in = client.post("/login", data={"token": SECRETS["read"]})
        yield signed_in.text + str(signed_in.headers)
        yield client.get("/brokers/broker-a").text


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_secret_is_said_without_it(
    processes: Processes, authority: Authority, wrong: dict[str, str]
) -> None:
    """Whoever reads the error may be somebody else."""
    variables = {name: value for name, value in wrong.items() if name.startswith("RMQ_")}
    words = ["up", "--store", "store", "--namesrv-port", "0", "--broker-port", "0", "--admin-port", "0"]
    if "conf" in wrong:
        (processes.directory / "broker.conf").write_text(wrong["conf"])
        words += ["-c", "broker.conf"]
    if "certified" in wrong:
        made = authority.issue(password=SECRETS["key"])
        words += ["--tls-server-cert-path", made.cert_path, "--tls-server-key-path", made.key_path]
    outcome = processes.run(*words, **variables)
    assert outcome.code != 0
    assert "Error: " in outcome.err
    assert not any(secret in outcome.err + outcome.out for secret in SECRETS.values())
