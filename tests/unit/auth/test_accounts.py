"""Users and rights on disk: there before they are answered, and after every crash."""

from __future__ import annotations

import asyncio
import errno
import json
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.auth.accounts import Accounts
from rmqspark.auth.forms import acl_of
from rmqspark.auth.resources import PolicyType, Resource
from rmqspark.auth.users import User, UserStatus, UserType
from rmqspark.errors import DamagedFile, InvalidArgument, NoPermission, NotWritable
from rmqspark.protocol.bodies.access_control import (
    AccountTable,
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserTable,
)
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

ROOT = User("root", "pw", UserType.SUPER)
ANN = UserInfo("secret", None, "Normal", "ann")


def rights(resource: str = "Topic:orders", actions: str = "Pub", decision: str = "Allow"):
    return acl_of(AclInfo([PolicyInfo([PolicyEntryInfo(actions.split(","), decision, resource)])], "User:ann"))


def test_what_was_answered_survives_a_power_loss() -> None:
    """Users, rights, and what was taken away of both."""
    files = MemoryFileSystem()

    async def change() -> None:
        accounts = Accounts(files)
        accounts.found([ROOT])
        await accounts.create_user(ANN)
        await accounts.create_user(UserInfo("x", None, None, "bob"))
        await accounts.put_acl("User:ann", rights())
        await accounts.put_acl("User:ann", rights("Group:*", "Sub,Get"))
        await accounts.put_acl("User:bob", rights())
        await accounts.update_user(UserInfo(None, "disable", None, "ann"), by_super=True)
        await accounts.delete_user("bob", by_super=True)
        await accounts.delete_acl("User:ann", PolicyType.CUSTOM, Resource.parse("Topic:orders"))

    asyncio.run(change())
    files.crash()
    again = Accounts(files)
    assert [(user.username, user.password, user.type, user.status) for user in again.users()] == [
        ("ann", "secret", "Normal", "disable"),
        ("root", "pw", "Super", "enable"),
    ]
    assert [(name, [r.key for r in acl.policies[PolicyType.CUSTOM]]) for name, acl in again.acls()] == [
        ("ann", ["Group:*"])
    ]


def test_a_password_that_was_changed_is_nowhere_on_disk() -> None:
    """Nor that of a user who is gone: neither in the table nor in its copy, which is good for what a copy is for."""
    files = MemoryFileSystem()

    def on_disk() -> str:
        return "".join(_text(files, f"config/{name}") for name in files.listdir("config"))

    async def change() -> None:
        accounts = Accounts(files)
        accounts.found([ROOT])
        await accounts.create_user(UserInfo("first-secret", None, None, "ann"))
        await accounts.create_user(UserInfo("bobs-secret", None, None, "bob"))
        await accounts.update_user(UserInfo("second-secret", None, None, "ann"), by_super=True)
        assert "first-secret" not in on_disk()
        await accounts.delete_user("bob", by_super=True)
        assert "bobs-secret" not in on_disk()

    asyncio.run(change())
    files.crash()
    assert "first-secret" not in on_disk()
    files.open("config/users.json").truncate(0)
    ann = Accounts(files).user("ann")
    assert ann is not None
    assert ann.password == "second-secret"


@pytest.mark.faults
def test_a_crash_before_an_old_password_is_forgotten_is_made_good_at_the_next_start() -> None:
    """At whichever step it came, the users are those of before or after, and the copy has no other's secret."""
    for step in range(1, 100):
        files = MemoryFileSystem()
        accounts = Accounts(files)
        accounts.found([ROOT])
        asyncio.run(accounts.create_user(UserInfo("first-secret", None, None, "ann")))
        files.stop_at(step)
        try:
            asyncio.run(accounts.update_user(UserInfo("second-secret", None, None, "ann"), by_super=True))
        except ProcessDied:
            pass
        else:
            return
        files.heal()
        files.kill()
        ann = Accounts(files).user("ann")
        assert ann is not None
        (other,) = {"first-secret", "second-secret"} - {ann.password}
        assert other not in _text(files, "config/users.json.bak")
    raise AssertionError("the change never came to its end")


