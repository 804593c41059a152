"""Where users are on: who is sent the log, and users and rights that follow to the slaves."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.client.admin import AdminClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies.access_control import AccountTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.access_control import AccountsRequestHeader, AccountsResponseHeader
from rmqspark.remoting.access import Access, Credentials, Tls
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing import LocalCluster, cluster

from ..access.conftest import INNER, ROOT
from .guarded import AS_ROOT, GUARDED_PAIR, encrypted, outcome, wait_until, wait_until_in_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.certificates import Authority

pytestmark = pytest.mark.integration
ANN, NEW_ANN = Credentials("ann", "ann's secret"), Credentials("ann", "another secret")
DENIED = ResponseCode.NO_PERMISSION


@contextmanager
def pair(config: object = GUARDED_PAIR, access: Access = AS_ROOT) -> Iterator[tuple[LocalCluster, AdminClient]]:
    """Both run, with two topics; ann may read one of them."""
    with cluster(broker_config=config) as mq, AdminClient(mq.namesrv, access=access) as admin:  # type: ignore[arg-type]
        for topic in ("orders", "secrets"):
            admin.create_topic(topic, 1)
        mq.start_slave()
        wait_until_in_step(mq, access)
        admin.create_user(*ANN[:2])
        admin.create_acl("ann", ["Topic:orders", "Group:*"], ["Sub", "Get"])
        yield mq, admin


def test_users_and_rights_follow_to_a_slave() -> None:
    """With their passwords, changes and ends; and they are there when the slave starts while its master is away."""
    with capture_logs() as logs, pair() as (mq, admin):
        slave = mq.brokers["broker-a-1"]
        wait_until(lambda: outcome(slave, ANN, "orders") == "", "ann may read from the slave")
        assert "no permission to access Topic:secrets" in outcome(slave, ANN, "secrets")
        admin.create_acl("ann", ["Topic:secrets"], ["Get"])
        wait_until(lambda: outcome(slave, ANN, "secrets") == "", "a right that is given later follows")
        admin.delete_acl("ann", "Topic:secrets")
        wait_until(lambda: "no permission" in outcome(slave, ANN, "secrets"), "a right that is taken goes")
        admin.update_user("ann", password=NEW_ANN.secret_key)
        wait_until(lambda: outcome(slave, NEW_ANN, "orders") == "", "the new password follows")
        assert "check signature failed" in outcome(slave, ANN, "orders")

        mq.stop_slave()
        mq.stop_broker("broker-a")
        slave = mq.start_slave()
        with PullConsumer(mq.namesrv, access=Access(NEW_ANN)) as consumer:
            consumer.assign(consumer.queues("orders"))
            consumer.seek_to_beginning()
            assert consumer.poll(60_000)
        assert "no permission" in outcome(slave, NEW_ANN, "secrets")
        assert "ann" in [user.username for user in admin.users()]
        with pytest.raises(NotWritable, match="only a slave"):
            admin.create_user("eve", "secret of eve")

        mq.start_broker("broker-a")
        admin.delete_user("ann")
        wait_until(lambda: "check signature failed" in outcome(slave, NEW_ANN, "orders"), "who is deleted is gone")
    assert not [secret for secret in SECRETS if secret in str(logs)]


SECRETS = (ANN.secret_key, NEW_ANN.secret_key, ROOT.secret_key, INNER.secret_key)


def test_log_users_and_rights_go_over_tls(authority: Authority) -> None:
    """All of it arrives where brokers speak TLS with each other."""
    access = Access(ROOT, Tls(authority.path))
    with pair(encrypted(GUARDED_PAIR, authority), access) as (mq, _):
        wait_until(lambda: outcome(mq.brokers["broker-a-1"], ANN, "orders") == "", "ann may read from the slave")


def test_a_slave_without_the_secret_is_not_sent_the_log() -> None:
    """It is registered, and signs as a super user; that it does not know the servers' secret is enough."""
    settings = replace(GUARDED_PAIR, init_authentication_user="", broker_role="ASYNC_MASTER")
    wrong = json.dumps({"accessKey": INNER.access_key, "secretKey": "guessed"})
    with capture_logs() as logs, cluster(broker_config=settings) as mq:
        mq._broker_config = replace(settings, inner_client_authentication_credentials=wrong)  # the slave's alone
        mq.start_slave()
        wait_until(lambda: any(each["event"] == "refused to send the log" for each in logs), "the master tells of it")
        wait_until(lambda: any("its log says why" in str(each.get("reason")) for each in logs), "the slave, too")
        with AdminClient(mq.namesrv, access=Access(INNER)) as admin:
            wait_until(lambda: refusals(admin, "no_proof") > 1, "each try is counted")
    (refused,) = [each for each in logs if each["event"] == "refused to send the log"]
    assert "innerClientAuthenticationCredentials" in refused["reason"]
    assert "guessed" not in str(logs)


def refusals(admin: AdminClient, reason: str) -> float:
    """What the master counts."""
    lines = admin.metrics("broker-a").splitlines()
    found = [line for line in lines if line.startswith("rmqspark_refused_slaves_total{") and f'"{reason}"' in line]
    return sum(float(line.split()[-1]) for line in found)


# --- who is told the users


class Asking:
    """A connection over which the users are asked for."""

    def __init__(self, address: str, user: Credentials, tls: Tls | None = None) -> None:
        self._connection = BlockingConnection(address, access=Access(user, tls))

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def say(self, **fields: str) -> tuple[int, AccountsResponseHeader, bytes]:
        answer = self._connection.call(RequestCode.RMQ_ACCOUNTS, AccountsRequestHeader(**fields), timeout_ms=60_000)
        return answer.code, answer.header(AccountsResponseHeader), bytes(answer.body)


def test_users_are_told_to_who_proves_to_be_a_server() -> None:
    """Not for a signature alone, not twice for one proof, not on another connection, and to no other user."""
    from rmqspark.broker.replica.account_copies import Exchange

    with pair() as (mq, _):
        master, mine = mq.brokers["broker-a"], bytes(32)
        with Asking(master, INNER) as slave, Asking(master, INNER) as other, Asking(master, ANN) as ann:
            _, header, body = slave.say(nonce=mine.hex())
            assert not body
            exchange = Exchange(mine, bytes.fromhex(header.nonce or ""))
            proven = exchange.slave_proof(INNER.secret_key).hex()
            other.say(nonce=mine.hex())
            assert other.say(proof=proven)[0] == DENIED
            code, header, body = slave.say(proof=proven)
            assert code == 0
            assert {user.username for user in AccountTable.decode(body).users} == {"root", "inner", "ann"}
            assert exchange.is_master(bytes.fromhex(header.proof or ""), INNER.secret_key, body)
            assert not exchange.is_master(bytes.fromhex(header.proof or ""), INNER.secret_key, body + b" ")
            assert slave.say(proof=proven)[0] == DENIED
            slave.say(nonce=mine.hex())
            assert slave.say(proof="no hex")[0] == DENIED
            assert ann.say(nonce=mine.hex())[0] == DENIED
