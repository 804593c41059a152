"""What brokers tell of their settings."""

from __future__ import annotations

import pytest

from rmqspark.client.administration.broker_facts import config_of
from rmqspark.remoting.response import Response

TOLD = """#Fri Nov 27 2026
brokerName=broker-a
initAuthenticationUser={"username":"root","password":"12345678"}
innerClientAuthenticationCredentials={"accessKey":"servers","secretKey":"87654321"}
metricsGrpcExporterHeader=authorization:Bearer 11111111
tlsServerKeyPassword=
fileReservedTime=48
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brokerName", "broker-a"),
        ("initAuthenticationUser", "***"),
        ("innerClientAuthenticationCredentials", "***"),
        ("metricsGrpcExporterHeader", "***"),
        ("tlsServerKeyPassword", ""),
        ("fileReservedTime", "48"),
    ],
)
def test_no_secret_of_rocketmq_s_brokers_is_shown(name: str, value: str) -> None:
    """They answer with all that is in their file; who may only look would have the passwords of all (S6)."""
    assert config_of(Response(0, 1, None, 479, {}, TOLD.encode()))[name] == value
