"""The examples of every `--help`, typed as they stand, against servers that run."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import LoadedVerbs, app
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import Conflict, NotFound
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.integration

AN_ID = "7F0000010A3B18B4AAC25E0BE0F50007"
SERVING = ("up", "namesrv", "broker", "admin", "demo")  # they serve, or take minutes: tests of their own
ENDLESS = ("rmq top", "rmq top --interval 5 --json", "rmq consume orders --from -10m -f")
WITH_SERVERS_OF_ITS_OWN = "rmq bench --own --batch 32 --json"  # test_cli_bench starts some
OF_USERS = ("user", "acl")
OF_QUERIES = ("txn describe", "txn commit", "txn rollback", "spark describe", "spark rewind", "spark diagnose", "audit")
FIRST, LAST = ("create", "add", "send", "export"), ("delete", "remove")
BRIEFLY = {"bench": "--count 64 --connections 2", "top": "--interval 0.1"}


def _examples(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Command and example, of a command or of all in a group."""
    for word, within in getattr(command, "commands", {}).items():
        yield from _examples(within, f"{name} {word}".strip())
    _, _, shown = (command.help or "").partition("Example")
    paragraph = " ".join(shown.partition("\n\n")[0].split())
    for words in re.split(r"[:|] ", paragraph):
        if words.startswith("rmq "):
            yield name, words.strip()


EXAMPLES = [pair for verb, command in LoadedVerbs().items() if verb not in SERVING for pair in _examples(command, verb)]


def in_order(examples: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What makes something comes before what looks at it, and what does away with it last."""

    def rank(example: tuple[str, str]) -> int:
        words = set(example[1].split()[1:3])
        return 0 if words & {*FIRST} else 3 if words == {"user", "delete"} else 2 if words & {*LAST} else 1

    return sorted(examples, key=rank)


def typed(example: str, variables: Mapping[str, str], stdin: str = "") -> Any:
    """As it stands; where it would ask, with the answer."""
    return CliRunner().invoke(app, shlex.split(example)[1:], env=dict(variables), input=stdin, prog_name="rmq")


def check(example: str, outcome: Any) -> None:
    """That of a group makes what that of its command has made, which is there then."""
    is_there = " create " in example and isinstance(outcome.exception, Conflict)
    assert outcome.exit_code == 0 or is_there, f"{example}: {outcome.output} {outcome.exception!r}"


@pytest.fixture
def around(mq: Any, rmq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files, the group and the message that examples name, and the environment that says where the cluster is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.jsonl").write_text('{"body": "{\\"id\\": 1}", "storeTimestamp": 1}\n')
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    rmq.send("read", b"x")
    with PullConsumer(mq.namesrv, group="billing") as consumer:
        consumer.commit(dict.fromkeys(consumer.queues("read"), 0))
    return {"RMQ_NAMESRV": mq.namesrv, "XDG_CONFIG_HOME": str(tmp_path)}


def test_an_example_works_as_it_stands(mq: Any, rmq: Any, around: dict[str, str]) -> None:
    """Each does what it says; those about a query or transaction say that there is none."""
    rmq.create_topic("told")
    (receipt,) = rmq.send("told", Message("told", b"{}"))
    tried = 0
    for name, example in in_order([each for each in EXAMPLES if each[0].split()[0] not in OF_USERS]):
        if example in (*ENDLESS, WITH_SERVERS_OF_ITS_OWN):
            continue
        words = example.replace(f"{AN_ID} --topic orders", receipt.msg_id).replace(AN_ID, receipt.msg_id)
        words = re.sub(r"\brmq-store\b|/data/broker-a", str(mq.directory), words)
        yes = " --yes" if re.search(r" (delete|remove|set|dashboards export) ", words) else ""
        outcome = typed(f"{words}{yes} {BRIEFLY.get(name, '')}", around, stdin="one\ntwo\n")
        if name in (*OF_QUERIES, "context show"):
            assert isinstance(outcome.exception, NotFound) or (name, outcome.exit_code) == ("audit", 3), example
        else:
            check(example, outcome)
        tried += 1
    assert tried > 60


def test_an_example_about_users_does(processes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where servers ask who asks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ann.txt").write_text("ann-secret\n")
    (tmp_path / "guarded.toml").write_text("""
authentication_enabled = true
authorization_enabled = true
init_authentication_user = '{"username":"root","password":"root-secret"}'
""")
    around = {"RMQ_NAMESRV": processes.up("-c", "guarded.toml").namesrv}
    around |= {"RMQ_ACCESS_KEY": "root", "RMQ_SECRET_KEY": "root-secret"}
    examples = in_order([each for each in EXAMPLES if each[0].split()[0] in OF_USERS])
    assert len(examples) > 10
    for example in dict.fromkeys(example for _, example in examples):
        outcome = typed(example + (" --yes" if " delete " in example else ""), around)
        check(example, outcome)
