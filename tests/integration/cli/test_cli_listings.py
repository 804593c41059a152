"""`rmq topic` and `rmq group` against a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import PullConsumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def test_a_topic_is_said_to_be_what_it_is(ok: Run, topic: str) -> None:
    """NORMAL is also what nobody has said anything else of."""
    assert ok("topic", "describe", topic).out.startswith(f"{topic} (NORMAL): ")


def test_a_topic_that_is_there_may_stay_as_it_is(ok: Run, topic: str) -> None:
    """A script that prepares what it needs runs a second time."""
    before = ok("topic", "describe", topic, "--json").json
    assert ok("topic", "create", topic, "--queues", "9", "--exist-ok").out.startswith(f"Topic {topic} is there: ")
    assert ok("topic", "create", topic, "--queues", "9", "--exist-ok", "--json").json == before
    assert ok("topic", "create", f"{topic}-new", "--queues", "9", "--exist-ok").out.endswith(
        "9 queues (rw) on broker-a\n"
    )


def test_the_life_of_a_topic(ok: Run, cli: Run, rmq: Rmq) -> None:
    """Created, listed, described, changed, and deleted once somebody says so."""
    assert "2 queues (rw) on broker-a" in ok("topic", "create", "lives", "--queues", "2", "--type", "fifo").out
    rmq.send("lives", b"x")
    settings = {"topic": "lives", "type": "fifo", "brokers": 1, "queues": 2, "perm": "rw"}
    assert {**settings, "messages": 1, "silent": {}} in ok("topic", "list", "--json").json
    heading, _, *rows = ok("topic", "list").lines
    assert heading.split() == ["topic", "type", "brokers", "queues", "perm", "messages"]
    assert ["lives", "fifo", "1", "2", "rw", "1"] in [row.split() for row in rows]
    described = ok("topic", "describe", "lives", "--json").json
    assert described["type"] == "fifo"
    assert described["brokers"][0]["attributes"] == {"message.type": "FIFO"}
    assert sum(queue["maxOffset"] for queue in described["queues"]) == 1
    shown = ok("topic", "describe", "lives").out
    assert shown.startswith("lives (FIFO): 2 queues (rw) on broker-a, 1 message\n")
    assert "max offset" in shown
    assert "4 queues (r) on broker-a" in ok("topic", "update", "lives", "--queues", "4", "--perm", "r").out

    assert "4 queues (w) on broker-a" in ok("topic", "update", "lives", "--perm", "2").out
    ok("topic", "update", "lives", "--type", "delay")
    assert ok("topic", "describe", "lives", "--json").json["brokers"][0]["attributes"] == {"message.type": "DELAY"}
    ok("topic", "update", "lives", "--type", "NORMAL")  # as RocketMQ writes it, and describe
    assert ok("topic", "describe", "lives").out.startswith("lives (NORMAL): ")

    refused = cli("topic", "delete", "lives")
    assert refused.code == 2
    assert "with 1 message?" in refused.err
    assert "--yes" in refused.err
    ok("topic", "delete", "lives", "--yes")
    assert cli("topic", "describe", "lives").code == 1


def test_queues_with_messages_are_not_taken_away_unasked(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """Fewer read queues would hide messages; that takes a yes, taking empty queues away does not."""
    rmq.send(topic, *[b"x"] * 4)
    refused = cli("topic", "update", topic, "--queues", "2")
    assert refused.code == 2
    assert "hold 2 messages" in refused.err
    ok("topic", "update", topic, "--queues", "2", "--yes")
    ok("topic", "update", topic, "--queues", "8")


def test_system_topics_are_shown_on_demand(ok: Run) -> None:
    """RocketMQ's own topics stay out of the way."""
    assert "TBW102" not in ok("topic", "list").out
    assert "TBW102" in ok("topic", "list", "--system").out


def test_a_group_s_lag_in_messages_and_seconds(ok: Run, mq: LocalCluster, rmq: Rmq, topic: str) -> None:
    """Per queue and in total; a queue never committed is unknown, one that is caught up is 0 seconds behind."""
    group = f"g-{topic}"
    rmq.send(topic, *[b"x"] * 8)
    with PullConsumer(mq.namesrv, group=group) as consumer:
        first, second, third, _ = consumer.queues(topic)
        consumer.assign([first, second, third])
        consumer.commit({first: 0, second: 1, third: 2})
    described = ok("group", "describe", group, "--json").json
    queues = {queue["queueId"]: queue for queue in described["queues"]}
    assert [queues[number]["lag"] for number in range(4)] == [2, 1, 0, None]
    assert queues[0]["secondsBehind"] >= 0
    assert [queues[number]["secondsBehind"] for number in (2, 3)] == [0, None]
    assert (described["lag"], described["members"], described["topics"]) == (3, [], [topic])
    assert described["secondsBehind"] == max(queues[0]["secondsBehind"], queues[1]["secondsBehind"])
    shown = ok("group", "describe", group)
    assert shown.lines[0].startswith(f"{group}: 3 messages behind, ")
    assert shown.lines[0].endswith("; unknown in 1 queue for which it has committed nothing")
    assert "unknown" in "".join(shown.lines[1:])
    listed = {entry["group"]: entry for entry in ok("group", "list", "--json").json}
    assert listed[group]["lag"] == 3
    assert group in ok("group", "list").out
    assert "TOOLS_CONSUMER" not in listed
    assert "TOOLS_CONSUMER" in ok("group", "list", "--system").out
