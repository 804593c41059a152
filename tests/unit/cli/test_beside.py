"""Settings of `rmq up` with which its broker could not reach its own name server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.setting_flags import Sources
from rmqspark.cli.up.beside import check_they_can_talk, tell_of_unserved, without_clients_switch
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = {"tls_server_cert_path": "cert.pem"}
ENFORCING = {**CERTIFICATE, "tls_server_mode": "enforcing"}
REQUIRED = {**CERTIFICATE, "tls_server_need_client_auth": "require", "tls_server_trust_cert_path": "ca.pem"}
ON = {"tls_enable": True}


@pytest.mark.parametrize(
    ("settings", "story", "missing"),
    [
        (ENFORCING, "tls_server_mode is enforcing, and tls_enable is not on", "tls_enable"),
        (ON, "tls_enable is on, and the name server beside the broker has no TLS", "tls_server_cert_path"),
        (REQUIRED | ON, "tls_server_need_client_auth is require, and the broker", "tls_client_cert_path"),
        (REQUIRED | ENFORCING, "tls_server_mode is enforcing, and tls_enable is not on", "tls_enable"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, object], story: str, missing: str) -> None:
    """It is said at the start, with the setting that is missing."""
    with pytest.raises(InvalidArgument, match=story) as refused:
        check_they_can_talk(BrokerConfig(**settings))  # type: ignore[arg-type]
    assert missing in refused.value.hint


@pytest.mark.parametrize(
    "settings",
    [{}, CERTIFICATE, CERTIFICATE | ON, ENFORCING | ON, REQUIRED, REQUIRED | ON | {"tls_client_cert_path": "cert.pem"}],
)
def test_what_does(settings: dict[str, object]) -> None:
    """Without TLS, where it is not enforced, too."""
    check_they_can_talk(BrokerConfig(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("file", [{"tls_enable": False}, {"tls_enable": True}, {}])
@pytest.mark.parametrize("flag", [None, "false", "true"])
def test_the_switch_of_clients_alone_does_not_ask_for_tls(
    file: dict[str, object], flag: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it stands in a file or on the command line, too, it is meant for this queue."""
    monkeypatch.setenv("RMQ_TLS_ENABLE", "true")
    sources = Sources(file, {"tls_enable": flag})
    found = without_clients_switch(sources.settings(BrokerConfig), sources)
    assert found.tls_enable is (flag == "true" or (flag is None and bool(file)))
    assert ("$RMQ_TLS_ENABLE is left aside" in capsys.readouterr().err) is (flag is None and not file)


@pytest.mark.parametrize(
    "settings", [CERTIFICATE, {"bind_address": "0.0.0.0", "insecure": True}], ids=["certificate", "network"]
)
def test_the_switch_counts_where_it_may_be_meant(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a certificate; and beyond loopback, where nobody is to be left without TLS by a slip."""
    monkeypatch.setenv("RMQ_TLS_ENABLE", "true")
    sources = Sources(settings, {})
    assert without_clients_switch(sources.settings(BrokerConfig), sources).tls_enable


def test_a_store_beside_that_may_not_be_looked_into_keeps_no_broker_from_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As another user's: the start ended for what was to be a word about it. Of those behind it is told."""
    for name in ("broker-b", "broker-c"):
        (tmp_path / name / "commitlog").mkdir(parents=True)
    (tmp_path / "broker-b" / "lock").symlink_to("lock")  # an error for root, too
    tell_of_unserved(tmp_path, ["broker-a", "broker-b", "broker-c"], 1)
    told = capsys.readouterr().err
    assert "broker-b" not in told
    assert "broker-c is the store of a broker, too, and is not served" in told
