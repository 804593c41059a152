"""Queries whose servers speak TLS alone, and want certificates themselves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Access, AdminClient, Tls
from rmqspark.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.certificates import Authority, Certificate

pytestmark = pytest.mark.spark

PASSWORD = "pa55word-of-the-key"
PATIENCE_S = 200


@contextmanager
def served(authority: Authority, own: Certificate, directory: Path, **more: str) -> Iterator[str]:
    """`rmq up` that serves nobody without a certificate; its name server's address."""
    flags = {
        "tls-server-mode": "enforcing",
        "tls-server-cert-path": own.cert_path,
        "tls-server-key-path": own.key_path,
        "tls-server-need-client-auth": "require",
        "tls-server-trust-cert-path": authority.path,
        "tls-enable": "true",
        "tls-client-trust-cert-path": authority.path,
        "tls-client-cert-path": own.cert_path,
        "tls-client-key-path": own.key_path,
        "namesrv-port": "0",
        "broker-port": "0",
        "store": str(directory),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    words = [sys.executable, "-m", "rmqspark", "up", "--no-admin", *(f"--{name}={flags[name]}" for name in flags)]
    endpoints, clock = directory / "endpoints.json", SystemClock()
    deadline_ms = clock.monotonic_ms() + 1_000 * PATIENCE_S
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        while not endpoints.exists():
            assert process.poll() is None, (directory / "log").read_text()
            assert clock.monotonic_ms() < deadline_ms, (directory / "log").read_text()
            clock.sleep_ms(50)
        yield json.loads(endpoints.read_text())["namesrv"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def test_options_for_tls(authority: Authority, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """What they name is what driver and tasks go by: a batch is written, copied by a stream, and read; without them
    nothing is, and the error says why."""
    mine = authority.issue(password=PASSWORD)
    tls = {
        "tlsEnable": "true",
        "tlsTrustCertPath": authority.path,
        "tlsCertPath": mine.cert_path,
        "tlsKeyPath": mine.key_path,
        "tlsKeyPassword": PASSWORD,
    }
    (tmp_path / "store").mkdir()
    with served(authority, authority.issue(), tmp_path / "store") as namesrv:
        access = Access(tls=Tls(authority.path, mine.cert_path, mine.key_path, PASSWORD))
        with AdminClient(namesrv, access=access) as admin:
            for topic in ("orders", "copies"):
                admin.create_topic(topic, queues=2)
        options = {"namesrv": namesrv, **tls}
        rows = rmq_spark.range(100).selectExpr("CAST(id AS STRING) body").write.format("rmq")
        rows.options(**options).mode("append").save("orders")
        stream = rmq_spark.readStream.format("rmq").schema("body binary").options(**options)
        copied = stream.option("startingOffsets", "earliest").load("orders").writeStream.format("rmq")
        copied = copied.options(**options, topic="copies").option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert copied.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
        assert rmq_spark.read.format("rmq").options(**options).load("copies").count() == 100
        without: Any = rmq_spark.read.format("rmq").option("fetchOffset.numRetries", "0").option("namesrv", namesrv)
        with pytest.raises(Exception, match="TLS"):
            without.load("orders").count()


def test_a_certificate_of_another_host(authority: Authority, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """It is refused, and the error names the option that takes it: tlsCheckHost=false. tlsAuthServer=false takes any,
    and needs nobody who is trusted."""
    (tmp_path / "store").mkdir()
    mine, own = authority.issue(), authority.issue("elsewhere.example")
    with served(authority, own, tmp_path / "store", tls_client_check_host="false") as namesrv:
        options = {"namesrv": namesrv, "tlsEnable": "true", "tlsCertPath": mine.cert_path, "tlsKeyPath": mine.key_path}
        trusting = {**options, "tlsTrustCertPath": authority.path}
        rows = rmq_spark.range(10).selectExpr("CAST(id AS STRING) body").write.format("rmq")
        rows.options(**trusting, tlsCheckHost="false", autoCreateTopic="true").mode("append").save("orders")
        reader = rmq_spark.read.format("rmq").option("fetchOffset.numRetries", "0")
        with pytest.raises(Exception, match="(?s)another host.*tlsCheckHost to false"):
            reader.options(**trusting).load("orders").count()
        assert reader.options(**trusting, tlsCheckHost="false").load("orders").count() == 10
        anybody: Any = rmq_spark.read.format("rmq").options(**options, tlsAuthServer="false")
        assert anybody.load("orders").count() == 10
