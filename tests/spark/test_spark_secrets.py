"""Keys and passwords of a query are in nothing that Spark shows, writes or logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import app

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.spark

SECRETS = ("5ecret-of-the-user", "t0ken-of-the-user", "pa55word-of-the-key")
KEYS = {"accessKey": "billing", "secretKey": SECRETS[0], "securityToken": SECRETS[1]}
TLS = {
    "tlsEnable": "true",
    "tlsTrustCertPath": "/nowhere/ca.pem",
    "tlsCertPath": "/nowhere/client.pem",
    "tlsKeyPath": "/nowhere/client.key",
    "tlsKeyPassword": SECRETS[2],
    "tlsAuthServer": "true",
    "tlsCheckHost": "false",
}
# To a file: PySpark lets no console show what is less than a warning, whatever the level.
LOGGING = """rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


def test_no_secret_is_shown(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """Not in plans, the event log, checkpoints, progress, logs of driver and workers, tracebacks, or what brokers are
    told of a query: batch and stream, reading and writing, by options and by a view."""
    topic.send("a", "b", "c")
    (tmp_path / "events").mkdir()
    (tmp_path / "log4j2.properties").write_text(LOGGING.format(file=tmp_path / "jvm.log"))
    given = {
        "namesrv": topic.namesrv,
        "source": topic.name,
        "target": other.name,
        "keys": KEYS,
        "tls": TLS,
        "events": str(tmp_path / "events"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "logging": str(tmp_path / "log4j2.properties"),
    }
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("secret_queries.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    (tmp_path / "printed").write_text(done.stdout)
    (tmp_path / "logged").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-4_000:]
    (tmp_path / "told").write_text(
        CliRunner().invoke(app, ["spark", "describe", "copy", "--json", "--namesrv", topic.namesrv]).output
    )
    written = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    leaks = {name: secret for name, content in written.items() for secret in SECRETS if secret.encode() in content}
    assert leaks == {}
    assert (len(other.bodies()), "rows 3" in done.stdout, "ended True" in done.stdout) == (10, True, True)
    assert "accessKey=*********(redacted)" in done.stdout  # where options are shown, Spark blots these out
    assert b"INFO org.apache.spark" in written["jvm.log"]
