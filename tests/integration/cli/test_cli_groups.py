"""`rmq group reset` and `rmq group delete` against a real cluster."""

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


def test_a_reset_is_shown_before_it_is_done(ok: Run, cli: Run, mq: LocalCluster, rmq: Rmq, topic: str) -> None:
    """Preview, dry run, a yes that somebody has to say; then the group is where it was to go; and gone when deleted."""
    rmq.send(topic, *[b"x"] * 8)
    group = f"cli-{topic}"
    with PullConsumer(mq.namesrv, group=group) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit(dict.fromkeys(queues, 2))
    dry = ok("group", "reset", group, "--to", "earliest", "--dry-run").out
    assert "2 again" in dry
    assert "Nothing was changed" in dry
    refused = cli("group", "reset", group, "--to", "earliest")
    assert refused.code == 2
    assert "messages read again: 8, skipped: 0" in refused.err
    for_scripts = cli("group", "reset", group, "--to", "earliest", "--json")
    assert (for_scripts.code, for_scripts.out) == (2, "")
    assert "2 again" in for_scripts.err  # the preview, beside the JSON
    assert "Say --yes" in for_scripts.err
    done = ok("group", "reset", group, "--to", "1", "--topic", topic, "--queue", "3", "--yes", "--json").json
    assert done["done"] is True
    assert ok("group", "reset", group, "--to", "1", "--json", "--dry-run").err == ""
    assert [(each["queueId"], each["committed"], each["target"]) for each in done["queues"]] == [(3, 2, 1)]
    assert [each["committed"] for each in ok("group", "describe", group, "--json").json["queues"]] == [2, 2, 2, 1]

    assert "4 queues" in cli("group", "delete", group).err
    ok("group", "delete", group, "--yes")
    assert cli("group", "describe", group).code == 1
    gone = cli("group", "reset", group, "--to", "earliest", "--topic", topic, "--yes")
    assert (gone.code, gone.out) == (1, "")  # no preview of what cannot be done
    assert "first reads" in gone.err


def test_a_group_that_nothing_has_read_for_begins_where_it_is_told(
    ok: Run, cli: Run, mq: LocalCluster, rmq: Rmq, topic: str
) -> None:
    """It is made for a topic, if that is wanted: a name that is misspelled makes none."""
    rmq.send(topic, *[b"old"] * 8)
    group = f"new-{topic}"
    refused = cli("group", "reset", group, "--to", "latest", "--topic", topic, "--yes")
    assert (refused.code, "--create" in refused.err) == (1, True)
    assert cli("group", "reset", group, "--to", "latest", "--create", "--yes").code == 1  # of no topic
    plan = ok("group", "reset", group, "--to", "latest", "--topic", topic, "--create", "--dry-run", "--json").json
    assert [(each["committed"], each["target"]) for each in plan["queues"]] == [(None, 2)] * 4
    assert cli("group", "describe", group).code == 1  # nothing was done
    ok("group", "reset", group, "--to", "latest", "--topic", topic, "--create", "--yes")
    assert [each["committed"] for each in ok("group", "describe", group, "--json").json["queues"]] == [2] * 4
    rmq.send(topic, b"new")
    with PullConsumer(mq.namesrv, group=group) as consumer:
        consumer.assign(consumer.queues(topic))
        assert [message.body for message in consumer.poll(10_000)] == [b"new"]
