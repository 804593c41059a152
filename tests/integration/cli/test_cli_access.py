"""`rmq user` and `rmq acl` against `rmq up` with authentication and authorization, each client with its own keys."""

from __future__ import annotations

import json
import signal
import stat
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.protocol.bodies.access_control import UserInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import DeleteAclRequestHeader, UserRequestHeader
from rmqspark.remoting.access import Access, Credentials

if TYPE_CHECKING:
    from .conftest import Outcome, Processes, Server

pytestmark = pytest.mark.integration

ROOT = {"RMQ_ACCESS_KEY": "root", "RMQ_SECRET_KEY": "root-secret"}
ANN = {"RMQ_ACCESS_KEY": "ann", "RMQ_SECRET_KEY": "ann-secret"}
CONF = """
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser={"username":"root","password":"root-secret"}
innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"inner-secret"}
"""


def guarded(processes: Processes) -> Server:
    (processes.directory / "broker.conf").write_text(CONF)
    return processes.up("-c", "broker.conf")


def test_users_are_made_and_given_rights(processes: Processes) -> None:
    """By who may; from then on each may do what it was given, on brokers and name servers, also after a restart."""
    server = guarded(processes)

    def rmq(*words: str, stdin: bytes = b"", who: dict[str, str] = ROOT) -> Outcome:
        return processes.run(*words, stdin=stdin, RMQ_NAMESRV=server.namesrv, **who)

    def done(*words: str, stdin: bytes = b"", who: dict[str, str] = ROOT) -> str:
        outcome = rmq(*words, stdin=stdin, who=who)
        assert outcome.code == 0, outcome.err
        return outcome.out

    done("topic", "create", "orders", "--queues", "1")
    assert "User ann created." in done("user", "create", "ann", "--password-file", "-", stdin=b"ann-secret\n")
    refused = rmq("send", "orders", "hello", who=ANN)
    assert refused.code == 1
    assert "User:ann has no permission to access Topic:orders from 127.0.0.1, no matched policies." in refused.err
    granted = done("acl", "create", "ann", "--resource", "Topic:orders", "--actions", "pub,get")
    assert granted == "Allowed ann: pub,get of Topic:orders.\n"
    done("send", "orders", "hello", who=ANN)
    assert "Topic:orders" in rmq("consume", "orders", who=ANN).err
    done("acl", "create", "ann", "--resource", "Topic:ord*", "--actions", "Sub", "--source-ip", "127.0.0.0/8")
    done("acl", "create", "ann", "--resource", "Group:*", "--actions", "Sub,Get")
    done("acl", "create", "ann", "--resource", "Topic:orders", "--actions", "Pub,Get,Sub")
    assert done("consume", "orders", who=ANN) == "hello\n"
    done("group", "reset", "readers", "--to", "earliest", "--topic", "orders", "--create", "--yes")
    assert "readers" in done("group", "describe", "readers", who=ANN), "though she may not see what queries there are"

    assert "ann" in done("user", "list")
    assert "ann" in [each["username"] for each in json.loads(done("user", "list", "--json"))]
    servers = ["broker-a", server.namesrv]
    described = json.loads(done("user", "describe", "ann", "--json"))
    assert described == [{"username": "ann", "type": "Normal", "enabled": True, "servers": servers, "silent": {}}]
    rights = json.loads(done("acl", "describe", "ann", "--json"))
    assert [(right["resource"], right["actions"], right["sourceIps"]) for right in rights] == [
        ("Group:*", ["Sub", "Get"], []),
        ("Topic:ord*", ["Sub"], ["127.0.0.0/8"]),
        ("Topic:orders", ["Pub", "Get", "Sub"], []),
    ]
    assert [right["servers"] for right in rights] == [servers] * 3
    assert "Topic:ord*" not in done("acl", "list", "--resource", "Topic:orders")
    paths = ("store/broker-a/config/users.json", "store/namesrv/users.json")
    for name in (*paths, *(f"{path}.bak" for path in paths)):
        assert stat.S_IMODE((processes.directory / name).stat().st_mode) == 0o600

    assert server.end(signal.SIGINT) == 0
    server = guarded(processes)
    done("send", "orders", "again", who=ANN)
    for slip in (("--resource", "Topic:ordesr"), ("--resource", "Topic:Orders"), ("--policy", "default")):
        assert "Nothing is said of user 'ann' and" in rmq("acl", "delete", "ann", *slip, "--yes").err
    done("acl", "create", "ann", "--resource", "*", "--actions", "List")
    done("acl", "delete", "ann", "--resource", "*", "--yes")
    done("acl", "delete", "ann", "--resource", "topic:orders", "--yes")
    assert "no permission" in rmq("send", "orders", "hello", who=ANN).err
    with ClusterClient(server.namesrv, access=Access(Credentials("root", "root-secret"))) as cluster:
        header = DeleteAclRequestHeader("User:ann")  # as where the name server was away
        cluster.broker("broker-a").call(RequestCode.AUTH_DELETE_ACL, header, timeout_ms=10_000).raise_for_code()
    done("acl", "delete", "ann", "--yes")
    assert "Nothing is said of user 'ann'." in rmq("acl", "delete", "ann", "--yes").err
    done("user", "update", "ann", "--disable")
    assert "User:ann is disabled." in rmq("send", "orders", "hello", who=ANN).err
    done("user", "delete", "ann", "--yes")
    assert "check signature failed" in rmq("send", "orders", "hello", who=ANN).err
    assert "There is no user 'ann'." in rmq("user", "describe", "ann").err
    for words in (
        ("user", "update", "ann", "--disable"),
        ("acl", "create", "ann", "--resource", "*", "--actions", "Pub"),
    ):
        assert rmq(*words).err.endswith("is not exist.\n  rmq user list shows those that exist.\n")
    assert json.loads(done("acl", "list", "--json")) == []
    assert processes.errors.count("secret") == 0


