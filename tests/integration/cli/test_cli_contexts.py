"""`rmq context`, and what it does to other verbs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rmqspark.testing import LocalCluster

    from .conftest import Processes

pytestmark = pytest.mark.integration


def test_contexts_from_the_first_to_the_last(processes: Processes, mq: LocalCluster, topic: str) -> None:
    """Added, used, named, put aside by the environment, and forgotten; each verb that reads goes by them."""
    run = partial(processes.run, XDG_CONFIG_HOME=str(processes.directory))
    assert "No contexts yet." in run("context", "list").out
    assert "rmq context use prod" in run("context", "add", "prod", "--namesrv", mq.namesrv).out
    assert run("context", "add", "away", "--namesrv", "127.0.0.1:1").code == 0
    assert run("context", "show").code == 1
    assert topic in run("--context", "prod", "topic", "list").out
    assert run("context", "use", "away").out == "Context away is in use: 127.0.0.1:1.\n"
    nobody = run("topic", "list").err
    assert "No name server answers at 127.0.0.1:1" in nobody
    assert "This is context away." in nobody
    assert "context" not in run("topic", "list", "--namesrv", "127.0.0.1:1").err
    assert topic in run("topic", "list", "--namesrv", mq.namesrv).out
    assert topic in run("topic", "list", RMQ_NAMESRV=mq.namesrv).out
    assert "$RMQ_NAMESRV is set and comes first" in run("context", "use", "prod", RMQ_NAMESRV="h:1").err
    assert topic in run("topic", "list").out
    assert run("context", "show", "--json").json == {"context": "prod", "namesrv": mq.namesrv, "inUse": True}
    assert [each["context"] for each in run("context", "list", "--json").json] == ["away", "prod"]
    assert run("context").out == run("context", "list").out
    assert run("context", "--json").json == run("context", "list", "--json").json

    asked = run("context", "remove", "prod")
    assert (asked.code, f"Forget context prod ({mq.namesrv})?" in asked.err) == (2, True)
    assert run("context", "remove", "prod", "--yes").code == 0
    assert run("context", "show").code == 1
    assert run("context", "use", "--none").out == "No context is in use.\n"


def test_mistakes(processes: Processes) -> None:
    """An unknown name, two clusters at once, an empty word, nothing to use."""
    run = partial(processes.run, XDG_CONFIG_HOME=str(processes.directory))
    unknown = run("--context", "nope", "topic", "list")
    assert (unknown.code, "There is no context 'nope'." in unknown.err) == (1, True)
    both = run("--context", "nope", "topic", "list", "--namesrv", "h:1")
    assert (both.code, "Give one of them." in both.err) == (2, True)
    assert run("--context", "", "topic", "list").code == 2
    assert run("context", "use").code == 2
    assert "rmq context list --json" in run("context", "--json", "list").err
    assert run("context", "add", "prod", "--namesrv", "nonsense").code == 2
    assert run("--context", "nope", "check", "lag").code == 3


def test_a_context_that_is_named_counts_for_every_verb(processes: Processes) -> None:
    """For `rmq bench`, too, which takes no notice of the one in use."""
    run = partial(processes.run, XDG_CONFIG_HOME=str(processes.directory))
    run("context", "add", "away", "--namesrv", "127.0.0.1:1")
    refused = run("--context", "away", "bench", "--stage", "producer")
    assert (refused.code, "127.0.0.1:1" in refused.err, "context away" in refused.err) == (1, True, True)