@pytest.mark.faults
def test_a_change_that_is_refused_is_undone_and_one_that_counts_is_not_refused() -> None:
    """Whichever operation the disk refuses, a start finds what was answered; of a name that may be on disk or not
    nobody knows."""
    for failing in range(1, 100):
        files = MemoryFileSystem()
        accounts = Accounts(files)
        accounts.found([ROOT])
        asyncio.run(accounts.create_user(UserInfo("first-secret", None, None, "ann")))
        files.fail_at(failing, OSError(errno.ENOSPC, "refused"))
        try:
            asyncio.run(accounts.update_user(UserInfo("second-secret", None, None, "ann"), by_super=True))
        except NotWritable:
            is_of_name = files.failed is not None and files.failed.name == "sync_directory"
            assert _password(files) == "first-secret" or is_of_name
        else:
            assert _password(files) == "second-secret"
            assert "first-secret" not in _text(files, "config/users.json.bak")
            if files.failed is None:
                return
    raise AssertionError("the change never came to its end")


@pytest.mark.faults
def test_a_full_disk_keeps_no_server_from_starting() -> None:
    """The copy that an older version left is made good later."""
    files = MemoryFileSystem()
    accounts = Accounts(files)
    accounts.found([ROOT])
    asyncio.run(accounts.create_user(UserInfo("first-secret", None, None, "ann")))
    before = files.open("config/users.json.bak")
    before.truncate(0)
    before.pwrite(b'{"users": []}', 0)
    files.fail_next("pwrite", OSError(errno.ENOSPC, "full"))
    assert Accounts(files).user("ann") is not None
    Accounts(files)
    assert "first-secret" in _text(files, "config/users.json.bak")


def _password(files: MemoryFileSystem) -> str:
    """Ann's, after the next start."""
    ann = Accounts(files).user("ann")
    assert ann is not None
    return ann.password


def _text(files: MemoryFileSystem, path: str) -> str:
    return files.open(path, read_only=True).pread(1 << 20, 0).decode()


def test_the_next_user_of_a_name_has_no_rights() -> None:
    """They go with the user they were given to."""

    async def change() -> None:
        accounts = Accounts(MemoryFileSystem())
        await accounts.create_user(ANN)
        await accounts.put_acl("User:ann", rights())
        await accounts.delete_user("ann", by_super=False)
        await accounts.create_user(ANN)
        assert accounts.acl("ann") is None

    asyncio.run(change())


def test_who_is_made_a_super_user_meanwhile_is_spared() -> None:
    """A change that waits for another one to be on disk finds what that made: no password of a super user."""

    async def change(then: Callable[[Accounts], Coroutine[Any, Any, None]]) -> None:
        accounts = Accounts(MemoryFileSystem())
        await accounts.create_user(ANN)
        raised = accounts.update_user(UserInfo(None, None, "Super", "ann"), by_super=True)
        outcomes = await asyncio.gather(raised, then(accounts), return_exceptions=True)
        assert str(outcomes[1]) == "The super user can only be update by super user"
        assert [(user.password, user.is_super) for user in accounts.users()] == [("secret", True)]

    asyncio.run(change(lambda accounts: accounts.update_user(UserInfo("mine", None, None, "ann"), by_super=False)))
    asyncio.run(change(lambda accounts: accounts.delete_user("ann", by_super=False)))


@pytest.mark.faults
def test_what_cannot_be_written_does_not_count() -> None:
    """Neither now nor after the next start."""
    files = MemoryFileSystem()

    async def change() -> Accounts:
        accounts = Accounts(files)
        await accounts.create_user(ANN)
        files.fail_next("fsync")
        with pytest.raises(NotWritable, match="config/users.json cannot be written"):
            await accounts.create_user(UserInfo("x", None, None, "bob"))
        return accounts

    assert [user.username for user in asyncio.run(change()).users()] == ["ann"]
    assert [user.username for user in Accounts(files).users()] == ["ann"]


def test_users_of_the_settings_come_once() -> None:
    """One whose password was changed since keeps it, as in RocketMQ."""
    files = MemoryFileSystem()

    async def change() -> None:
        accounts = Accounts(files)
        accounts.found([ROOT, ROOT])
        await accounts.update_user(UserInfo("changed", None, None, "root"), by_super=True)

    asyncio.run(change())
    again = Accounts(files)
    again.found([ROOT])
    assert [(user.username, user.password) for user in again.users()] == [("root", "changed")]


