"""What the name server of `rmq up` has of the settings for its brokers."""

from __future__ import annotations

from pathlib import Path

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.up.verb import _namesrv_beside
from rmqspark.remoting.tls.settings import TlsServing


def test_it_listens_as_its_broker_does() -> None:
    """On the same address, encrypted with the same certificate, wherever the broker has these from; on its own port."""
    broker = BrokerConfig(
        bind_address="10.0.0.5",
        insecure=True,
        broker_ip1="10.0.0.5",
        tls_server_cert_path="c.pem",
        tls_server_key_path="k.pem",
        tls_server_mode="enforcing",
    )
    names = _namesrv_beside(broker, {"listen_port": 10911, "enable_topic_list": False}, 9876, Path("store"))
    assert (names.bind_address, names.insecure, names.listen_port) == ("10.0.0.5", True, 9876)
    assert names.tls_serving == TlsServing("c.pem", "k.pem", enforcing=True)
    assert not names.enable_topic_list


def test_it_lets_in_whom_its_broker_does() -> None:
    """It has its users in a directory of its own, beside the broker's, unless another is named."""
    first = '{"username":"root","password":"secret"}'
    broker = BrokerConfig(authentication_enabled=True, authorization_enabled=True, init_authentication_user=first)
    names = _namesrv_beside(broker, {}, 9876, Path("store"))
    assert names.auth_settings == broker.auth_settings
    assert names.auth_config_path == "store/namesrv"
    assert _namesrv_beside(broker, {"auth_config_path": "users"}, 9876, Path("store")).auth_config_path == "users"
