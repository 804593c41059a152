"""Users and their rights over the wire: RocketMQ's requests, codes and words; and what nobody is told."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.access_control import AclInfo, UserInfo, decode_acls, decode_users
from rmqspark.protocol.bodies.route import ClusterInfo
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.access_control import (
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rmqspark.protocol.headers.cluster import (
    GetRouteInfoRequestHeader,
    RegisterBrokerRequestHeader,
    UnregisterBrokerRequestHeader,
)
from rmqspark.protocol.headers.consume import QueryMessageRequestHeader
from rmqspark.protocol.signature import signature
from rmqspark.remoting.access import Credentials
from rmqspark.testing.fuzz.attack import first_answer
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration

ANN, BOB, CHIEF = Credentials("ann", "ann-secret"), Credentials("bob", "bob-secret"), Credentials("chief", "c-secret")
NO_PERMISSION = ResponseCode.NO_PERMISSION


def said(answer: Response) -> tuple[int, str | None]:
    return answer.code, answer.remark


def test_users_come_and_go(guarded) -> None:
    """Made, shown, disabled, deleted; with RocketMQ's answers where that cannot be."""

    async def talk(cluster) -> None:
        root = cluster.root
        ann = await cluster.made(ANN)
        code, header = RequestCode, UserRequestHeader("ann")
        assert said(await root.ask(code.AUTH_CREATE_USER, header, UserInfo("x").encode())) == (
            NO_PERMISSION,
            "The user is existed",
        )
        shown = UserInfo.decode((await root.done(code.AUTH_GET_USER, header)).body)
        assert (shown.username, shown.userType, shown.userStatus, shown.password) == ("ann", "Normal", "enable", None)
        listed = await root.done(code.AUTH_LIST_USER, ListUsersRequestHeader("n"))
        assert [(user.username, user.password) for user in decode_users(listed.body)] == [
            ("ann", None),
            ("inner", None),
        ]

        await ann.done(code.RMQ_CAPABILITIES)
        await root.done(code.AUTH_UPDATE_USER, header, UserInfo(userStatus="disable").encode())
        assert said(await ann.ask(code.RMQ_CAPABILITIES)) == (NO_PERMISSION, "User:ann is disabled.")
        await root.done(code.AUTH_UPDATE_USER, header, UserInfo("new", "enable").encode())
        assert said(await ann.ask(code.RMQ_CAPABILITIES)) == (NO_PERMISSION, "check signature failed.")
        await (await cluster.talk(ANN._replace(secret_key="new"))).done(code.RMQ_CAPABILITIES)

        await root.done(code.AUTH_DELETE_USER, header)
        await root.done(code.AUTH_DELETE_USER, header)  # gone is gone
        assert (await root.done(code.AUTH_GET_USER, header)).body == b""
        absent = await root.ask(code.AUTH_UPDATE_USER, header, UserInfo("x").encode())
        assert said(absent) == (NO_PERMISSION, "The user is not exist")
        blank = await root.ask(code.AUTH_CREATE_USER, UserRequestHeader(" "), UserInfo("x").encode())
        assert said(blank) == (ResponseCode.INVALID_PARAMETER, "The username is blank")

    guarded(talk)


