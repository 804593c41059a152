"""Users and rights as they travel and are kept, and back (RocketMQ's UserConverter and AclConverter; its words)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import structs

from rmqspark.auth.policies import Acl, Entry, is_address
from rmqspark.auth.resources import Action, Decision, PolicyType, Resource, word_in
from rmqspark.auth.users import User, UserStatus, UserType, subject_key
from rmqspark.errors import InvalidArgument, NoPermission
from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_CHARACTERS: Final = 1024  # of a name, a password, a resource

log = structlog.get_logger("rmqspark.auth")


def user_of(info: UserInfo) -> User:
    """A user with what is given, and the usual for the rest. Raises NoPermission where there is no name or password,
    InvalidArgument for a status that is none."""
    username, password = info.username or "", info.password or ""
    if not username.strip():
        raise NoPermission("username can not be blank")
    if not password.strip():
        raise NoPermission("password can not be blank")
    check_length("username", username)
    check_length("password", password)
    kind, status = word_in(UserType, info.userType), _status_in(info)
    return User(username, password, kind or UserType.NORMAL, status or UserStatus.ENABLE)


def changed(user: User, info: UserInfo) -> User:
    """The user with what is given in the place of what was. Raises InvalidArgument for a status that is none."""
    kind, status = word_in(UserType, info.userType), _status_in(info)
    password = info.password if info.password and info.password.strip() else user.password
    check_length("password", password)
    return User(user.username, password, kind or user.type, status or user.status)


def kept_user_of(info: UserInfo) -> User:
    """The same of a file, or of a master. Who has a status that only a later version knows is kept out."""
    try:
        _status_in(info)
    except InvalidArgument as error:
        log.warning("a user is taken for disabled", user=info.username, reason=error.message)
        info = structs.replace(info, userStatus=UserStatus.DISABLE.value)
    return user_of(info)


def _status_in(info: UserInfo) -> UserStatus | None:
    """None where none is given. Raises InvalidArgument for what is none: RocketMQ takes that for nothing given, and who
    was to be kept out comes in."""
    status = word_in(UserStatus, info.userStatus)
    if status is None and info.userStatus:
        known = " or ".join(UserStatus)
        raise InvalidArgument(f"The status of user {info.username!r} is {info.userStatus!r}, but must be {known}.")
    return status


def user_info(user: User) -> UserInfo:
    """For answers, without the password: RocketMQ tells it, and so whoever may list users can be each of them."""
    return UserInfo(None, user.status.value, user.type.value, user.username)


def user_record(user: User) -> UserInfo:
    """For the file."""
    return UserInfo(user.password, user.status.value, user.type.value, user.username)


def acl_of(info: AclInfo) -> Acl:
    """Raises NoPermission in RocketMQ's words where something is not right."""
    filled = [(policy.policyType, policy.entries) for policy in info.policies or () if policy.entries]
    if not filled:
        raise NoPermission("The policies is empty.")
    return Acl.of(
        (word_in(PolicyType, kind) or PolicyType.CUSTOM, [_entry(each) for each in entries]) for kind, entries in filled
    )


def _entry(info: PolicyEntryInfo) -> Entry:
    resource = Resource.parse(info.resource)
    if resource is None:
        raise NoPermission("The resource is null.")
    check_length("resource", resource.name)
    actions = tuple(action for text in info.actions or () if (action := word_in(Action, text)) is not None)
    if not actions:
        raise NoPermission("The actions is empty.")
    if Action.ANY in actions:
        raise NoPermission("The actions can not be Any.")
    for address in info.sourceIps or ():
        if not address.strip():
            raise NoPermission("The source ip is empty.")
        if not is_address(address):
            raise NoPermission("The source ip is invalid.")
    decision = word_in(Decision, info.decision)
    if decision is None:
        raise NoPermission("The decision is null or illegal.")
    return Entry(resource, actions, tuple(info.sourceIps or ()), decision)


def acl_info(username: str, acl: Acl, resource_filter: str = "") -> AclInfo | None:
    """For answers and the file; None where the filter leaves nothing. The filter is not asked where the subject has
    it in its name, as in RocketMQ."""
    wanted = "" if resource_filter in subject_key(username) else resource_filter
    policies = [
        PolicyInfo(entries, kind.value)
        for kind, of_kind in acl.policies.items()
        if (entries := _entry_infos(of_kind.values(), wanted))
    ]
    return AclInfo(policies, subject_key(username)) if policies else None


def _entry_infos(entries: Iterable[Entry], wanted: str) -> list[PolicyEntryInfo]:
    return [
        PolicyEntryInfo(
            [action.value for action in entry.actions],
            entry.decision.value,
            entry.resource.key,
            list(entry.source_ips) or None,
        )
        for entry in entries
        if wanted in entry.resource.key
    ]


def check_length(what: str, text: str) -> None:
    """Raises InvalidArgument for a text that is longer than any that makes sense."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidArgument(f"The {what} has {len(text)} characters; {_MOST_CHARACTERS} are allowed.")
