"""One of two brokers hangs, stopped as a whole: what the other knows is listed everywhere, and what is not is said.

All is asked at once, for each question waits as long as a broker is waited for.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.admin.access import Role
from rmqspark.admin.console.histories import Histories
from rmqspark.admin.console.nodes import texts
from rmqspark.admin.console.pages import dead_letters, groups, overview, spark, topic, transactions
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.reads.overview import overview as read_overview
from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.codes import RequestCode

from ..admin.conftest import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqspark.admin.console.nodes import Node
    from rmqspark.admin.desk import Desk

    from .conftest import Outcome, Processes

pytestmark = pytest.mark.integration

A, B = "broker-a", "broker-b"
MESSAGES = 16  # in each topic, four in a queue
PARTIAL = "Partial: broker-b does not answer, so what it knows is left out: "
LISTINGS = {
    "both": ("topic", "list", "--json"),
    "billing": ("group", "list", "--json"),
    "letters": ("dlq", "list", "--json"),
    "described": ("topic", "describe", "both"),
    "theirs": ("topic", "describe", "theirs"),
    "checked": ("check", "dlq", "--warn", "100", "--crit", "200"),
    "deleted": ("topic", "delete", "both", "--yes"),
}
PATHS = (
    "/topics",
    "/topics/both",
    "/topics/both/queues",
    "/groups",
    "/groups/billing/offsets",
    "/dlq",
    "/transactions",
)


def fill(namesrv: str) -> None:
    """A topic on both brokers and one on the second alone; a group that is behind, and its dead letters."""
    with AdminClient(namesrv) as admin, Producer(namesrv, group="p") as producer:
        admin.create_topic("both", 2)
        admin.create_topic("theirs", 4, brokers=[B])
        admin.create_topic("%DLQ%billing", 2)
        for name in ("both", "theirs", "%DLQ%billing"):
            for queue in admin.queues(name):
                for _ in range(4):
                    producer.send(Message(name, b"x"), queue=queue)
    with ClusterClient(namesrv) as cluster:
        for broker in (cluster.broker(A), cluster.broker(B)):
            group = SubscriptionGroupConfig("billing").encode()
            broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)
            for queue in (0, 1):
                broker.commit_offset("billing", "both", queue, 1)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def pages(desk: Desk) -> dict[str, Callable[[], Node]]:
    """What the console shows at each address, as its handlers read and show it."""
    nobody: Any = None
    watch: Any = type("Watch", (), {"histories": Histories(), "groups": None, "silent": {}})()
    sessions: Any = type("Sessions", (), {"role": lambda self, cookie: Role.READ})()
    visit = Visit(desk, watch, sessions, None, "1.2.3.4", "http://h", "", "/x", {"topic": "both"}, {}, Preferences())
    frame: Any = type("Frame", (), {"visit": visit})()
    return {
        "/": lambda: overview.show(visit, read_overview(visit.cluster)),
        "/topics/both": lambda: topic.show(frame, topic._read(visit.cluster, "both")),
        "/groups": lambda: groups.show(visit, groups._read(visit), nobody),
        "/dlq": lambda: dead_letters.show(visit, dead_letters._read(visit)),
        "/transactions": lambda: transactions.show(frame, transactions._read(visit), nobody),
        "/spark": lambda: spark.show(visit, spark._read(visit), nobody),
    }


def test_a_broker_that_hangs_hides_nothing_of_the_other(processes: Processes, tmp_path: Path) -> None:
    """Command line, REST and console give what they know, name who is silent, and change nothing by halves."""
    server = processes.up("--brokers", "2")
    fill(server.namesrv)
    run = partial(processes.run, RMQ_NAMESRV=server.namesrv)
    with ExitStack() as stack:
        rest = stack.enter_context(served(server.namesrv, tmp_path))
        stack.enter_context(stopped(server.endpoints["pids"]["brokers"][1]))
        pool = stack.enter_context(ThreadPoolExecutor(32))
        ran = {name: pool.submit(run, *words) for name, words in LISTINGS.items()}
        got = {path: pool.submit(rest.get, path) for path in PATHS}
        shown = {path: pool.submit(show) for path, show in pages(rest.app.state.desk).items()}
        refused = pool.submit(rest.client.delete, "/api/v1/topics/both")
        check_listings({name: each.result() for name, each in ran.items()})
        check_documents({path: each.result() for path, each in got.items()})
        assert refused.result().status_code == 504
        assert [path for path, each in shown.items() if PARTIAL not in texts(each.result())] == []
        assert f"Dead letters {2 * 4} waiting" in texts(shown["/"].result())
    (whole,) = [each for each in run("topic", "list", "--json").json if each["topic"] == "both"]
    assert (whole["messages"], whole["silent"]) == (MESSAGES, {})


def check_listings(ran: dict[str, Outcome]) -> None:
    for name in ("both", "billing", "letters", "described"):
        assert ran[name].code == 0
        assert ran[name].err.startswith(PARTIAL)
        assert ran[name].err.count(PARTIAL) == 1
    both, theirs = (next(each for each in ran["both"].json if each["topic"] == name) for name in ("both", "theirs"))
    assert (both["messages"], both["brokers"], list(both["silent"])) == (MESSAGES // 2, 2, [B])
    assert (theirs["messages"], theirs["queues"], theirs["type"], theirs["brokers"]) == (None, None, None, 1)
    (billing,) = [each for each in ran["billing"].json if each["group"] == "billing"]
    assert (billing["lag"], list(billing["silent"])) == (2 * 3, [B])
    (letters,) = ran["letters"].json
    assert (letters["count"], list(letters["silent"])) == (2 * 4, [B])
    assert "8 messages; unknown on broker-b" in ran["described"].out
    assert (ran["theirs"].code, PARTIAL in ran["theirs"].err) == (1, False)
    assert "'broker-b' may know more" in ran["theirs"].err
    assert (ran["checked"].code, ran["checked"].out.startswith("UNKNOWN: broker-b does not answer: ")) == (3, True)
    assert ran["deleted"].code == 1


def check_documents(got: dict[str, Any]) -> None:
    assert {path: list(document["silent"]) for path, document in got.items()} == {path: [B] for path in PATHS}
    listed = {each["topic"]: each["messages"] for each in got["/topics"]["items"]}
    assert listed == {"both": MESSAGES // 2, "theirs": None, "%DLQ%billing": 2 * 4}
    assert (got["/topics/both"]["messages"], got["/topics/both"]["brokers"]) == (MESSAGES // 2, 2)
    assert {each["brokerName"] for each in got["/topics/both/queues"]["items"]} == {A}
    assert [(each["group"], each["lag"]) for each in got["/groups"]["items"]] == [("billing", 2 * 3)]
    assert [each["lag"] for each in got["/groups/billing/offsets"]["items"]] == [3, 3]
    assert [(each["group"], each["waiting"]) for each in got["/dlq"]["items"]] == [("billing", 2 * 4)]
