"""`rmq doctor`: what is missing, and the command that mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.cli.doctor import _servers
from rmqspark.client.cluster import addresses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.testing import LocalCluster
    from tests.certificates import Authority

pytestmark = pytest.mark.integration


def findings(outcome: Any) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in outcome.json}


def test_a_running_queue_is_found(cli: Callable[..., Any], mq: LocalCluster) -> None:
    """Where a queue runs, its name server and brokers are listed, for people and for scripts."""
    found = findings(cli("doctor", "--json"))
    assert found["name server"]["detail"] == f"{mq.namesrv}, brokers: broker-a"
    assert found["Python"]["status"] == "ok"
    assert found["ports"]["status"] == "ok"  # taken or free: what runs is elsewhere
    assert f"{mq.namesrv}, brokers: broker-a" in cli("doctor").out


def test_ports_are_looked_at_also_where_a_name_server_was_named(cli: Callable[..., Any]) -> None:
    """One that is gone is an error, and the next thing is `rmq up`, for which the ports must be free."""
    found = findings(cli("doctor", "--json", RMQ_NAMESRV="127.0.0.1:1"))
    assert found["name server"]["status"] == "error"
    assert found["ports"]["detail"]


@pytest.mark.parametrize(
    ("path", "java_home", "detail"),
    [("", "", "no java on PATH"), ("", "{tmp}/none", "JAVA_HOME names no Java"), ("", "{tmp}/old", "8 (")],
)
def test_a_missing_or_old_java_is_named_with_what_to_install(
    cli: Callable[..., Any], tmp_path: Path, path: str, java_home: str, detail: str
) -> None:
    """Spark needs Java 17; without it the queue works all the same, so it is a warning."""
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    found = findings(cli("doctor", "--json", PATH=path, JAVA_HOME=java_home.format(tmp=tmp_path)))
    assert found["Java"]["status"] == "warning"
    assert detail in found["Java"]["detail"]
    assert "apt install openjdk-17" in found["Java"]["remedy"]


def test_the_demo_says_what_to_install_before_it_begins(processes: Any, tmp_path: Path) -> None:
    """Without Java the demo stops at once with the package to install, not in the middle with a JVM's last words."""
    outcome = processes.run("demo", "-o", "out", PATH="", JAVA_HOME="")
    assert outcome.code == 1
    assert "Spark needs Java 17 or newer, and finds: no java on PATH." in outcome.err
    assert "apt install openjdk-17" in outcome.err
    assert not (tmp_path / "out").exists()


def test_the_interpreter_of_spark_s_workers_is_tried(cli: Callable[..., Any], tmp_path: Path) -> None:
    """A PYSPARK_PYTHON that cannot import rmqspark would fail in the middle of a job; here it is seen before."""
    pytest.importorskip("pyspark")
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'rmqspark'\" >&2\nexit 1\n")
    python.chmod(0o755)
    found = findings(cli("doctor", "--json", PYSPARK_PYTHON=str(python)))
    assert "No module named 'rmqspark'" in found["PYSPARK_PYTHON"]["detail"]
    assert found["PYSPARK_PYTHON"]["remedy"] == f"export PYSPARK_PYTHON={sys.executable}"


def test_a_missing_library_is_a_warning_with_its_remedy(cli: Callable[..., Any], tmp_path: Path) -> None:
    """Without PySpark the queue works; the extra that brings it is named."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'pyspark':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    found = findings(cli("doctor", "--json", PYTHONPATH=str(tmp_path)))
    assert (found["pyspark"]["status"], found["pyspark"]["remedy"]) == ("warning", "pip install 'rmqspark[spark]'")


@pytest.mark.parametrize("kind", ["users", "tls"])
def test_a_name_server_that_turns_us_away_is_no_stranger_on_its_port(
    processes: Any, authority: Authority, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also at the usual place: it is said what it wants."""
    made = authority.issue()
    settings = {
        "users": """
authentication_enabled = true
init_authentication_user = '{"username":"root","password":"root-secret"}'
""",
        "tls": f"""
tls_server_mode = "enforcing"
tls_server_cert_path = "{made.cert_path}"
tls_server_key_path = "{made.key_path}"
tls_enable = true
tls_client_trust_cert_path = "{authority.path}"
""",
    }
    (processes.directory / "guarded.toml").write_text(settings[kind])
    monkeypatch.setattr(addresses, "DEFAULT_NAMESRV", processes.up("-c", "guarded.toml").namesrv)
    found = {finding.subject: finding for finding in _servers(None)}
    assert found["name server"].status == "error"
    told = f"{found['name server'].detail} {found['name server'].remedy}"
    assert {"users": "RMQ_ACCESS_KEY", "tls": "a server that demands TLS"}[kind] in told


def test_a_store_that_is_a_file_is_seen(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    found = findings(cli("doctor", "--json", "--store", "store/broker-a"))
    assert (found["disk"]["status"], "is not a directory" in found["disk"]["detail"]) == ("error", True)
