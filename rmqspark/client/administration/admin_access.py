"""Users and what they may do, as an administrator sees to them: on every broker, and on every name server with users.

Servers keep users each for itself, so what changes something goes to all of them, brokers first, and not where one is
without its master: that would bring back what was. A name server without users, as RocketMQ's are, is left out.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.administration.access_words import (
    ACTIONS,
    DECISIONS,
    POLICY_TYPES,
    USER_TYPES,
    as_spelt,
    check_resource,
    check_source,
    subject_of,
)
from rmqspark.client.administration.admin_topics import readable
from rmqspark.client.administration.broker_admin import ADMIN_TIMEOUT_MS
from rmqspark.client.administration.in_turn import telling_what_is_done
from rmqspark.client.cluster.routes import no_broker, registered_masters
from rmqspark.client.cluster.silence import RollCall, remembered
from rmqspark.errors import InvalidArgument, NoPermission, NotFound, NotSupported, NotWritable, RmqError
from rmqspark.protocol.bodies.access_control import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_acls,
    decode_users,
)
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import (
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rmqspark.words import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import msgspec

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.remoting.response import Response

    Call = Callable[[RequestCode, msgspec.Struct, bytes], Response]
    Ask = Callable[[Call], Response]

_IS_THERE: Final = "The user is existed"  # RocketMQ's words
_NO_USER: Final = re.compile(r"The (user|subject)( of \S+)? is not exist")  # as well
_NO_RIGHT: Final = "The acl is not exist"
_WHO_IS_THERE: Final = "rmq user list shows those that exist."
_WHAT_IS_SAID: Final = "rmq acl list shows what is said of whom."
_EXIST_OK: Final = "rmq user create --exist-ok makes it where it is missing, with this password and type everywhere."


class User(NamedTuple):
    """A user as the `servers` have it: names of brokers, addresses of name servers."""

    username: str
    user_type: str
    enabled: bool
    servers: tuple[str, ...]


class Right(NamedTuple):
    """What the `servers` have decided of a resource for a user. No source addresses: from wherever it asks."""

    username: str
    policy_type: str
    resource: str
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: str
    servers: tuple[str, ...]


def create_user(
    cluster: ClusterClient, username: str, password: str, user_type: str, *, exist_ok: bool = False
) -> None:
    """With `exist_ok` it gets this password and type where it is there already. What is raised otherwise says where
    that is."""
    body = UserInfo(password, userType=as_spelt(USER_TYPES, user_type, "user type")).encode()
    header = UserRequestHeader(username)

    def make(call: Call) -> Response:
        try:
            return call(RequestCode.AUTH_CREATE_USER, header, body)
        except NoPermission as error:
            if not exist_ok or _IS_THERE not in error.message:
                raise
            return call(RequestCode.AUTH_UPDATE_USER, header, body)

    try:
        _everywhere(cluster, make)
    except NoPermission as error:
        if _IS_THERE in error.message:
            error.retell(f"{error.message} {_whereabouts(cluster, username)}".strip(), hint=_EXIST_OK)
        raise


def _whereabouts(cluster: ClusterClient, username: str) -> str:
    """Which servers have a user, and which not. Nothing where that may not be asked."""
    has: dict[str, bool] = {}
    with suppress(RmqError):
        for server, answer in _asked(cluster, _request(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(username))):
            has[server] = any(info.username == username for info in decode_users(answer.body))
    there, missing = [name for name in has if has[name]], [name for name in has if not has[name]]
    if not missing:
        return ""
    return f"It is on {', '.join(there)}, and not on {', '.join(missing)}."


def update_user(
    cluster: ClusterClient, username: str, password: str | None, user_type: str | None, enabled: bool | None
) -> None:
    if password is None and user_type is None and enabled is None:
        raise InvalidArgument("Nothing is to be changed.", hint="Give a password, a type, or whether it is enabled.")
    kind = None if user_type is None else as_spelt(USER_TYPES, user_type, "user type")
    status = None if enabled is None else "enable" if enabled else "disable"
    body = UserInfo(password, status, kind).encode()
    _everywhere(cluster, _request(RequestCode.AUTH_UPDATE_USER, UserRequestHeader(username), body))


def delete_user(cluster: ClusterClient, username: str) -> None:
    """With all that it may do. NotFound where no server has it."""
    describe_user(cluster, username)
    _everywhere(cluster, _request(RequestCode.AUTH_DELETE_USER, UserRequestHeader(username)))


def list_users(cluster: ClusterClient, name: str = "", *, on_silent: OnSilent | None = None) -> list[User]:
    """Those with this in their name. One that servers have differently is in it more than once. A server that does not
    answer is told to `on_silent` and left out, unless none does; without that it is an error."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    ask = _request(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(name))
    for server, answer in _asked(cluster, ask, on_silent=on_silent):
        for info in decode_users(answer.body):
            user = info.username or "", info.userType or "", info.userStatus != "disable"
            found.setdefault(user, []).append(server)
    return [User(*user, tuple(servers)) for user, servers in sorted(found.items())]


