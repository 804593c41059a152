"""The users of a server and what they may do, in memory and in two files.

RocketMQ's metadata managers, which keep them in RocksDB.

A change is on disk before it counts and is answered. What there is no file for, where a server has no directory, are
the users of its settings, which nobody can change.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.auth.forms import acl_info, acl_of, changed, kept_user_of, user_of, user_record
from rmqspark.auth.policies import NOTHING
from rmqspark.auth.users import UserStatus, username_of
from rmqspark.errors import InvalidArgument, NoPermission, NotWritable
from rmqspark.protocol.bodies.access_control import AccountTable, AclTable, UserTable
from rmqspark.store.disk_errors import advice
from rmqspark.store.json_table import JsonTable
from rmqspark.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.auth.policies import Acl
    from rmqspark.auth.resources import PolicyType, Resource
    from rmqspark.auth.users import User
    from rmqspark.protocol.bodies.access_control import AclInfo, UserInfo
    from rmqspark.protocol.bodies.base import Body
    from rmqspark.store.files import FileSystem

MOST_USERS: Final = 10_000
MOST_BYTES: Final = 4 << 20
"""Of all users as they are written, and of all rights: a slave is told both in one answer."""

log = structlog.get_logger("rmqspark.auth")


class Accounts:
    """Loaded when made. Raises DamagedFile where a file cannot be read, and lets an OSError through."""

    def __init__(self, files: FileSystem | None, directory: str = "config") -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._changing = asyncio.Lock()
        self.revision = 0
        """How often anything has changed."""
        self._copy: tuple[int, bytes] = -1, b""  # at which revision, what `copy` gives
        users_path = _path(directory, "users.json")
        self._users_file = None if files is None else JsonTable(files, users_path, has_secrets=True)
        self._acls_file = None if files is None else JsonTable(files, _path(directory, "acls.json"))
        if self._users_file is not None:
            self._load_users(self._users_file)
        if self._acls_file is not None:
            self._load_acls(self._acls_file)

    # --- what there is -----------------------------------------------------------------------------------------------

    def user(self, username: str) -> User | None:
        return self._users.get(username)

    def users(self) -> Iterable[User]:
        """By name."""
        return [user for _, user in sorted(self._users.items())]

    def password_of_super(self, username: str) -> str | None:
        """As servers sign among themselves; None where there is no super user of that name, or it is disabled."""
        user = self._users.get(username)
        return user.password if user is not None and user.is_super and user.status is UserStatus.ENABLE else None

    def acl(self, username: str) -> Acl | None:
        return self._acls.get(username)

    def acls(self) -> Iterable[tuple[str, Acl]]:
        """By the name of their user."""
        return sorted(self._acls.items(), key=lambda item: item[0])

    def rights_of(self, username: str) -> Acl:
        """Nothing, where nothing is said of the user."""
        return self._acls.get(username, NOTHING)

    # --- changes -----------------------------------------------------------------------------------------------------

    def found(self, users: Iterable[User]) -> None:
        """Those of the settings, when a server starts: one that there is already stays as it is, as in RocketMQ."""
        before = len(self._users)
        for user in users:
            known = self._users.setdefault(user.username, user)
            if known != user:
                log.warning("a user of the settings is there already, and stays as it is", user=user.username)
        self.revision += 1
        if self._users_file is not None and len(self._users) > before:
            self._users_file.save(_text(_user_table(self._users)))
            _warn_of_copy(self._users_file)

    async def create_user(self, info: UserInfo) -> None:
        user = user_of(info)
        async with self._changing:
            if user.username in self._users:
                raise NoPermission("The user is existed")
            if len(self._users) >= MOST_USERS:
                raise InvalidArgument(f"There are {MOST_USERS} users already.", hint="Delete those that nobody needs.")
            users = {**self._users, user.username: user}
            _require_room("users", _user_table(users), _user_table(self._users))
            await self._put_users(users)

    async def update_user(self, info: UserInfo, *, by_super: bool) -> None:
        """Changes what is given of the user; of a super user only for another one."""
        async with self._changing:
            old = self._users.get(info.username or "")
            if old is None:
                raise NoPermission("The user is not exist")
            _spare_super(old, by_super=by_super)
            users = {**self._users, old.username: changed(old, info)}
            if info.password:  # a user can be disabled, however many there were before they had a bound
                _require_room("users", _user_table(users), _user_table(self._users))
            await self._put_users(users)

    async def delete_user(self, username: str, *, by_super: bool) -> None:
        """And what it may do: that first, or the next user of the name might do it, too."""
        async with self._changing:
            _spare_super(self._users.get(username), by_super=by_super)
            if username in self._acls:
                await self._put_acls(_without(self._acls, username))
            if username in self._users:
                await self._put_users(_without(self._users, username))

    async def put_acl(self, subject: str | None, acl: Acl) -> None:
        """Adds these entries to what is said of the user, in the place of those about the same. Raises InvalidArgument
        where that would be too much."""
        async with self._changing:
            username = self._existing(subject, f"The subject of {subject} is not exist.")
            acls = {**self._acls, username: self.rights_of(username).updated(acl)}
            _require_room("rights", _acl_table(acls), _acl_table(self._acls))
            await self._put_acls(acls)

    async def delete_acl(self, subject: str | None, kind: PolicyType, resource: Resource | None) -> None:
        """What is said of the user about this resource; without one, all of it."""
        async with self._changing:
            username = self._existing(subject, "The subject is not exist.")
            old = self._acls.get(username)
            if old is None:
                raise NoPermission("The acl is not exist.")
            left = NOTHING if resource is None else old.without(kind, resource)
            await self._put_acls({**self._acls, username: left} if left.policies else _without(self._acls, username))

    def existing(self, subject: str | None) -> str:
        """The user that a subject names. Raises NoPermission in RocketMQ's words."""
        return self._existing(subject, "The subject is not exist.")

    def _existing(self, subject: str | None, otherwise: str) -> str:
        username = username_of(subject)
        if username is None:
            raise InvalidArgument(f"{subject!r} is no subject.", hint="It is written User:name.")
        if username not in self._users:
            raise NoPermission(otherwise)
        return username

    async def _put_users(self, users: dict[str, User]) -> None:
        await _write(self._users_file, _user_table(users))
        self._users = users
        self.revision += 1

    async def _put_acls(self, acls: dict[str, Acl]) -> None:
        await _write(self._acls_file, _acl_table(acls))
        self._acls = acls
        self.revision += 1

    # --- copies ------------------------------------------------------------------------------------------------------

    def table(self) -> AccountTable:
        """All there is, with the passwords: for a slave's copy."""
        return AccountTable(_user_table(self._users).users, _acl_table(self._acls).acls)

    def copy(self) -> bytes:
        """The same as it goes to slaves, each of which asks again and again: made once for each change."""
        if self._copy[0] != self.revision:
            self._copy = self.revision, self.table().encode(standard=True)
        return self._copy[1]

    async def follow(self, table: AccountTable) -> None:
        """Is a copy of these from now on. Raises NoPermission or InvalidArgument for what users and rights cannot be:
        all stay then."""
        if not table.users:
            raise InvalidArgument("A master without users: what is here stays.")
        users = {user.username: user for user in map(kept_user_of, table.users)}
        acls = {name: acl for name, acl in map(_named_acl, table.acls) if name is not None}
        async with self._changing:
            if acls != self._acls:
                await self._put_acls(acls)
                log.info("took over the master's rights", users=len(acls))
            if users != self._users:
                await self._put_users(users)
                log.info("took over the master's users", users=len(users))

    # --- files -------------------------------------------------------------------------------------------------------

    def _load_users(self, file: JsonTable) -> None:
        self._users = {user.username: user for user in file.load(_users_in) or ()}
        _warn(file)

    def _load_acls(self, file: JsonTable) -> None:
        self._acls = dict(file.load(_acls_in) or ())
        _warn(file)


