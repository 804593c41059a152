"""`rmq store check` on the files of real brokers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rmqspark import Message, Producer

pytestmark = pytest.mark.integration
QUEUE = "consumequeue/orders/0/00000000000000000000"


def fill(namesrv: str) -> None:
    with Producer(namesrv) as producer:
        for number in range(20):
            producer.send(Message("orders", b"%d" % number, tags="t", keys=[f"k{number}"]), queue=number % 2)
        producer.send_batch([Message("orders", b"batch")] * 50, queue=0)


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_store_in_use_and_after_a_stop_is_sound(processes: Any, tmp_path: Path) -> None:
    """The same figures while the broker runs, after a kill, and after an orderly stop; nothing is written."""
    server = processes.up()
    fill(server.namesrv)
    running = processes.run("store", "check", "store")
    assert (running.code, running.err) == (0, "")
    assert "in use: the tail may have moved" in running.out
    server.end(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("store/**/*")}
    killed = processes.run("store", "check", "store")
    assert (killed.code, "not closed in order" in killed.out) == (0, True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("store/**/*")} == before
    processes.up().end(signal.SIGTERM)
    (store,) = processes.run("store", "check", "store", "--json").json["stores"]
    assert store["findings"] == []
    assert (store["path"], store["wasClosed"], store["open"]) == ("store/broker-a", True, False)
    orders = [queue for queue in store["queues"] if queue["topic"] == "orders"]
    assert [(queue["queueId"], queue["minOffset"], queue["maxOffset"]) for queue in orders] == [(0, 0, 60), (1, 0, 10)]
    assert all(0 < queue["firstTimestamp"] <= queue["lastTimestamp"] for queue in orders)
    assert store["records"] == 70
    assert sum(file["entries"] for file in store["index"]) == 90
    assert "topics.json" in store["tables"]


def test_what_is_broken_is_named_and_told_by_the_exit_code(processes: Any, tmp_path: Path) -> None:
    """One of two stores is broken: the file, the byte and what is wrong there are said, and the other is described."""
    server = processes.up("--brokers", "2")
    fill_both(server.namesrv)
    server.end(signal.SIGTERM)
    flip(tmp_path / "store" / "broker-b" / QUEUE, 27)
    outcome = processes.run("store", "check", "store")
    assert outcome.code == 1
    assert outcome.out.count("Sound.") == outcome.out.count("Broken.") == 1
    assert f"BROKEN  wrong-entries  {QUEUE} at byte 20: 1 from queue offset 1 on: says" in outcome.out
    document = processes.run("store", "check", "store/broker-b", "--json").json
    assert (document["broken"], document["stores"][0]["counts"]) == (True, {"wrong-entries": 1})


def fill_both(namesrv: str) -> None:
    with Producer(namesrv) as producer:
        for _ in range(64):
            producer.send(Message("orders", b"x"))


@pytest.mark.parametrize("words", [("nowhere",), ("empty",), ("file",)])
def test_what_cannot_be_read_has_an_exit_code_of_its_own(words: tuple[str], processes: Any, tmp_path: Path) -> None:
    """Scripts tell "broken" from "not looked at"."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    outcome = processes.run("store", "check", *words)
    assert (outcome.code, "Traceback" in outcome.err) == (3, False)
    assert words[0] in outcome.err


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["table", "json"])
def test_a_full_disk_under_the_report_breaks_no_store(processes: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    """`rmq store check DIR >> log`: that it cannot be told is not that something is broken."""
    server = processes.up()
    fill(server.namesrv)
    server.end(signal.SIGTERM)
    checked = processes.run("store", "check", "store", *words, output=Path("/dev/full"))
    assert (checked.code, "The disk is full" in checked.err) == (3, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_of_somebody_else_is_not_called_sound(processes: Any, tmp_path: Path) -> None:
    """Files that may not be read are an error, with the words of the system."""
    server = processes.up()
    fill(server.namesrv)
    server.end(signal.SIGTERM)
    (tmp_path / "store" / "broker-a" / QUEUE).chmod(0)
    outcome = processes.run("store", "check", "store")
    assert (outcome.code, "Permission denied" in outcome.err) == (3, True)
