"""Passwords go from a master to its slave, and to nobody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.auth.accounts import Accounts
from rmqspark.auth.forms import acl_of
from rmqspark.auth.users import User, UserType
from rmqspark.broker.handlers.account_copies import AccountCopyHandlers
from rmqspark.broker.replica.account_sync import AccountSync
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, NoPermission, RmqError
from rmqspark.protocol.bodies.access_control import AccountTable, AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.signature import signer
from rmqspark.remoting.access import Access, Credentials, Tls
from rmqspark.remoting.response import Response
from rmqspark.remoting.router import Router
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from rmqspark.protocol.codes import RequestCode
    from rmqspark.protocol.commands.command import Buffer

SERVERS = Credentials("servers", "their secret")
SUPER = User(*SERVERS[:2], UserType.SUPER)
ANN = User("ann", "ann's secret")
RIGHTS = AclInfo([PolicyInfo([PolicyEntryInfo(["Pub"], "Allow", "Topic:orders")], "Custom")], "User:ann")
TOKEN = SystemEntropy().token
FAR, NEAR = "10.0.0.9:10911", "127.0.0.1:10911"


def accounts(*users: User, files: MemoryFileSystem | None = None) -> Accounts:
    made = Accounts(files or MemoryFileSystem())
    made.found(users)
    return made


class Master:
    """Answers a slave, as a broker's router does. Tests say from where, and with TLS or not."""

    closed = False
    under_way = 0
    id = 1

    def __init__(self, users: Accounts, host: str, *, encrypted: bool, user: Credentials = SERVERS) -> None:
        self.peer = (host, 4711)
        self.encrypted = encrypted
        self.asked = 0
        self._sign = signer(*user)
        self._router = Router([AccountCopyHandlers(users, TOKEN).routes()])
        self._sent: list[Buffer] = []

    def send(self, buffers: Sequence[Buffer]) -> None:
        self._sent += buffers

    async def ask(self, code: RequestCode, header: msgspec.Struct) -> Response:
        self.asked += 1
        frame = b"".join(encode_request(code, 7, header, sign=self._sign))
        self._router.dispatch(split_frame(memoryview(bytearray(frame))[4:]), self)  # type: ignore[arg-type]
        raw = split_frame(b"".join(self._sent)[4:])
        self._sent.clear()
        return Response.of(decode_command(raw), raw.body).raise_for_code()


def copy(slave: Accounts, master: Master, address: str = FAR, tls: Tls | None = None) -> None:
    sync = AccountSync(slave, Access(SERVERS, tls), TOKEN)
    asyncio.run(sync.take(master.ask, address))


@pytest.mark.parametrize(
    ("address", "tls"), [(FAR, Tls("ca.pem")), (FAR, Tls("ca.pem", check_host=False)), (NEAR, None)]
)
def test_over_tls_or_on_one_machine_all_is_copied(address: str, tls: Tls | None) -> None:
    """And is there after a restart; what the slave had of its own is gone."""
    files, theirs = MemoryFileSystem(), accounts(SUPER, ANN)
    asyncio.run(theirs.follow(AccountTable(theirs.table().users, [RIGHTS])))
    mine = accounts(User("mine", "gone soon"), files=files)
    copy(mine, Master(theirs, address.split(":")[0], encrypted=tls is not None), address, tls)
    assert mine.table() == theirs.table()
    assert Accounts(files).table() == theirs.table()
    assert mine.user("mine") is None


class Watched(Accounts):
    """Notes how often a copy was looked through."""

    follows = 0

    async def follow(self, table: AccountTable) -> None:
        self.follows += 1
        await super().follow(table)


