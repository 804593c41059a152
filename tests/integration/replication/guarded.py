"""A master and a slave that ask who asks: what is asked of them, and waited for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.broker.config import BrokerConfig
from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.model import Message, SendStatus
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.remoting.access import Access, Credentials, Tls
from rmqspark.remoting.blocking import BlockingConnection

from ..access.conftest import GUARDED, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from rmqspark.remoting.response import Response
    from rmqspark.testing import LocalCluster
    from tests.certificates import Authority

PATIENCE_S = 60
AS_ROOT = Access(ROOT)
GUARDED_PAIR = BrokerConfig(
    ha_send_heartbeat_interval=200,
    slave_sync_interval=100,
    ha_send_whole_log=True,
    broker_role="SYNC_MASTER",
    **GUARDED,  # type: ignore[arg-type]
)


def encrypted(config: BrokerConfig, authority: Authority, mode: str = "permissive") -> BrokerConfig:
    cert, key = authority.issue()
    return replace(
        config,
        tls_server_mode=mode,
        tls_server_cert_path=cert,
        tls_server_key_path=key,
        tls_enable=True,
        tls_client_trust_cert_path=authority.path,
    )


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to this: {what}"
        time.sleep(0.01)


def ask(address: str, user: Credentials, code: RequestCode, header: msgspec.Struct, tls: Tls | None = None) -> Response:
    connection = BlockingConnection(address, access=Access(user, tls))
    try:
        return connection.call(code, header, timeout_ms=60_000)
    finally:
        connection.close()


def outcome(address: str, user: Credentials, topic: str) -> str:
    """Of a read: "" where it was answered."""
    return ask(address, user, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic, 0)).remark or ""


def wait_until_in_step(mq: LocalCluster, access: Access = AS_ROOT, topic: str = "orders") -> None:
    """The master waits for its slave from now on."""
    with Producer(mq.namesrv, config=SendConfig(retry_times_when_send_failed=0), access=access) as producer:
        wait_until(lambda: producer.send(Message(topic, b"?")).status is SendStatus.OK, "the slave is waited for")
