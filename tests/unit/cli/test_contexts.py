"""Clusters by name: what the file holds, and when it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from rmqspark.cli.terminal.commands import Verb
from rmqspark.cli.terminal.contexts import Context, Contexts, contexts_file, namesrv_of_context
from rmqspark.cli.terminal.options import CONTEXT, _namesrv, _own_namesrv
from rmqspark.client.cluster.addresses import VARIABLES
from rmqspark.errors import Conflict, InvalidArgument, NotFound

PROD = Context("prod", "h1:9876;h2:9876")


def written(tmp_path: Path, used: str | None = None) -> Contexts:
    contexts = Contexts.read(contexts_file({"XDG_CONFIG_HOME": str(tmp_path)}))
    contexts.add("prod", " h1:9876; h2:9876")
    contexts.add("dev", "h3:9876")
    contexts.use(used)
    contexts.save()
    return Contexts.read(contexts.path)


def test_what_is_written_is_there_for_its_user_alone(tmp_path: Path) -> None:
    """Sorted by name; file and directory are nobody else's, and nothing is left beside them."""
    contexts = written(tmp_path)
    assert contexts.all() == [Context("dev", "h3:9876"), PROD]
    assert contexts.in_use is None
    assert (contexts.path.stat().st_mode & 0o777, contexts.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(contexts.path.parent.iterdir()) == [contexts.path]


def test_one_is_in_use_until_it_is_taken_away(tmp_path: Path) -> None:
    """Then none is."""
    contexts = written(tmp_path, "prod")
    assert contexts.in_use == PROD
    contexts.remove("prod")
    contexts.save()
    assert Contexts.read(contexts.path).in_use is None
    with pytest.raises(NotFound, match="There are: dev"):
        contexts.use("prod")


def test_what_else_stands_in_the_file_is_kept(tmp_path: Path) -> None:
    """A later version has more to say there."""
    contexts = written(tmp_path)
    document = json.loads(contexts.path.read_text())
    document["contexts"]["prod"]["tls"] = True
    document["colour"] = "blue"
    contexts.path.write_text(json.dumps(document))
    contexts = Contexts.read(contexts.path)
    contexts.use("dev")
    contexts.save()
    document = json.loads(contexts.path.read_text())
    assert (document["colour"], document["contexts"]["prod"]["tls"], document["use"]) == ("blue", True, "dev")


@pytest.mark.parametrize(
    ("environ", "named", "expected"),
    [
        ({}, None, PROD),
        ({"RMQ_NAMESRV": "a:1"}, None, None),
        ({"NAMESRV_ADDR": "a:1"}, None, None),
        ({"RMQ_NAMESRV": ""}, None, PROD),
        ({"RMQ_NAMESRV": "a:1"}, "dev", Context("dev", "h3:9876")),
    ],
)
def test_when_a_context_counts(
    tmp_path: Path, environ: dict[str, str], named: str | None, expected: Context | None
) -> None:
    """The one in use where the environment says nothing; one that is named, always."""
    written(tmp_path, "prod")
    assert namesrv_of_context(named, {**environ, "XDG_CONFIG_HOME": str(tmp_path)}) == expected


def test_no_broker_joins_the_cluster_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rmq broker` and `rmq bench` go by one only where it is named: no laptop is to become part of production."""
    written(tmp_path, "prod")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    line = typer.Context(Verb("broker"))
    assert (_namesrv(line, None), _own_namesrv(line, None)) == (PROD.namesrv, None)
    line.meta[CONTEXT] = "dev"
    assert (_namesrv(line, None), _own_namesrv(line, None)) == ("h3:9876", "h3:9876")
    with pytest.raises(InvalidArgument, match="Both --namesrv and --context"):
        _own_namesrv(line, "h:1")


def test_no_file_is_no_context(tmp_path: Path) -> None:
    """So it is for most users."""
    assert namesrv_of_context(None, {"XDG_CONFIG_HOME": str(tmp_path)}) is None


def test_names_and_addresses_that_are_none(tmp_path: Path) -> None:
    """Nothing of it is written."""
    contexts = written(tmp_path)
    for name in ("", "a b", "-x", "x" * 65):
        with pytest.raises(InvalidArgument, match="cannot be the name of a context"):
            contexts.add(name, "h:1")
    with pytest.raises(InvalidArgument, match="--namesrv 'nonsense' is not an address"):
        contexts.add("new", "nonsense")
    with pytest.raises(Conflict, match="is there already, with h3:9876"):
        contexts.add("dev", "h:1")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"contexts": []}', '{"contexts": {"a": {}}}', '{"contexts": {"a": "h:1"}}']
)
def test_a_file_that_is_none_of_ours(tmp_path: Path, text: str) -> None:
    """Whoever has named a cluster does not want another one instead."""
    path = tmp_path / "contexts.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"contexts\.json cannot be understood"):
        Contexts.read(path)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has no contexts, and can keep none."""
    assert contexts_file({"XDG_CONFIG_HOME": "relative"}) == Path.home() / ".config" / "rmqspark" / "contexts.json"
    with pytest.raises(InvalidArgument, match="no home directory"):
        Contexts(Path("~/.config/rmqspark/contexts.json"), {}).save()