def _spare_super(user: User | None, *, by_super: bool) -> None:
    """To be asked once nobody else changes users, or somebody may have become one since."""
    if user is not None and user.is_super and not by_super:
        raise NoPermission("The super user can only be update by super user")  # also of deleting, in RocketMQ


def _require_room(what: str, table: Body, before: Body) -> None:
    """Where they are beyond the bound already, as a file of before there was one may have them, they may not grow: a
    right can be denied all the same."""
    size_bytes = len(table.encode(standard=True))
    if size_bytes > MOST_BYTES and size_bytes > len(before.encode(standard=True)):
        raise InvalidArgument(
            f"All {what} together would take {size_bytes} bytes; {MOST_BYTES} are the most.",
            hint="Delete those that nobody needs.",
        )


def _users_in(text: str) -> list[User]:
    """Raises ValueError for what is not the table of users."""
    try:
        return [kept_user_of(info) for info in UserTable.decode(text.encode()).users]
    except NoPermission as error:
        raise ValueError(str(error)) from None


def _acls_in(text: str) -> list[tuple[str, Acl]]:
    try:
        read = [_named_acl(info) for info in AclTable.decode(text.encode()).acls]
    except NoPermission as error:
        raise ValueError(str(error)) from None
    return [(username, acl) for username, acl in read if username is not None]


def _named_acl(info: AclInfo) -> tuple[str | None, Acl]:
    return username_of(info.subject), acl_of(info)


def _acl_table(acls: Mapping[str, Acl]) -> AclTable:
    return AclTable([info for name, acl in acls.items() if (info := acl_info(name, acl))])


def _user_table(users: Mapping[str, User]) -> UserTable:
    return UserTable([user_record(user) for user in users.values()])


def _path(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def _text(table: Body) -> str:
    return table.encode(standard=True).decode()


def _warn(file: JsonTable) -> None:
    if file.warning:
        log.warning("a table was read from its copy", reason=file.warning)
    _warn_of_copy(file)


def _warn_of_copy(file: JsonTable) -> None:
    if file.copy_trouble:
        log.error("passwords of before are on disk still", reason=file.copy_trouble)


async def _write(file: JsonTable | None, table: Body) -> None:
    if file is None:
        raise NoPermission(
            "This server keeps no users but those of its settings.",
            hint="Give it a directory for them: auth_config_path.",
        )
    try:
        await in_thread(file.save, _text(table))
    except OSError as error:
        raise NotWritable(f"{file.path} cannot be written: {error}.", hint=advice(error)) from error
    _warn_of_copy(file)