def test_rights_come_and_go(guarded) -> None:
    """Given, shown, changed and taken, one by one and all together."""

    async def talk(cluster) -> None:
        root, code = cluster.root, RequestCode
        ann = await cluster.made(ANN, Topic_hers="Pub", Topic="Get")
        await root.create_user(BOB)
        await root.allow(BOB, Group="Sub")
        refused = await ann.send("theirs")
        words = "User:ann has no permission to access Topic:theirs from 127.0.0.1, no matched policies."
        assert said(refused) == (NO_PERMISSION, words)
        assert (await ann.send("hers")).code == 0

        async def listed(**filters: str) -> list[tuple[str | None, list[str | None]]]:
            answer = await root.done(code.AUTH_LIST_ACL, ListAclsRequestHeader(**filters))
            return [
                (acl.subject, [entry.resource for policy in acl.policies or () for entry in policy.entries or ()])
                for acl in decode_acls(answer.body)
            ]

        assert await listed() == [("User:ann", ["Topic:hers", "Topic:*"]), ("User:bob", ["Group:*"])]
        assert await listed(subjectFilter="ann") == [("User:ann", ["Topic:hers", "Topic:*"])]
        assert await listed(resourceFilter="hers") == [("User:ann", ["Topic:hers"])]

        await root.done(code.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann", resource="Topic:hers"))
        assert (await ann.send("hers")).code == NO_PERMISSION
        shown = AclInfo.decode((await root.done(code.AUTH_GET_ACL, AclRequestHeader("User:ann"))).body)
        assert [policy.policyType for policy in shown.policies or ()] == ["Custom"]
        await root.done(code.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann"))
        assert (await root.done(code.AUTH_GET_ACL, AclRequestHeader("User:ann"))).body == b""
        gone = await root.ask(code.AUTH_DELETE_ACL, DeleteAclRequestHeader("User:ann"))
        assert said(gone) == (NO_PERMISSION, "The acl is not exist.")
        nobody = await root.ask(code.AUTH_GET_ACL, AclRequestHeader("User:nobody"))
        assert said(nobody) == (NO_PERMISSION, "The subject is not exist.")

    guarded(talk)


def test_who_may_make_users_makes_no_super_users(guarded) -> None:
    """Nor takes the place of one."""

    async def talk(cluster) -> None:
        chief, code = await cluster.made(CHIEF, Cluster="Update,Get"), RequestCode
        await chief.create_user(ANN)
        made = await chief.ask(code.AUTH_CREATE_USER, UserRequestHeader("x"), UserInfo("x", None, "Super").encode())
        assert said(made) == (ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user")
        raised = await chief.ask(code.AUTH_UPDATE_USER, UserRequestHeader("ann"), UserInfo(userType="super").encode())
        assert said(raised) == (ResponseCode.SYSTEM_ERROR, "The super user can only be update by super user")
        for request in (
            (code.AUTH_UPDATE_USER, UserRequestHeader("root"), UserInfo("mine").encode()),
            (code.AUTH_DELETE_USER, UserRequestHeader("root"), b""),
        ):
            assert said(await chief.ask(*request)) == (NO_PERMISSION, "The super user can only be update by super user")

    guarded(talk)


def test_an_unknown_user_is_answered_as_a_wrong_signature_is(guarded) -> None:
    """Who guesses learns no names, also not of disabled users (S15)."""

    async def talk(cluster) -> None:
        await cluster.root.create_user(ANN)
        await cluster.root.done(
            RequestCode.AUTH_UPDATE_USER, UserRequestHeader("ann"), UserInfo(userStatus="disable").encode()
        )
        for who in (Credentials("nobody", "x"), Credentials("root", "x"), Credentials("ann", "x")):
            answer = await (await cluster.talk(who)).ask(RequestCode.RMQ_CAPABILITIES)
            assert (*said(answer), bytes(answer.body)) == (NO_PERMISSION, "check signature failed.", b"")

    guarded(talk)


def test_no_answer_has_a_secret_in_it(guarded) -> None:
    """Neither the settings nor the users, whoever asks (F7)."""
    files, names = MemoryFileSystem(), MemoryFileSystem()

    async def talk(cluster) -> None:
        await cluster.root.create_user(ANN)
        at_names = await cluster.talk(cluster.root_user, cluster.namesrv.address)
        answers = []
        for talk in (cluster.root, at_names):
            for code in RequestCode:
                if code.name.startswith(("GET_", "AUTH_GET", "AUTH_LIST", "RMQ_")):
                    answers.append(await talk.ask(code))
            for name in ("root", "inner", "ann"):
                answers.append(await talk.ask(RequestCode.AUTH_GET_USER, UserRequestHeader(name)))
        told = "".join(f"{answer.remark}{answer.fields}{bytes(answer.body)!r}" for answer in answers)
        assert "initAuthenticationUser=***" in told
        assert "secret" not in told

    guarded(talk, files=files, names=names)


def test_what_was_signed_is_what_is_carried_out(guarded) -> None:
    """A field or a byte of the body changed on the way, or one more field, and the request is refused."""

    async def talk(cluster) -> None:
        fields = {"AccessKey": "root", "username": "ann"}
        body = UserInfo("x").encode()
        signed = {**fields, "Signature": signature(fields, body, "root-secret")}

        def outcome(fields: dict[str, str], body: bytes) -> str | None:
            wire = b"".join(encode_request(RequestCode.AUTH_CREATE_USER, 1, None, body, extra=fields))
            return first_answer(cluster.broker.address, wire)[0].remark

        for changed, with_body in (
            ({**signed, "username": "bob"}, body),
            ({**signed, "more": "1"}, body),
            ({**signed, "AccessKey": "inner"}, body),
            ({**signed, "Signature": ""}, body),
            ({name: value for name, value in signed.items() if name != "Signature"}, body),
            (signed, UserInfo("y").encode()),
        ):
            assert await asyncio.to_thread(outcome, changed, with_body) == "check signature failed."
        assert await asyncio.to_thread(outcome, signed, body) is None

    guarded(talk)


def test_what_goes_by_a_whitelist(guarded) -> None:
    """Without a signature it is nobody's, whatever name it carries: a right has to come from the other list."""

    async def talk(cluster) -> None:
        namesrv = cluster.namesrv.address
        route = (RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader("orders"))
        await cluster.root.create_topic("orders")
        nobody = await cluster.talk(None, namesrv)
        await nobody.done(*route)
        listed = await nobody.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert said(listed) == (
            NO_PERMISSION,
            "Authorization failed. Please verify your access rights and try again.",
        )
        forged = await cluster.talk(Credentials("root", "guessed"), namesrv)
        assert (await forged.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).code == NO_PERMISSION
        root = await cluster.talk(cluster.root_user, namesrv)
        await root.done(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert said(await nobody.ask(RequestCode.GET_BROKER_CLUSTER_INFO)) == (
            NO_PERMISSION,
            "username cannot be null.",
        )

    guarded(talk, authentication_whitelist="105,206", authorization_whitelist="105")


def test_all_users_may_do_all_without_authorization(guarded) -> None:
    """Then it is only asked who they are."""

    async def talk(cluster) -> None:
        ann = await cluster.made(ANN)
        await ann.create_topic("orders")
        assert (await ann.send("orders")).code == 0
        nobody = await cluster.talk(None)
        assert said(await nobody.send("orders")) == (NO_PERMISSION, "username cannot be null.")

    guarded(talk, authorization_enabled=False)


def test_a_name_server_has_users_of_its_own(guarded) -> None:
    """They are told apart from the broker's, and there again after a restart."""
    files, names = MemoryFileSystem(), MemoryFileSystem()

    async def first(cluster) -> None:
        at_names = await cluster.talk(cluster.root_user, cluster.namesrv.address)
        await at_names.create_user(ANN)
        await at_names.allow(ANN, Topic="Get")

    async def then(cluster) -> None:
        await cluster.root.create_topic("orders")
        ann = await cluster.talk(ANN, cluster.namesrv.address)
        await ann.done(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader("orders"))
        unknown = await (await cluster.talk(ANN)).ask(RequestCode.RMQ_CAPABILITIES)
        assert said(unknown) == (NO_PERMISSION, "check signature failed.")

    for talk in (first, then):
        names.crash()
        guarded(talk, files=files, names=names)


@pytest.mark.parametrize(("version", "outcome"), [(399, None), (401, "check signature failed.")])
def test_older_clients_do_not_sign_that_they_look_for_an_id(guarded, version: int, outcome: str | None) -> None:
    """They set `_UNIQUE_KEY_QUERY` behind the signature; so it does not count up to version 399."""

    async def talk(cluster) -> None:
        header = QueryMessageRequestHeader("orders", "k", 1, 0, 1)
        fields = {name: str(getattr(header, name)) for name in header.__struct_fields__} | {"AccessKey": "root"}
        fields["Signature"] = signature(fields, b"", "root-secret")
        fields["_UNIQUE_KEY_QUERY"] = "true"
        head = json.dumps({"code": 12, "opaque": 1, "version": version, "extFields": fields}).encode()
        wire = struct.pack(">II", 4 + len(head), len(head)) + head
        answers = await asyncio.to_thread(first_answer, cluster.broker.address, wire)
        assert answers[0].remark == (outcome or "can not find message, maybe time range not correct")

    guarded(talk)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_beyond_loopback_it_takes_a_guard(guarded, is_guarded: bool) -> None:
    """Broker and name server listen for all where they ask who asks, and refuse to where they do not (S2)."""

    async def talk(cluster) -> None:
        nobody = await cluster.talk(None)
        assert said(await nobody.ask(RequestCode.RMQ_CAPABILITIES)) == (NO_PERMISSION, "username cannot be null.")

    settings = {"bind_address": "0.0.0.0", "broker_ip1": "127.0.0.1"}
    if is_guarded:
        guarded(talk, **settings)
        return
    with pytest.raises(InvalidArgument, match="Refusing to listen on 0.0.0.0: without authentication") as caught:
        guarded(talk, authentication_enabled=False, authorization_enabled=False, **settings)
    assert "authentication_enabled = true" in caught.value.hint


def test_a_broker_with_a_wrong_key_is_not_registered(guarded) -> None:
    """A name server takes brokers in, and out, by their keys alone (S14)."""

    async def talk(cluster) -> None:
        route = RegisterBrokerRequestHeader("broker-a", "10.0.0.1:1", "DefaultCluster", "10.0.0.1:2", 0)
        gone = UnregisterBrokerRequestHeader("broker-a", cluster.broker.address, "DefaultCluster", 0)
        names = cluster.namesrv.address
        for who, words in (
            (None, "username cannot be null."),
            (Credentials("inner", "guessed"), "check signature failed."),
        ):
            forger = await cluster.talk(who, names)
            assert said(await forger.ask(RequestCode.REGISTER_BROKER, route, b"{}")) == (NO_PERMISSION, words)
            assert said(await forger.ask(RequestCode.UNREGISTER_BROKER, gone)) == (NO_PERMISSION, words)
        root = await cluster.talk(cluster.root_user, names)
        known = ClusterInfo.decode((await root.done(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert known.brokerAddrTable["broker-a"].brokerAddrs == {0: cluster.broker.address}

    guarded(talk)


def test_who_may_register_in_a_cluster_takes_no_broker_out_of_another(guarded) -> None:
    """A right is about the cluster that a registration names. Under the name of another cluster's broker it would give
    that broker's clients an address of its own, and take the broker along (S14)."""
    eve, files = Credentials("eve", "eve-secret"), MemoryFileSystem()

    async def talk(cluster) -> None:
        names = cluster.namesrv.address
        root = await cluster.talk(cluster.root_user, names)
        await root.create_user(eve)
        await root.allow(eve, Cluster_hers="Update")
        forger = await cluster.talk(eve, names)
        route = RegisterBrokerRequestHeader("broker-a", "6.6.6.6:1", "hers", "6.6.6.6:2", 7)
        code, words = said(await forger.ask(RequestCode.REGISTER_BROKER, route, b"{}"))
        assert (code, "DefaultCluster" in words) == (NO_PERMISSION, True)
        known = ClusterInfo.decode((await root.done(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert known.clusterAddrTable == {"DefaultCluster": ["broker-a"]}
        assert known.brokerAddrTable["broker-a"].brokerAddrs == {0: cluster.broker.address}

    guarded(talk, names=files)


def test_refusals_are_told_once_and_in_print(guarded) -> None:
    """The log names who was refused, and no byte of it moves the cursor of who reads it (S18)."""

    async def talk(cluster) -> None:
        with capture_logs() as logs:
            for name in ("\x1b[2Jann\n", "another", "a third"):
                talk = await cluster.talk(Credentials(name, "x"))
                assert (await talk.ask(RequestCode.RMQ_CAPABILITIES)).code == NO_PERMISSION
        refused = [(entry["user"], entry["code"], entry["reason"]) for entry in logs if entry["event"] == "refused"]
        assert refused == [("\\x1b[2Jann\\n", 30000, "check signature failed.")]

    guarded(talk)