def describe_user(cluster: ClusterClient, username: str, *, on_silent: OnSilent | None = None) -> list[User]:
    """The same of one user. NotFound, where all servers answer."""
    silence = remembered(on_silent)
    found = [user for user in list_users(cluster, username, on_silent=silence) if user.username == username]
    if not found:
        if silence is not None:
            silence.insist()
        raise NotFound(f"There is no user {username!r}.", hint=_WHO_IS_THERE)
    return found


def create_acl(
    cluster: ClusterClient,
    username: str,
    resources: Sequence[str],
    actions: Sequence[str],
    decision: str,
    source_ips: Sequence[str],
    policy_type: str,
) -> None:
    if not resources or not actions:
        raise InvalidArgument("A right is about resources and actions.", hint="Such as Topic:orders, and Pub.")
    for address in source_ips:
        check_source(address)
    words = [as_spelt(ACTIONS, action, "action") for action in actions]
    decided = as_spelt(DECISIONS, decision, "decision")
    entries = [PolicyEntryInfo(words, decided, check_resource(each), list(source_ips) or None) for each in resources]
    policy = PolicyInfo(entries, as_spelt(POLICY_TYPES, policy_type, "policy type"))
    info = AclInfo([policy], subject_of(username))
    header = AclRequestHeader(subject_of(username))
    _everywhere(cluster, _request(RequestCode.AUTH_CREATE_ACL, header, info.encode()))


def delete_acl(cluster: ClusterClient, username: str, resource: str | None, policy_type: str) -> None:
    """On servers that say anything of it: some may have done it, when others were away. NotFound where none does, so
    that a slip takes back nothing without a word."""
    kind = as_spelt(POLICY_TYPES, policy_type, "policy type")
    header = DeleteAclRequestHeader(subject_of(username), kind, None if resource is None else check_resource(resource))
    rights = describe_acl(cluster, username)
    if not rights:
        raise NotFound(f"Nothing is said of user {username!r}.", hint="rmq acl list shows what is said of others.")
    meant = [right for right in rights if right.policy_type.lower() == kind.lower() and _is_about(right, resource)]
    if not meant:
        what = f"{resource or 'anything'} by policy {kind}"
        raise NotFound(
            f"Nothing is said of user {username!r} and {what}.", hint=f"What is: rmq acl describe {username}"
        )
    there = {server for right in meant for server in right.servers}
    _everywhere(cluster, _request(RequestCode.AUTH_DELETE_ACL, header), there)


def _is_about(right: Right, resource: str | None) -> bool:
    return resource is None or _as_compared(right.resource) == _as_compared(resource)


def _as_compared(resource: str) -> tuple[str, str]:
    """Servers spell the kind of a resource their way, and its name as it was given."""
    kind, _, name = resource.partition(":")
    return kind.lower(), name


