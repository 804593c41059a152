"""Who there is (RocketMQ's User)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class UserType(StrEnum):
    """A SUPER user may do everything."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    ENABLE = "enable"
    DISABLE = "disable"


class User(NamedTuple):
    """Its password signs its requests, so a server has to keep it as it is."""

    username: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    def __repr__(self) -> str:
        return f"User({self.username!r}, {self.type}, {self.status})"

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER


def subject_key(username: str) -> str:
    """How a user is named where rights are written."""
    return f"User:{username}"


def username_of(subject: str | None) -> str | None:
    """The user that a subject names; None where it is no user."""
    kind, _, name = (subject or "").partition(":")
    return name if kind.lower() == "user" else None
