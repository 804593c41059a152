"""Bodies about users and what they may do (RocketMQ's UserInfo and AclInfo), which its files would hold, too."""

from __future__ import annotations

import msgspec

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.learned import learned


class UserInfo(Body):
    """A user: `userType` is Super or Normal, `userStatus` enable or disable. No answer of ours has the password."""

    password: str | None = None
    userStatus: str | None = None
    userType: str | None = None
    username: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo({self.username!r}, {self.userType}, {self.userStatus})"


class PolicyEntryInfo(Body):
    """What is allowed or denied (`decision`) of one resource: `actions`, from `sourceIps` if there are any."""

    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    sourceIps: list[str] | None = None


class PolicyInfo(Body):
    """Entries of one kind: Custom, or Default, which count where no Custom one fits."""

    entries: list[PolicyEntryInfo] | None = None
    policyType: str | None = None


class AclInfo(Body):
    """What one subject, `User:name`, may do."""

    policies: list[PolicyInfo] | None = None
    subject: str | None = None


class UserTable(Body):
    """config/users.json; ours, for RocketMQ keeps users in RocksDB. It has the passwords: signatures need them."""

    users: list[UserInfo] = []


class AclTable(Body):
    """config/acls.json; ours, too."""

    acls: list[AclInfo] = []


class AccountTable(Body):
    """Answers RMQ_ACCOUNTS: both, with the passwords."""

    users: list[UserInfo] = []
    acls: list[AclInfo] = []


_users = msgspec.json.Decoder(learned(list[UserInfo]))
_acls = msgspec.json.Decoder(learned(list[AclInfo]))


def decode_users(data: bytes | bytearray | memoryview) -> list[UserInfo]:
    """What AUTH_LIST_USER answers; an empty body is no user."""
    return _users.decode(data) if len(data) else []


def decode_acls(data: bytes | bytearray | memoryview) -> list[AclInfo]:
    """What AUTH_LIST_ACL answers."""
    return _acls.decode(data) if len(data) else []


def encode_list(infos: list[UserInfo] | list[AclInfo]) -> bytes:
    """The answer to a listing: nothing where there is none, as RocketMQ has it."""
    return b"[" + b",".join(info.encode() for info in infos) + b"]" if infos else b""