def test_servers_sign_as_super_users_among_themselves() -> None:
    """A user who is none, or is disabled, is no server."""
    accounts = Accounts(MemoryFileSystem())
    accounts.found([ROOT, User("ann", "secret"), User("off", "x", UserType.SUPER, UserStatus.DISABLE)])
    assert [accounts.password_of_super(name) for name in ("root", "ann", "off", "nobody")] == ["pw", None, None, None]


def test_a_subject_is_a_user() -> None:
    """Nothing else may have rights."""
    accounts = Accounts(MemoryFileSystem())
    accounts.found([User("ann", "secret")])
    assert [accounts.existing(subject) for subject in ("User:ann", "user:ann")] == ["ann", "ann"]
    for subject in ("Group:ann", "ann", None):
        with pytest.raises(InvalidArgument, match="is no subject. It is written User:name"):
            accounts.existing(subject)


def test_a_server_without_a_directory_has_the_users_of_its_settings() -> None:
    """And says what to do for others."""
    accounts = Accounts(None)
    accounts.found([ROOT])
    with pytest.raises(NoPermission, match="auth_config_path"):
        asyncio.run(accounts.create_user(ANN))
    assert [user.username for user in accounts.users()] == ["root"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("users.json", "{"),
        ("users.json", json.dumps({"users": [{"username": "a"}]})),
        ("acls.json", json.dumps({"acls": [{"subject": "User:a", "policies": [{"entries": [{"resource": "x"}]}]}]})),
    ],
)
def test_a_damaged_file_is_not_taken_for_none(name, content) -> None:
    """A server that forgot its users would let nobody in, or forget what is denied."""
    files = MemoryFileSystem()
    files.make_directory("config")
    file = files.open(f"config/{name}", create=True)
    file.pwrite(content.encode(), 0)
    file.close()
    with pytest.raises(DamagedFile, match=f"config/{name}"):
        Accounts(files)


@pytest.mark.parametrize(
    ("info", "error", "words"),
    [
        (UserInfo("x", None, None, " "), NoPermission, "username can not be blank"),
        (UserInfo(" ", None, None, "a"), NoPermission, "password can not be blank"),
        (UserInfo("x" * 1025, None, None, "a"), InvalidArgument, "The password has 1025 characters"),
        (UserInfo("x", None, None, "a" * 1025), InvalidArgument, "The username has 1025 characters"),
        (ANN, NoPermission, "The user is existed"),
    ],
)
def test_users_that_cannot_be(info, error, words) -> None:
    """In RocketMQ's words."""

    async def change() -> None:
        accounts = Accounts(MemoryFileSystem())
        await accounts.create_user(ANN)
        with pytest.raises(error, match=words):
            await accounts.create_user(info)
        with pytest.raises(InvalidArgument, match="The password has 1025 characters"):
            await accounts.update_user(UserInfo("x" * 1025, None, None, "ann"), by_super=True)

    asyncio.run(change())


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (PolicyEntryInfo(["Pub"], "Allow", "orders"), "The resource is null."),
        (
            PolicyEntryInfo(["Pub"], "Allow", "Topic:" + "x" * 1025),
            "The resource has 1025 characters; 1024 are allowed.",
        ),
        (PolicyEntryInfo([], "Allow", "Topic:a"), "The actions is empty."),
        (PolicyEntryInfo(["Fly"], "Allow", "Topic:a"), "The actions is empty."),
        (PolicyEntryInfo(["Any"], "Allow", "Topic:a"), "The actions can not be Any."),
        (PolicyEntryInfo(["Pub"], "Perhaps", "Topic:a"), "The decision is null or illegal."),
        (PolicyEntryInfo(["Pub"], "Allow", "Topic:a", [" "]), "The source ip is empty."),
        (PolicyEntryInfo(["Pub"], "Allow", "Topic:a", ["example.org"]), "The source ip is invalid."),
    ],
)
def test_rights_that_cannot_be(entry, words) -> None:
    """In RocketMQ's words."""
    with pytest.raises((NoPermission, InvalidArgument)) as caught:
        acl_of(AclInfo([PolicyInfo([entry])], "User:a"))
    assert str(caught.value) == words


