"""How quickly `rmq` is there, and what it loads for that."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rmqspark
from rmqspark.cli.verbs import HOMES, LoadedVerbs, app

SERVER = ("rmqspark.broker", "rmqspark.namesrv", "rmqspark.store", "numpy", "uvloop", "structlog")
CLIENT_VERBS = ("send", "consume", "topic", "group", "message", "doctor")
LOOK = "import sys; {}; print(*[name for name in {} if name in sys.modules])"


def loaded_after(statement: str, names: tuple[str, ...]) -> list[str]:
    """Which of the modules a fresh interpreter has after the statement."""
    run = subprocess.run(
        [sys.executable, "-c", LOOK.format(statement, names)], capture_output=True, text=True, check=True
    )
    return run.stdout.split()


def test_saying_the_version_takes_no_machinery() -> None:
    """`rmq --version` is a matter of milliseconds: it does not even load the parser of options."""
    statement = "sys.argv = ['rmq', '--version']; from rmqspark.cli.main import main; main()"
    assert loaded_after(statement, ("typer", "msgspec", "rich")) == ["rmqspark", "0.1.0"]


@pytest.mark.parametrize("verb", CLIENT_VERBS)
def test_a_verb_for_clients_loads_nothing_of_the_servers(verb: str) -> None:
    """`rmq send` does not wait for the broker's code to be imported."""
    statement = f"from rmqspark.cli.verbs import LoadedVerbs; LoadedVerbs()[{verb!r}]"
    assert loaded_after(statement, SERVER) == []


GROUPS = [(), *((name,) for name, home in HOMES.items() if home.endswith(":app"))]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: " ".join(("rmq", *group)))
def test_no_list_of_verbs_breaks_off(group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of 80 columns each verb is described by a whole sentence."""
    monkeypatch.setenv("COLUMNS", "80")
    listed = CliRunner().invoke(app, [*group, "--help"]).output.partition("Commands:")[2]
    assert listed.strip()
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize("words", [[], ["topic"], ["topic", "list"], ["consume"], ["check", "lag"]])
def test_h_is_short_for_help(words: list[str]) -> None:
    """At every level, as people type it."""
    short, long = (CliRunner().invoke(app, [*words, flag], prog_name="rmq") for flag in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)
    assert long.output.startswith(" ".join(["Usage: rmq", *words]))


def test_no_hint_names_a_verb_that_is_not_there() -> None:
    """What a message, or the help, tells people to type, `rmq` knows, or says of it that it is still to come."""
    groups = {name: LoadedVerbs()[name] for (name,) in filter(None, GROUPS)}
    named = re.compile(rf"\brmq ({'|'.join(groups)}) ([a-z]+)\b")
    for file in Path(rmqspark.__file__).parent.rglob("*.py"):
        for group, verb in named.findall(file.read_text()):
            assert verb in {*groups[group].commands, *groups[group].coming}, f"rmq {group} {verb} in {file}"


def test_the_names_of_verbs_load_none_of_them() -> None:
    """The nearest verb to a typing error is found by name."""
    verbs = LoadedVerbs()
    assert list(verbs) == list(HOMES)
    assert len(verbs) == len(HOMES)
    with pytest.raises(KeyError):
        verbs["sendd"]


@pytest.mark.parametrize(
    ("typed", "next_words"),
    [
        ("rmq to", ["topic", "top"]),
        ("rmq topic cr", ["create"]),
        ("rmq up --br", ["--broker-ip1", "--broker-port", "--brokers"]),
    ],
)
def test_a_shell_completes_verbs_and_options(typed: str, next_words: list[str]) -> None:
    """As `rmq --install-completion` has bash ask: the words so far are in the environment, what fits comes out."""
    asked = {"_RMQ_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    words = [sys.executable, "-m", "rmqspark"]
    run = subprocess.run(words, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert run.stdout.split() == next_words


def test_completion_can_be_installed(tmp_path: Path) -> None:
    """`rmq --install-completion bash` writes into the home directory what bash reads when it starts."""
    script = f"{sys.executable} -m rmqspark --install-completion bash; exit"  # it looks for a shell above it
    subprocess.run(["bash", "-c", script], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, check=True)
    assert "_RMQ_COMPLETE" in (tmp_path / ".bash_completions" / "rmq.sh").read_text()


NO_HOME = """
import pathlib, rmqspark.cli.main
def home():
    raise RuntimeError("Could not determine home directory.")
pathlib.Path.home = home
rmqspark.cli.main.main()
"""


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["-m", "rmqspark"], "the file that your shell reads when it starts is no UTF-8"),
        (["-c", NO_HOME], "Could not determine home directory"),  # of a user whom the system does not know
    ],
)
def test_completion_that_cannot_be_installed(tmp_path: Path, command: list[str], why: str) -> None:
    """Why is said, without a traceback, and what the shell reads stays as it is."""
    told = b"export NAME=gr\xf6\xdfe\n"
    (tmp_path / ".bashrc").write_bytes(told)
    script = f"{shlex.join([sys.executable, *command])} --install-completion; exit $?"  # it looks for a shell above it
    environ = {**os.environ, "HOME": str(tmp_path)}
    run = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        f"Error: Completion cannot be installed: {why}.",
        "  rmq --show-completion prints what is to be put there.",
    ]
    assert (tmp_path / ".bashrc").read_bytes() == told
