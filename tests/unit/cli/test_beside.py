"""Settings of `rmq up` with which its broker could not reach its own name server."""

from __future__ import annotations

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.beside import check_they_can_talk
from rmqspark.errors import InvalidArgument

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
