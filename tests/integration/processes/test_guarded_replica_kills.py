"""Slave and master killed where users are on and TLS is demanded: nothing is promised less."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.history import History
from rmqspark.testing.history_checker import Checker

from .load import QUEUES, TOPIC
from .replicas import PROBES, Replicas, Senders, bring_back_master, check_the_end
from .servers import BROKER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_PATIENCE_S = 60


def settings(authority: Authority) -> dict[str, str]:
    """Of all servers, and of the clients of this process."""
    cert, key = authority.issue()
    return {
        "RMQ_TLS_SERVER_MODE": "enforcing",
        "RMQ_TLS_SERVER_CERT_PATH": cert,
        "RMQ_TLS_SERVER_KEY_PATH": key,
        "RMQ_TLS_ENABLE": "true",
        "RMQ_TLS_CLIENT_TRUST_CERT_PATH": authority.path,
        "RMQ_AUTHENTICATION_ENABLED": "true",
        "RMQ_AUTHORIZATION_ENABLED": "true",
        "RMQ_INNER_CLIENT_AUTHENTICATION_CREDENTIALS": json.dumps({"accessKey": "servers", "secretKey": "secret"}),
    }


def as_clients(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in ("RMQ_TLS_ENABLE", "RMQ_TLS_CLIENT_TRUST_CERT_PATH"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setenv("RMQ_ACCESS_KEY", "servers")
    monkeypatch.setenv("RMQ_SECRET_KEY", "secret")


@pytest.mark.timeout(600)
def test_kills_with_tls_and_users_on(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The slave comes back to the same log, and has what its master acknowledged when that is killed under load."""
    environment, rng, checker = settings(authority), Random(seed), Checker()
    as_clients(monkeypatch, environment)
    history = History(checker.feed)
    history.opened(BROKER, 1)
    with Replicas(tmp_path, "SYNC_MASTER", environment=environment) as replicas:
        replicas.create_topic(TOPIC, len(QUEUES))
        replicas.create_topic(PROBES, 1)
        replicas.wait_until_in_step()
        with (load := Senders(history, replicas, "before", rng.getrandbits(32))):
            assert history.wait_for(lambda: history.acknowledged >= 300, _PATIENCE_S), load.failure
        replicas.slave.kill()
        replicas.slave.start()
        replicas.wait_until_in_step()
        before = history.acknowledged
        with (load := Senders(history, replicas, "after", rng.getrandbits(32))):
            assert history.wait_for(lambda: history.acknowledged >= before + 300, _PATIENCE_S), load.failure
            replicas.master.kill()
        bring_back_master(replicas, load, history, checker, "slave")
        check_the_end(replicas, history, checker)
        assert "refused to send the log" not in replicas.master.errors
