"""RocketMQ's slave of our master, and our slave of its master: the logs are the same bytes."""

from __future__ import annotations

import json
from contextlib import ExitStack
from random import randbytes
from typing import TYPE_CHECKING

import pytest
from ours import broker, name_server, read
from rocketmq import wait_for

from rmqspark import AdminClient, Message, Producer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.model import SendStatus
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection

if TYPE_CHECKING:
    from pathlib import Path

    from jvm import Jvm
    from rocketmq import RocketMQ

pytestmark = [pytest.mark.java, pytest.mark.integration]
LOG_BYTES = 1 << 20
SMALL = ("--mapped-file-size-commit-log", str(LOG_BYTES))
SLAVE = ("--id", "1", "--broker-role", "SLAVE")
ONE_TRY = SendConfig(retry_times_when_send_failed=0, send_msg_timeout=20_000)


def send(namesrv: str, count: int) -> list[SendStatus]:
    """Enough for several files of the log."""
    with Producer(namesrv, config=ONE_TRY) as producer:
        return [producer.send(Message("orders", b"%05d" % n + randbytes(20_000))).status for n in range(count)]


def end_offset(address: str) -> int:
    """Of a broker's log; -1 for a stock broker that is only just there."""
    connection = BlockingConnection(address)
    try:
        answer = connection.call(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=10_000)
        return int(json.loads(bytes(answer.body))["table"]["commitLogMaxOffset"]) if not answer.code else -1
    finally:
        connection.close()


def assert_same_log(master: Path, slave: Path, end: int) -> None:
    """Every file that the slave has begun, up to where the logs end."""
    files = sorted(path.name for path in (slave / "commitlog").iterdir() if int(path.name) < end)
    assert len(files) > 1
    for name in files:
        size = min(LOG_BYTES, end - int(name))
        theirs, ours = ((store / "commitlog" / name).read_bytes()[:size] for store in (master, slave))
        assert theirs == ours, f"file {name} differs"


def test_a_stock_slave_has_the_log_of_our_master(rocketmq: RocketMQ, jvm: Jvm, tmp_path: Path) -> None:
    """RocketMQ's slave registers, follows, is waited for, and serves what our master stored once that is away."""
    roles = ("--broker-role", "SYNC_MASTER", "--ha-send-whole-log", "true", "--slave-timeout", "20000")
    settings = {"brokerId": 1, "brokerRole": "SLAVE", "mappedFileSizeCommitLog": LOG_BYTES, "slaveReadEnable": "true"}
    with name_server(tmp_path / "namesrv") as namesrv, ExitStack() as master:
        ours = master.enter_context(broker(tmp_path / "master", namesrv, "broker-a", *SMALL, *roles))
        with AdminClient(namesrv) as admin:
            admin.create_topic("orders", queues=2)
        assert send(namesrv, 100) == [SendStatus.SLAVE_NOT_AVAILABLE] * 100
        with rocketmq.broker(tmp_path / "slave", namesrv, **settings) as theirs:
            wait_for(lambda: end_offset(theirs.address) == end_offset(ours) > 0, "the stock slave has it all")
            wait_for(lambda: send(namesrv, 1) == [SendStatus.OK], "the stock slave is waited for")
            assert send(namesrv, 100) == [SendStatus.OK] * 100
            end = end_offset(ours)
            assert end_offset(theirs.address) == end
            assert_same_log(tmp_path / "master" / "broker-a", tmp_path / "slave", end)
            assert "#InSyncSlaveNum\t1" in jvm.mqadmin("haStatus", "-n", namesrv, "-b", ours)
            before = [message.body for message in read(namesrv, "orders")]
            wait_for(lambda: has_topic(theirs.address), "the stock slave has the topic")
            master.close()
            assert [message.body for message in read(namesrv, "orders")] == before
            theirs.kill()


def test_our_slave_has_the_log_of_a_stock_master(rocketmq: RocketMQ, tmp_path: Path) -> None:
    """Our slave follows RocketMQ's master, confirms what it waits for, and serves it once that is away."""
    store = tmp_path / "master"
    roles = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 20_000}
    quick = ("--slave-sync-interval", "500")
    with (
        name_server(tmp_path / "namesrv") as namesrv,
        rocketmq.broker(store, namesrv, mappedFileSizeCommitLog=LOG_BYTES, **roles) as theirs,
    ):
        with AdminClient(namesrv) as admin:
            admin.create_topic("orders", queues=2)
        with broker(tmp_path / "slave", namesrv, "broker-a", *SMALL, *SLAVE, *quick) as ours:
            wait_for(lambda: end_offset(ours) == end_offset(theirs.address) >= 0, "our slave has it all")
            assert send(namesrv, 150) == [SendStatus.OK] * 150
            end = end_offset(theirs.address)
            assert end_offset(ours) == end
            assert_same_log(store, tmp_path / "slave" / "broker-a", end)
            before = [message.body for message in read(namesrv, "orders")]
            wait_for(lambda: has_topic(ours), "our slave has the topic")
            theirs.kill()
            assert [message.body for message in read(namesrv, "orders")] == before
            assert len(before) == 150


def test_a_stock_master_is_told_apart_from_one_that_proves_who_it_is(
    rocketmq: RocketMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where users are on our slave takes nothing from it and confirms nothing to it; told that it is RocketMQ's, it
    follows."""
    roles = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 2_000}
    with (
        name_server(tmp_path / "namesrv") as namesrv,
        rocketmq.broker(tmp_path / "master", namesrv, mappedFileSizeCommitLog=LOG_BYTES, **roles),
    ):
        with AdminClient(namesrv) as admin:
            admin.create_topic("orders", queues=2)
        monkeypatch.setenv("RMQ_AUTHENTICATION_ENABLED", "true")
        servers = json.dumps({"accessKey": "servers", "secretKey": "secret"})
        monkeypatch.setenv("RMQ_INNER_CLIENT_AUTHENTICATION_CREDENTIALS", servers)
        log = tmp_path / "slave" / "broker.log"
        with broker(tmp_path / "slave", namesrv, "broker-a", *SMALL, *SLAVE):
            assert SendStatus.OK not in send(namesrv, 10)
            wait_for(lambda: "RocketMQ's cannot" in log.read_text(), "the slave says what is wrong")
            assert SendStatus.OK not in send(namesrv, 3)
        stock = ("--ha-authentication-enabled", "false")
        with broker(tmp_path / "slave", namesrv, "broker-a", *SMALL, *SLAVE, *stock):
            wait_for(lambda: send(namesrv, 1) == [SendStatus.OK], "the stock master waits for our slave")


def has_topic(address: str) -> bool:
    connection = BlockingConnection(address)
    try:
        answer = connection.call(RequestCode.GET_ALL_TOPIC_CONFIG, timeout_ms=10_000)
        return b'"orders"' in bytes(answer.body)
    finally:
        connection.close()