def list_acls(
    cluster: ClusterClient, name: str = "", resource: str = "", *, on_silent: OnSilent | None = None
) -> list[Right]:
    """Those of users with this in their name, about resources with this in theirs. `on_silent` as for `list_users`."""
    header = ListAclsRequestHeader(name or None, resource or None)
    found: dict[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str], list[str]] = {}
    for server, answer in _asked(cluster, _request(RequestCode.AUTH_LIST_ACL, header), on_silent=on_silent):
        for right in _rights(decode_acls(answer.body)):
            found.setdefault(right, []).append(server)
    return [Right(*right, tuple(servers)) for right, servers in sorted(found.items())]


def describe_acl(cluster: ClusterClient, username: str, *, on_silent: OnSilent | None = None) -> list[Right]:
    """Those of one user. NotFound where there is no such user."""
    silence = remembered(on_silent)
    describe_user(cluster, username, on_silent=silence)
    return [right for right in list_acls(cluster, username, on_silent=silence) if right.username == username]


def _rights(acls: Iterable[AclInfo]) -> Iterator[tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]]:
    for acl in acls:
        username = (acl.subject or "").partition(":")[2]
        for policy in acl.policies or ():
            for entry in policy.entries or ():
                actions, source_ips = tuple(entry.actions or ()), tuple(entry.sourceIps or ())
                yield username, policy.policyType or "", entry.resource or "", actions, source_ips, entry.decision or ""


def _request(code: RequestCode, header: msgspec.Struct, body: bytes = b"") -> Ask:
    return lambda call: call(code, header, body)


def _everywhere(cluster: ClusterClient, ask: Ask, only: Collection[str] | None = None) -> None:
    """On each server, or each that is named. Unreachable where there is none; NotWritable, and nothing is done, where
    one is without its master."""
    info = cluster.cluster_info()
    meant = [name for name in sorted(info.brokerAddrTable) if only is None or name in only]
    led = registered_masters(info)
    if without := [name for name in meant if name not in led]:
        raise NotWritable(
            f"Of {', '.join(without)} only a slave is there: its master would not know of this, and take it back.",
            hint="Start the master first; or stop the slave, if that is to be all.",
        )
    addresses = [address for address in cluster.name_servers.addresses if only is None or address in only]
    with telling_what_is_done() as done:
        for server, _ in _asked(cluster, ask, [*meant, *addresses]):
            done.append(server)
    if not done:
        raise no_broker(";".join(cluster.name_servers.addresses))


def _asked(
    cluster: ClusterClient, ask: Ask, only: Collection[str] | None = None, on_silent: OnSilent | None = None
) -> Iterator[tuple[str, Response]]:
    """The answer of each server, a slave's where its master is away; or of each that is named. What one raises says
    which it was."""
    servers = [*readable(cluster), *cluster.name_servers.addresses] if only is None else only
    roll = RollCall(cluster, on_silent)
    for server in servers:
        if (answer := _answer(cluster, roll, server, partial(ask, _way_to(cluster, server)))) is not None:
            yield server, answer
    roll.insist_on_one(servers)


def _answer(cluster: ClusterClient, roll: RollCall, server: str, ask: Callable[[], Response]) -> Response | None:
    """None of a name server without users, nor of a server that is silent."""
    if roll.is_silent(server):
        return None
    try:
        with roll.hears(server):
            return ask()
        return None
    except RmqError as error:
        if isinstance(error, NotSupported) and server in cluster.name_servers.addresses:
            return None
        error.retell(f"{server}: {sentence(error.message)}", hint=_where_to_look(error.message))
        raise


def _where_to_look(said: str) -> str | None:
    """For what is not there: the hint of its code is about who asks. None of what else a server says."""
    if _NO_USER.search(said):
        return _WHO_IS_THERE
    return _WHAT_IS_SAID if _NO_RIGHT in said else None


def _way_to(cluster: ClusterClient, server: str) -> Call:
    if server in cluster.name_servers.addresses:
        return partial(cluster.name_servers.call, server)
    return partial(_ask_broker, cluster.broker(server))


def _ask_broker(broker: BrokerClient, code: RequestCode, header: msgspec.Struct, body: bytes) -> Response:
    return broker.call(code, header, body, timeout_ms=ADMIN_TIMEOUT_MS)
