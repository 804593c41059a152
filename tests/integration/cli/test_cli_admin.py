"""REST and console as processes: beside `rmq up`, and alone as `rmq admin`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from websockets.sync.client import connect

from .conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

PORTS = ("--namesrv-port", "0", "--broker-port", "0")
TOKEN = "a-token-of-these-tests"


def up(processes: Any, *words: str, **variables: str) -> Any:
    return processes.serve("up", "--store", "store", *PORTS, *words, **variables)


def test_rmq_up_has_rest_beside_the_broker(processes: Any, tmp_path: Path) -> None:
    """It answers once endpoints.json is there, is started again when it dies, and ends with rmq up, even a killed
    one; what it did is on record in the store."""
    server = up(processes, "--admin-port", "0")
    url, pid = server.endpoints["admin"], server.endpoints["pids"]["admin"]
    assert url in server.greeting
    assert httpx.post(f"{url}/api/v1/topics", json={"topic": "made"}).status_code == 201
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: server.endpoints["pids"]["admin"] not in (pid, None), "another admin process")
    assert server.endpoints["admin"] == url
    again = server.endpoints["pids"]["admin"]
    (action,) = httpx.get(f"{url}/api/v1/audit").json()["items"]
    assert (action["subject"], action["outcome"]) == ("made", "done")
    assert (tmp_path / "store" / "admin" / "actions.jsonl").exists()
    server.end(signal.SIGKILL)
    wait_until(lambda: not _answers(url), "the end of the admin process")
    assert again != pid


def test_it_stops_with_rmq_up_in_good_order(processes: Any, tmp_path: Path) -> None:
    server = up(processes, "--admin-port", "0")
    url = server.endpoints["admin"]
    assert httpx.get(f"{url}/readyz").status_code == 200
    assert server.end(signal.SIGINT) == 0
    assert not _answers(url)
    assert "Traceback" not in processes.errors
    assert not (tmp_path / "store" / "endpoints.json").exists()


def test_a_queue_does_without_it(processes: Any) -> None:
    """With --no-admin; and where its port is taken, which is said, for a port that was asked for."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        server = up(processes, "--admin-port", port)
        assert server.endpoints["admin"] is None
        assert f"REST and console are not there: admin cannot start: Port {port} on 127.0.0.1 is in use" in (
            processes.errors
        )
        assert processes.run("send", "t", "x", "--namesrv", server.namesrv).code == 0
        server.end(signal.SIGTERM)
    server = up(processes, "--no-admin")
    assert server.endpoints["admin"] is None
    assert "console" not in server.greeting


def test_where_the_extra_is_missing_it_says_so(processes: Any, tmp_path: Path) -> None:
    """The queue comes up; rmq admin is an error that names the extra."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fastapi'] = None\n")
    server = up(processes, PYTHONPATH=str(tmp_path))
    assert server.endpoints["admin"] is None
    assert "pip install 'rmqspark[admin]'" in processes.errors
    refused = processes.run("admin", "--port", "0", PYTHONPATH=str(tmp_path))
    assert refused.code == 1
    assert "fastapi is not installed" in refused.err


def test_rmq_admin_asks_for_the_token_it_was_told(processes: Any, mq: LocalCluster) -> None:
    """By the environment, so that no list of processes shows it."""
    server = processes.serve("admin", "--port", "0", "--namesrv", mq.namesrv, RMQ_ADMIN_TOKEN=TOKEN)
    (url,) = re.findall(r"http://\S+:\d+", server.greeting)
    assert httpx.get(f"{url}/api/v1/topics").status_code == 401
    assert httpx.get(f"{url}/api/v1/topics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert server.end(signal.SIGTERM) == 0
    assert TOKEN not in server.greeting + processes.errors


def test_strangers_do_not_fill_the_log(processes: Any, mq: LocalCluster) -> None:
    """Whoever has no token can open WebSockets, and say there what no page would: each kind of that is told once, and
    in lines of the log, in which nobody's words are a line (S18)."""
    server = processes.serve("admin", "--port", "0", "--namesrv", mq.namesrv, RMQ_ADMIN_TOKEN=TOKEN)
    (url,) = re.findall(r"http://\S+:\d+", server.greeting)
    sockets = f"{url}/_nicegui_ws/socket.io/?EIO=4&transport="
    forged = quote('\n{"event": "forged"}\x1b[2J')
    assert httpx.get(f"{sockets}polling&sid={forged}").status_code == 400
    with connect(f"{sockets.replace('http', 'ws', 1)}websocket") as browser:
        for _ in range(20):
            browser.send('42["event"')  # no JSON
            browser.send("4x")  # no kind of packet
        browser.send("40")
        while not str(browser.recv()).startswith("40"):  # until all is heard
            pass
    logged = [json.loads(line) for line in processes.errors.splitlines() if not line.startswith("rmq admin")]
    assert "Invalid session" in processes.errors
    assert not [entry for entry in logged if entry["event"] == "forged"]
    assert sum("exception" in entry for entry in logged) == 2


def test_a_file_for_brokers_says_which_cluster_it_is(processes: Any, mq: LocalCluster, tmp_path: Path) -> None:
    """It was looked for on this machine, where another may run; of servers apart the file is often one."""
    file = tmp_path / "broker.conf"
    file.write_text(f"namesrvAddr={mq.namesrv}\nbrokerName=broker-a\nlistenPort=10911\n")
    server = processes.serve("admin", "--port", "0", "-c", str(file), NAMESRV_ADDR="127.0.0.1:1")
    (url,) = re.findall(r"http://\S+:\d+", server.greeting)
    assert httpx.get(f"{url}/readyz").json() == {"status": "ok", "brokers": ["broker-a"]}


@pytest.mark.parametrize(
    ("words", "story"),
    [
        (("--host", "0.0.0.0"), "everybody in"),
        (("--host", "0.0.0.0", "--admin-token", "short"), "no safe token"),
        (("--port", "70000"), "65535"),
        (("--base-path", "x"), "base_path"),
    ],
)
def test_what_would_let_everybody_in_does_not_start(processes: Any, words: tuple[str, ...], story: str) -> None:
    refused = processes.run("admin", *words)
    assert refused.code == 2
    assert story in refused.err


def test_a_port_in_use_is_named_with_its_flag(processes: Any, mq: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = processes.run("admin", "--port", str(taken.getsockname()[1]), "--namesrv", mq.namesrv)
    assert refused.code == 1
    assert "--port" in refused.err


def test_logs_are_json_and_tell_no_token(processes: Any, mq: LocalCluster) -> None:
    server = processes.serve("admin", "--port", "0", "--namesrv", mq.namesrv, RMQ_ADMIN_TOKEN=TOKEN)
    (url,) = re.findall(r"http://\S+:\d+", server.greeting)
    for token in (TOKEN, "wrong"):
        httpx.get(f"{url}/api/v1/topics?limit=x&token={token}", headers={"Authorization": f"Bearer {token}"})
    server.end(signal.SIGTERM)
    lines = [line for line in processes.errors.splitlines() if line.startswith("{")]
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert TOKEN not in processes.errors


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False
