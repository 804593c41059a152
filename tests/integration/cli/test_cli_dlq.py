"""`rmq dlq` against a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing.rmq import Rmq

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def test_dead_letters_from_the_first_look_to_the_second_resend(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """Listed, asked about, sent once, and not again; every answer is for scripts, too."""
    assert "No dead letters." in ok("dlq", "list").out
    rmq.send(topic, *(Message(topic, b"%d" % n, "paid", [f"k{n}"]) for n in range(3)))
    rmq.give_up("billing", *rmq.messages(topic))

    (summary,) = ok("dlq", "list", "--json").json
    assert (summary["group"], summary["count"], summary["waiting"]) == ("billing", 3, 3)
    assert ok("dlq", "list").lines[-1].split()[:3] == ["billing", "3", "3"]
    letters = ok("dlq", "list", "billing", "--json").json
    assert [(each["body"], each["originTopic"], each["reconsumeTimes"]) for each in letters] == [
        (str(n), topic, 1) for n in range(3)
    ]
    assert letters[0]["sentAgain"] is False
    shown = ok("dlq", "list", "billing", "-n", "1", output=None).lines
    assert len(shown) == 3
    assert [letters[2]["msgId"], topic, "k2", "paid", "1"] == shown[-1].split()[:5]
    assert "given up by its consumer" in shown[-1]

    assert "3 dead letters would be sent again, to billing alone" in ok("dlq", "resend", "billing", "--dry-run").out
    refused = cli("dlq", "resend", "billing")
    assert (refused.code, refused.out) == (2, "")
    assert "Send 3 dead letters of group billing again, to billing alone?" in refused.err
    one = ok("dlq", "resend", "billing", "--id", letters[0]["msgId"], "--yes", "--json").json
    assert (one["planned"], one["sent"], one["queues"][0]["to"]) == (1, 1, 1)
    assert ok("dlq", "resend", "billing", "--yes").out == "2 dead letters sent again, to billing alone.\n"
    assert "--again" in ok("dlq", "resend", "billing").out
    everybody = ok("dlq", "resend", "billing", "--again", "--to-topic", "--from", "-1h", "--yes").out
    assert everybody == "3 dead letters sent again, to all who read their topics.\n"
    assert [each.body for each in rmq.messages("%RETRY%billing")] == [b"0", b"1", b"2"]
    assert len(rmq.messages(topic)) == 6


def test_a_resend_that_breaks_off_says_how_far_it_came(cli: Run, rmq: Rmq, topic: str) -> None:
    """And sends nothing twice when it is tried again: here one letter does not say where it was."""
    rmq.send(topic, b"first", b"second")
    rmq.give_up("strange", *rmq.messages(topic))
    rmq.send("%DLQ%strange", b"from nowhere")
    words = ("dlq", "resend", "strange", "--to-topic", "--yes")
    failed = cli(*words)
    assert (failed.code, "Nothing says in which topic dead letter 2" in failed.err) == (1, True)
    assert failed.out == "2 dead letters sent again, to all who read their topics.\n"
    assert [cli(*words, "--json").json["sent"] for _ in range(2)] == [0, 0]
    assert sorted(each.body for each in rmq.messages(topic)) == [b"first"] * 2 + [b"second"] * 2
    rmq.admin.delete_topic("%DLQ%strange")


def test_mistakes(cli: Run) -> None:
    """A group that is not there, a time that is none."""
    unknown = cli("dlq", "list", "nobody")
    assert unknown.code == 1
    assert "Consumer group 'nobody' does not exist." in unknown.err
    assert cli("dlq", "resend", "nobody", "--yes").code == 1
    assert cli("dlq", "resend", "nobody", "--from", "soon").code == 2