def test_users_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by long passwords: a slave is told all of them in one answer. Who was there before there was a bound can be
    disabled still."""

    async def change() -> None:
        accounts = Accounts(MemoryFileSystem())
        accounts.found([ROOT])
        await accounts.create_user(ANN)
        monkeypatch.setattr("rmqspark.auth.accounts.MOST_BYTES", 1)
        with pytest.raises(InvalidArgument, match="1 are the most"):
            await accounts.create_user(UserInfo("pass", username="bob"))
        with pytest.raises(InvalidArgument, match="1 are the most"):
            await accounts.update_user(UserInfo("p" * 1_000, username="ann"), by_super=True)
        await accounts.update_user(UserInfo(userStatus="disable", username="ann"), by_super=True)
        assert [(user.username, user.status) for user in accounts.users()] == [
            ("ann", UserStatus.DISABLE),
            (ROOT.username, UserStatus.ENABLE),
        ]

    asyncio.run(change())


def test_a_right_is_denied_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of before there was a bound may have more; then nothing is added, and what is there can be taken away."""

    async def change() -> None:
        accounts = Accounts(MemoryFileSystem())
        accounts.found([ROOT])
        await accounts.create_user(ANN)
        await accounts.put_acl("User:ann", rights())
        monkeypatch.setattr("rmqspark.auth.accounts.MOST_BYTES", 1)
        with pytest.raises(InvalidArgument, match="1 are the most"):
            await accounts.put_acl("User:ann", rights("Topic:others"))
        denied = rights(decision="Deny")
        await accounts.put_acl("User:ann", denied)
        assert accounts.rights_of("ann") == denied

    asyncio.run(change())


def test_rights_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may change them could name a resource after the other. What is there stays, can be changed, and makes room
    when it goes."""
    monkeypatch.setattr("rmqspark.auth.accounts.MOST_BYTES", 1_000)

    async def fill(accounts: Accounts) -> None:
        for number in range(1_000):
            await accounts.put_acl("User:ann", rights(f"Topic:orders-{number}"))

    async def change() -> None:
        accounts = Accounts(files := MemoryFileSystem())
        accounts.found([ROOT])
        await accounts.create_user(ANN)
        with pytest.raises(InvalidArgument, match="1000 are the most"):
            await fill(accounts)
        taken = len(accounts.rights_of("ann").policies[PolicyType.CUSTOM])
        assert 1 < taken < 20
        await accounts.put_acl("User:ann", rights("Topic:orders-0", "Sub"))
        await accounts.delete_acl("User:ann", PolicyType.CUSTOM, Resource.parse("Topic:orders-1"))
        await accounts.put_acl("User:ann", rights("Topic:orders-x"))
        resources = accounts.rights_of("ann").policies[PolicyType.CUSTOM]
        assert len(resources) == taken
        assert Accounts(files).rights_of("ann").policies[PolicyType.CUSTOM] == resources

    asyncio.run(change())


@pytest.mark.parametrize("status", ["disabled", "DISABLE ", "locked"])
def test_a_status_that_is_none_opens_no_door(status: str) -> None:
    """Who changes a user to it is told so, for the user would come in as before; one cannot be made with it either."""
    accounts = Accounts(MemoryFileSystem())
    asyncio.run(accounts.create_user(ANN))
    for request in (
        accounts.update_user(UserInfo(None, status, None, "ann"), by_super=True),
        accounts.create_user(UserInfo("secret", status, None, "bob")),
    ):
        with pytest.raises(InvalidArgument, match="must be enable or disable"):
            asyncio.run(request)
    assert [(user.username, user.status) for user in accounts.users()] == [("ann", UserStatus.ENABLE)]


def test_a_user_with_the_status_of_a_later_version_is_kept_out() -> None:
    """Read from a file, or from a master: the others come in. Without any a user is enabled, as in RocketMQ."""
    files = MemoryFileSystem()
    users = [
        UserInfo("x", "locked", "Super", "ann"),
        UserInfo("x", "", None, "bob"),
        UserInfo("x", "ENABLE", None, "eve"),
    ]
    table = AccountTable(users, [])
    files.make_directory("config")
    files.open("config/users.json", create=True).pwrite(UserTable(users).encode(standard=True), 0)
    copy = Accounts(MemoryFileSystem())
    with capture_logs() as logs:
        asyncio.run(copy.follow(table))
        read = Accounts(files)
    for accounts in (copy, read):
        assert [(user.username, user.status.value) for user in accounts.users()] == [
            ("ann", "disable"),
            ("bob", "enable"),
            ("eve", "enable"),
        ]
        assert accounts.password_of_super("ann") is None
    assert [each["user"] for each in logs if each["event"] == "a user is taken for disabled"] == ["ann", "ann"]