def test_a_user_that_only_some_servers_have_can_be_made_on_all(processes: Processes) -> None:
    """As where one was away: without leave to go on it is told who has it; with it all have this password and type."""
    server = guarded(processes)
    with ClusterClient(server.namesrv, access=Access(Credentials("root", "root-secret"))) as cluster:
        body = UserInfo("another-secret", userType="Super").encode()
        header = UserRequestHeader("ann")
        cluster.broker("broker-a").call(RequestCode.AUTH_CREATE_USER, header, body, timeout_ms=10_000)

    def create(*words: str) -> Outcome:
        words = ("user", "create", "ann", "--password-file", "-", *words)
        return processes.run(*words, stdin=b"ann-secret\n", RMQ_NAMESRV=server.namesrv, **ROOT)

    refused = create()
    assert refused.code == 1
    assert f"The user is existed. It is on broker-a, and not on {server.namesrv}." in refused.err
    assert "--exist-ok" in refused.err
    for _ in range(2):
        again = create("--exist-ok")
        assert (again.code, "no rights yet" in again.out) == (0, False)
    assert "--exist-ok" in create().err
    described = processes.run("user", "describe", "ann", "--json", RMQ_NAMESRV=server.namesrv, **ROOT).out
    assert json.loads(described) == [
        {"username": "ann", "type": "Normal", "enabled": True, "servers": ["broker-a", server.namesrv], "silent": {}}
    ]
    everything = ("acl", "create", "ann", "--resource", "*", "--actions", "All")
    assert processes.run(*everything, RMQ_NAMESRV=server.namesrv, **ROOT).code == 0
    assert processes.run("topic", "create", "orders", RMQ_NAMESRV=server.namesrv, **ANN).code == 0, "its new password"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("user", "create", "ann"), "No password was given.\n  Say --password-file FILE"),
        (
            ("user", "create", "ann", "--password-file", "nowhere"),
            "--password-file nowhere cannot be read: No such file",
        ),
        (
            ("user", "create", "ann", "--password-file", "binary"),
            "--password-file binary cannot be read: it is no text",
        ),
        (("user", "create", "ann", "--password-file", "empty"), "has no password in its first line"),
        (("user", "update", "ann"), "Nothing is to be changed."),
        (
            ("acl", "create", "ann", "--resource", "orders", "--actions", "Pub"),
            "'orders' is no resource.\n  Write Topic",
        ),
        (("acl", "create", "ann", "--resource", "Topic:a*b", "--actions", "Pub"), "'Topic:a*b' is no resource."),
        (("acl", "create", "ann", "--resource", "*", "--actions", "Fly"), "'Fly' is no action.\n  There are: All, Pub"),
        (("acl", "create", "ann", "--resource", "*", "--actions", ""), "--actions is empty."),
        (
            ("acl", "create", "ann", "--resource", "*", "--actions", "Pub", "--source-ip", "10.*"),
            "'10.*' is no address.\n  Write 10.1.2.3, or 10.0.0.0/8.",
        ),
        (("acl", "delete", "ann", "--policy", "mine", "--yes"), "'mine' is no policy type."),
        (("user", "delete", "ann"), "Nobody can be asked here."),
    ],
)
def test_mistakes_are_told_before_anything_is_done(processes: Processes, words, said) -> None:
    """No server is asked: none is there."""
    (processes.directory / "empty").write_text("\n")
    (processes.directory / "binary").write_bytes(b"\xff\n")
    outcome = processes.run(*words, RMQ_NAMESRV="127.0.0.1:1")
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


def test_a_cluster_without_users_says_so(cli) -> None:
    """And how it gets some."""
    for words in (("user", "list"), ("acl", "list"), ("user", "delete", "ann", "--yes")):
        outcome = cli(*words)
        assert outcome.code == 1
        assert "broker-a: This broker has no users, for nobody has to sign" in outcome.err