def test_a_copy_that_is_there_already_costs_little() -> None:
    """It is made and looked through once; a change on either side has that done anew, and the master's counts."""
    mine, theirs = Watched(MemoryFileSystem()), accounts(SUPER)
    master, sync = Master(theirs, "127.0.0.1", encrypted=False), AccountSync(mine, Access(SERVERS), TOKEN)

    async def talk() -> None:
        for _ in range(3):
            await sync.take(master.ask, NEAR)
        assert mine.follows == 1
        assert theirs.copy() is theirs.copy()
        await theirs.create_user(UserInfo("ann's secret", username="ann"))
        await sync.take(master.ask, NEAR)
        assert mine.user("ann") == ANN
        await mine.delete_user("ann", by_super=True)
        await sync.take(master.ask, NEAR)
        assert mine.user("ann") == ANN
        await theirs.put_acl("User:ann", acl_of(RIGHTS))
        await sync.take(master.ask, NEAR)
        assert mine.acl("ann") == theirs.acl("ann")
        assert mine.follows == 4

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("tls", "setting"),
    [
        (None, "tls_enable"),
        (Tls("ca.pem", auth_server=False), "tls_client_auth_server"),
        (Tls(check_host=False), "tls_client_check_host"),
    ],
)
def test_a_slave_does_not_ask_where_others_may_answer(tls: Tls | None, setting: str) -> None:
    """Over a plain connection, or with whoever shows some certificate: who sits in between could pass on what both
    prove, and have the passwords. It says what it takes, and its users stay."""
    mine, master = accounts(SUPER), Master(accounts(SUPER, ANN), "10.0.0.5", encrypted=tls is not None)
    with pytest.raises(NoPermission, match=setting):
        copy(mine, master, tls=tls)
    assert master.asked == 0
    assert list(mine.users()) == [SUPER]


@pytest.mark.parametrize(
    ("user", "host", "encrypted"),
    [
        (SERVERS, "10.0.0.5", False),
        (Credentials("ann", ANN.password), "127.0.0.1", True),
        (Credentials("nobody", "guessed"), "127.0.0.1", True),
    ],
)
def test_a_master_does_not_tell_them(user: Credentials, host: str, encrypted: bool) -> None:
    """Over a plain connection from elsewhere to nobody, and to nobody but super users at all."""
    mine, master = accounts(SUPER), Master(accounts(SUPER, ANN), host, encrypted=encrypted, user=user)
    with pytest.raises(NoPermission, match="Users are told to slaves alone"):
        copy(mine, master, NEAR)
    assert list(mine.users()) == [SUPER]


class Impostor(Master):
    """Answers as a master would, without knowing the secret."""

    async def ask(self, code: RequestCode, header: msgspec.Struct) -> Response:
        answer = await super().ask(code, header)
        if len(answer.body):
            answer.fields["proof"] = "00" * 32
        return answer


def test_a_signature_alone_is_not_enough() -> None:
    """It can be overheard, and says neither what is asked for nor when."""
    theirs, mine = accounts(SUPER, ANN), accounts(SUPER)
    signs, proves = Master(theirs, "127.0.0.1", encrypted=True), SERVERS._replace(secret_key="guessed")
    with pytest.raises(NoPermission, match="not proven"):
        asyncio.run(AccountSync(mine, Access(proves), TOKEN).take(signs.ask, NEAR))
    assert list(mine.users()) == [SUPER]


def test_users_of_who_proves_nothing_are_not_taken() -> None:
    """Who answers in the master's place makes no users here."""
    mine = accounts(SUPER)
    with pytest.raises(NoPermission, match="does not prove that it is"):
        copy(mine, Impostor(accounts(SUPER, ANN), "127.0.0.1", encrypted=True), NEAR)
    assert list(mine.users()) == [SUPER]


BROKEN: list[tuple[list[UserInfo], list[AclInfo]]] = [
    ([], []),
    ([UserInfo("secret", username="ann"), UserInfo(None, username="no password")], []),
    ([UserInfo("secret", username="ann")], [AclInfo([PolicyInfo([PolicyEntryInfo(["Pub"], "Allow", "")])], "User:x")]),
]


@pytest.mark.parametrize("table", BROKEN)
def test_a_table_that_is_not_right_changes_nothing(table: Any) -> None:
    """Half of a copy is worse than an old one."""
    mine = accounts(SUPER, ANN)
    with pytest.raises((NoPermission, InvalidArgument)):
        asyncio.run(mine.follow(AccountTable(*table)))
    assert {user.username for user in mine.users()} == {"servers", "ann"}


def test_a_full_disk_leaves_what_counts() -> None:
    """What is not on disk does not count; the next look at the master tries again."""
    files = MemoryFileSystem()
    mine = accounts(SUPER, files=files)
    files.fail_next("fsync")
    with pytest.raises((RmqError, OSError)):
        asyncio.run(mine.follow(accounts(SUPER, ANN).table()))
    assert mine.user("ann") is None
    asyncio.run(mine.follow(accounts(SUPER, ANN).table()))
    assert mine.user("ann") == ANN
