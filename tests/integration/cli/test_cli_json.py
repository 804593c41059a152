"""`--json` of each command that has it: one document, or one object a line, and nothing else on standard output."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import LoadedVerbs, app
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import NotFound
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration

DOCUMENTS = {
    "topic list": "",
    "topic create": "made",
    "topic update": "orders --perm rw",
    "topic describe": "orders",
    "topic schema": "orders",
    "topic export": "orders -o {0}/new.jsonl",
    "topic import": "{0}/kept.jsonl --topic imported",
    "topic replay": "{0}/kept.jsonl --topic replayed",
    "topic delete": "gone --yes",
    "group list": "",
    "group describe": "billing",
    "group reset": "billing --to earliest --yes",
    "group delete": "gone --yes",
    "message get": "{1}",
    "message query": "orders --key 42",
    "message journey": "{1} --topic orders",
    "dlq list": "",
    "dlq resend": "billing --yes",
    "txn list": "",
    "config get": "",
    "config set": "file_reserved_time 72 --yes",
    "cluster info": "",
    "cluster health": "",
    "check lag": "",
    "check dlq": "",
    "check cluster": "",
    "top": "--once --interval 0.1",
    "dashboards export": "-o {0}/dashboards",
    "context list": "",
    "spark list": "",
    "store check": "{2}",
    "bench": "--count 64 --connections 2",
    "doctor": "--store {0}",
}
LINES = {"send": "sent one two", "consume": "orders"}
OF_WHAT_IS_NOT_THERE = {
    "txn describe": "nobody",
    "txn commit": "nobody --yes",
    "txn rollback": "nobody --yes",
    "spark describe": "nobody",
    "spark rewind": "nobody --to earliest --yes",
    "spark diagnose": "nobody",
    "audit": "nobody",
    "context show": "nobody",
}
OF_USERS = {"user list", "user describe", "acl list", "acl describe"}  # a cluster with users has them: test_cli_access


@pytest.fixture(scope="module")
def places(mq: Any, rmq: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A topic with a message, a group that has read it, and a topic and a group to do away with: a directory, the
    message's id, and the store."""
    directory = tmp_path_factory.mktemp("json")
    (directory / "kept.jsonl").write_text('{"body": "x", "storeTimestamp": 1}\n')
    rmq.create_topic("orders", queues=1)
    rmq.create_topic("gone", queues=1)
    (receipt,) = rmq.send("orders", Message("orders", b'{"id": 1}', keys=["42"]))
    with PullConsumer(mq.namesrv, group="billing") as consumer:
        consumer.commit(dict.fromkeys(consumer.queues("orders"), 1))
    with PullConsumer(mq.namesrv, group="gone") as consumer:
        consumer.commit(dict.fromkeys(consumer.queues("orders"), 1))
    return str(directory), receipt.msg_id, str(mq.directory)


def _run(mq: Any, places: tuple[str, ...], name: str, words: str) -> Any:
    said = shlex.split(words.format(*places))
    variables = {"RMQ_NAMESRV": mq.namesrv, "XDG_CONFIG_HOME": places[0]}
    return CliRunner().invoke(app, [*name.split(), *said, "--json"], env=variables, prog_name="rmq")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document(mq: Any, places: tuple[str, ...], name: str) -> None:
    """Standard output is JSON from its first byte to its last."""
    outcome = _run(mq, places, name, DOCUMENTS[name])
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout) is not None


@pytest.mark.parametrize("name", LINES)
def test_an_object_a_line(mq: Any, places: tuple[str, ...], name: str) -> None:
    """A program reads it line by line, while it comes."""
    outcome = _run(mq, places, name, LINES[name])
    assert outcome.exit_code == 0, outcome.output
    assert [json.loads(line)["topic"] for line in outcome.stdout.splitlines()]


@pytest.mark.parametrize("name", OF_WHAT_IS_NOT_THERE)
def test_what_fails_prints_no_half_document(mq: Any, places: tuple[str, ...], name: str) -> None:
    """The error is for standard error; standard output has nothing that a program could take for an answer."""
    outcome = _run(mq, places, name, OF_WHAT_IS_NOT_THERE[name])
    assert isinstance(outcome.exception, NotFound) or (name, outcome.exit_code) == ("audit", 3)
    assert outcome.stdout == ""


def test_none_is_left_out() -> None:
    """A new command that has --json stands in one of the tables."""
    named = {name for name, options in _options("", LoadedVerbs()) if "--json" in options}
    assert named == {*DOCUMENTS, *LINES, *OF_WHAT_IS_NOT_THERE, *OF_USERS}


def _options(group: str, commands: Any) -> Iterator[tuple[str, set[str]]]:
    for word, command in commands.items():
        name = f"{group} {word}".strip()
        if within := getattr(command, "commands", None):
            yield from _options(name, within)
        else:
            yield name, {option for parameter in command.params for option in parameter.opts}
