"""`rmq check` as monitoring runs it: one line, and what its exit code says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import PullConsumer
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


@pytest.fixture
def group(mq: LocalCluster, rmq: Rmq, topic: str) -> str:
    """A group that is eight messages behind."""
    rmq.send(topic, *[b"x"] * 8)
    name = f"group-of-{topic}"
    with PullConsumer(mq.namesrv, group=name) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit(dict.fromkeys(queues, 0))
    return name


def test_lag_in_messages_and_in_time(cli: Run, group: str) -> None:
    """Each threshold has its exit code; the line says which group."""
    assert cli("check", "lag", group, "--warn", "9", "--crit", "10").code == 0
    warned = cli("check", "lag", group, "--warn", "8", "--crit", "10")
    assert (warned.code, len(warned.lines)) == (1, 1)
    assert warned.out.startswith(f"WARNING: {group} 8 messages behind, ")
    assert cli("check", "lag", "--warn", "1", "--crit", "8").code == 2
    assert cli("check", "lag", group, "--warn", "0s", "--crit", "1h").code == 1
    for_scripts = cli("check", "lag", group, "--warn", "1h", "--crit", "2h", "--json")
    assert (for_scripts.code, for_scripts.json["state"], for_scripts.json["groups"][0]["lag"]) == (0, "ok", 8)


def test_dead_letters(cli: Run, ok: Run, rmq: Rmq, topic: str) -> None:
    """Those that were sent again count no more."""
    rmq.send(topic, b"x", b"y")
    name = f"dead-of-{topic}"
    rmq.give_up(name, *rmq.messages(topic))
    warned = cli("check", "dlq", name)
    assert warned.code == 1
    assert warned.out.startswith(f"WARNING: {name} 2 dead letters not sent again, the first for ")
    assert cli("check", "dlq", "--crit", "2").code == 2
    assert cli("check", "dlq", name, "--warn", "1h", "--crit", "2h").code == 0
    ok("dlq", "resend", name, "--yes")
    well = cli("check", "dlq", name, "--json")
    assert (well.code, well.json["groups"][0]["waiting"], well.json["groups"][0]["count"]) == (0, 0, 2)
    assert cli("check", "dlq", "TOOLS_CONSUMER").out == "OK: 0 groups with dead letters\n"


def test_cluster(cli: Run, processes: Any) -> None:
    """Well, and gone."""
    well = cli("check", "cluster")
    assert well.code == 0
    assert well.out.startswith("OK: 1 name server, 1 broker, ")
    assert cli("check", "cluster", "--warn", "30s", "--crit", "5m") == well
    with reserved_port() as port:
        gone = processes.run("check", "cluster", "--namesrv", f"127.0.0.1:{port}")
    assert (gone.code, len(gone.lines)) == (2, 1)
    assert gone.out.startswith("CRITICAL: name servers: No name server answers")


@pytest.mark.parametrize(
    "words",
    [
        ("lag", "nobody"),
        ("lag", "--warn", "soon"),
        ("lag", "--warn", ""),
        ("lag", "--wran", "5"),
        ("dlq", "nobody"),
        ("disk",),
        (),
        ("cluster", "--warn", "soon"),
        ("cluster", "--warn", "5m", "--crit", "30s"),
        ("lag", "TOOLS_CONSUMER"),
        ("lag", "--namesrv", "nonsense"),
    ],
)
def test_whatever_keeps_a_check_from_an_answer_is_unknown(cli: Run, words: tuple[str, ...]) -> None:
    """Exit code 3 and one line, of a slip of the pen, too: 2 would wake somebody."""
    outcome = cli("check", *words)
    assert (outcome.code, len(outcome.lines)) == (3, 1), outcome
    assert outcome.out.startswith("UNKNOWN: ")


@pytest.mark.parametrize("words", [("lag", "nobody"), ("dlq", "--wran", "5"), ("cluster", "--warn", "soon")])
def test_what_is_unknown_is_json_for_who_asks_for_that(cli: Run, words: tuple[str, ...]) -> None:
    """A program that reads it reads that, too."""
    outcome = cli("check", *words, "--json")
    assert (outcome.code, outcome.json["state"]) == (3, "unknown")
    assert outcome.json["story"]


@pytest.mark.parametrize(
    "before",
    [
        ("--bogus",),
        ("--bogus", "x"),
        ("--bogus=topic",),
        ("--context", "nowhere"),
        ("--context", ""),
        ("--context", "topic", "--bogus"),
        ("--credentials", "nowhere"),
    ],
)
def test_a_wrong_option_before_the_word_check_is_unknown_too(processes: Processes, before: tuple[str, ...]) -> None:
    """Wherever it stands in the command line of a check."""
    outcome = processes.run(*before, "check", "lag")
    assert (outcome.code, len(outcome.lines)) == (3, 1), outcome
    assert outcome.out.startswith("UNKNOWN: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="stands in for a full disk")
@pytest.mark.parametrize("words", [("lag",), ("lag", "--json"), ("nothing",)], ids=" ".join)
def test_a_state_that_cannot_be_told_is_unknown(cli: Run, words: tuple[str, ...]) -> None:
    """And no warning: 1 was the exit code for a full disk."""
    outcome = cli("check", *words, output=Path("/dev/full"))
    assert (outcome.code, outcome.err[:9]) == (3, "UNKNOWN: ")


def test_a_wrong_option_of_other_verbs_stays_one(processes: Processes) -> None:
    """Also where the word check stands somewhere in it."""
    cases = (
        (["--bogus", "topic", "describe", "check"], 2),
        (["--context", "check", "topic", "list"], 1),
        (["--bogus"], 2),
    )
    for words, code in cases:
        outcome = processes.run(*words)
        assert (outcome.code, outcome.out) == (code, ""), words
