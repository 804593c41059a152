"""What is asked of the guard later: about whoever has signed last on a connection."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from rmqspark.auth.accounts import Accounts
from rmqspark.auth.config import AuthConfig
from rmqspark.auth.forms import acl_of
from rmqspark.auth.guard import Guard
from rmqspark.auth.needs import Here
from rmqspark.auth.resources import Action, topic
from rmqspark.auth.users import User, UserType
from rmqspark.errors import NoPermission
from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.signature import signature
from rmqspark.testing.memory_files import MemoryFileSystem

ADDRESS = "10.0.0.1"
HERS, THEIRS = topic("hers", Action.SUB), topic("theirs", Action.SUB)
PULL = {"authentication_whitelist": str(int(RequestCode.PULL_MESSAGE))}
ALLOWED = {"authorization_whitelist": str(int(RequestCode.PULL_MESSAGE))}
SIGNED_ONLY = {"authorization_enabled": False}


class Client:
    peer = (ADDRESS, 4711)


def request(client: Client, code: RequestCode, username: str = "") -> Any:
    fields = {"AccessKey": username} if username else {}
    fields["Signature"] = signature(fields, b"", "secret")
    return SimpleNamespace(connection=client, code=code, fields=fields, body=b"", version=479)


def filled() -> Accounts:
    """root, a super user, and ann, who may read her topic from her address."""
    accounts = Accounts(MemoryFileSystem())
    accounts.found([User("root", "secret", UserType.SUPER)])
    entry = PolicyEntryInfo(["Sub"], "Allow", "Topic:hers", sourceIps=[ADDRESS])

    async def fill() -> None:
        await accounts.create_user(UserInfo("secret", None, "Normal", "ann"))
        await accounts.put_acl("User:ann", acl_of(AclInfo([PolicyInfo([entry])], "User:ann")))

    asyncio.run(fill())
    return accounts


@pytest.mark.parametrize(
    ("settings", "who", "need", "then", "is_told", "is_answered"),
    [
        ({}, "", HERS, "", False, True),
        (SIGNED_ONLY, "", HERS, "", True, True),
        ({}, "ann", HERS, "", True, True),
        ({}, "ann", THEIRS, "", False, False),
        ({}, "ann", HERS, "disabled", False, False),
        ({}, "ann", HERS, "deleted", False, False),
        ({}, "root", THEIRS, "", True, True),
        (SIGNED_ONLY, "ann", THEIRS, "", True, True),
        (SIGNED_ONLY, "ann", THEIRS, "disabled", False, False),
        (SIGNED_ONLY, "ann", THEIRS, "deleted", False, False),
        (PULL, "ann", THEIRS, "", False, False),
        (PULL | SIGNED_ONLY, "ann", THEIRS, "disabled", False, True),  # nobody has to sign that
        (ALLOWED, "ann", THEIRS, "", False, True),
        (ALLOWED, "ann", THEIRS, "disabled", False, False),
        (ALLOWED | PULL, "ann", THEIRS, "disabled", False, True),
    ],
)
def test_whoever_signed_before_is_looked_at_again(
    settings: dict[str, Any], who: str, need: Any, then: str, is_told: bool, is_answered: bool
) -> None:
    """Where it is told of something of its own accord, and where a request of it was held."""
    accounts, client = filled(), Client()
    config = AuthConfig(**{"authentication_enabled": True, "authorization_enabled": True} | settings)
    guard = Guard(config, accounts, Here())
    if who:
        guard.check(request(client, RequestCode.RMQ_CAPABILITIES, who))
    if then == "disabled":
        asyncio.run(accounts.update_user(UserInfo(None, "disable", None, who), by_super=True))
    elif then == "deleted":
        asyncio.run(accounts.delete_user(who, by_super=True))
    assert (guard.user_of(client), guard.may(client, need)) == (who, is_told)
    with nullcontext() if is_answered else pytest.raises(NoPermission):
        guard.check_again(request(client, RequestCode.PULL_MESSAGE), [need])
