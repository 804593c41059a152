"""Lets a request pass to its handler, or not (RocketMQ's authentication and authorization pipelines; its words).

Who signs is found out first, then what the request asks for is compared with what that user may do. Three things
differ from RocketMQ on purpose:
- Whether there is a user of that name is nobody's to know: an unknown one is answered as a wrong signature is, and as
  slowly; that a user is disabled learns who has its password.
- A code without an entry in the table of rights is the super users' alone. In RocketMQ everybody may ask it.
- What goes by a whitelist without a signature is nobody's, whatever access key it carries.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import structlog

from rmqspark.auth.config import codes_in
from rmqspark.auth.rights import RIGHTS
from rmqspark.auth.users import UserStatus, subject_key
from rmqspark.errors import NoPermission
from rmqspark.protocol.codes import Version
from rmqspark.protocol.headers.consume import UNIQUE_KEY_QUERY
from rmqspark.protocol.signature import ACCESS_KEY, SIGNATURE, signature
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.auth.accounts import Accounts
    from rmqspark.auth.config import AuthConfig
    from rmqspark.auth.needs import Here
    from rmqspark.auth.resources import Need
    from rmqspark.auth.users import User
    from rmqspark.remoting.request import Connection, Request

_NOBODYS_PASSWORD: Final = "there is no such user"  # noqa: S105 - nobody has it
_WRONG: Final = "check signature failed."

log = structlog.get_logger("rmqspark.auth")


class _Refusal(NamedTuple):
    """What is told once. All names that are no users are one, or who invents some could fill the log, or silence it."""

    user: str | None
    code: int
    host: str


class Guard:
    """Implements `remoting.router.Guard`."""

    def __init__(self, config: AuthConfig, accounts: Accounts, here: Here) -> None:
        self._accounts = accounts
        self._here = here
        self._authorizes = config.authorization_enabled
        self._unsigned = codes_in("authentication_whitelist", config.authentication_whitelist)
        self._allowed = codes_in("authorization_whitelist", config.authorization_whitelist)
        self._told: ToldOnce[_Refusal] = ToldOnce(log, "refusals")
        self._signers: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()  # who has signed last

    def may(self, connection: Connection, need: Need) -> bool:
        """Whether a client may be told of something of its own accord: whoever has signed last on its connection."""
        username = self._signers.get(connection)
        if username is None:
            return not self._authorizes
        user = self._accounts.user(username)
        if user is None or user.status is UserStatus.DISABLE:
            return False
        if not self._authorizes:
            return True
        return user.is_super or not self._accounts.rights_of(user.username).refusal(need, connection.peer[0])

    def user_of(self, connection: Connection) -> str:
        """Who has signed last on it; "" for nobody."""
        return self._signers.get(connection, "")

    def check(self, request: Request[Any]) -> None:
        """Raises NoPermission, or what is wrong with a body that should name what it is about."""
        fields = request.fields
        try:
            user = self._signer(request, fields)
            if self._authorizes and request.code not in self._allowed:
                self._authorize(request, user)
        except NoPermission as refusal:
            self._tell(request, fields.get(ACCESS_KEY, ""), refusal)
            raise

    def check_again(self, request: Request[Any], needs: Iterable[Need]) -> None:
        """For a request that was let in and has waited since: raises NoPermission where who has signed last on its
        connection is no user any more, or may not do that."""
        username = self._signers.get(request.connection)
        asks_for_rights = self._authorizes and request.code not in self._allowed
        if username is None or (request.code in self._unsigned and not asks_for_rights):
            return  # nobody has to sign it
        user = self._accounts.user(username)
        if user is None:
            raise NoPermission(_WRONG)
        _check_enabled(user)
        if asks_for_rights and not user.is_super:
            self._require(user, needs, request.connection.peer[0])

    def _signer(self, request: Request[Any], fields: Mapping[str, str]) -> User | None:
        """Who has signed it; None for nobody, where that is allowed."""
        try:
            return self._authenticated(request, fields)
        except NoPermission:
            if request.code in self._unsigned:
                return None
            raise

    def _authenticated(self, request: Request[Any], fields: Mapping[str, str]) -> User:
        username = fields.get(ACCESS_KEY)
        if not username:
            raise NoPermission("username cannot be null.")
        user = self._accounts.user(username)
        expected = signature(_signed(request, fields), request.body, user.password if user else _NOBODYS_PASSWORD)
        given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
        if not hmac.compare_digest(expected.encode(), given) or user is None:
            raise NoPermission(_WRONG)
        _check_enabled(user)
        self._signers[request.connection] = user.username
        return user

    def _authorize(self, request: Request[Any], user: User | None) -> None:
        if user is None:
            raise NoPermission("Authorization failed. Please verify your access rights and try again.")
        if user.is_super:
            return
        parts = RIGHTS.get(request.code)
        if parts is None:
            subject = subject_key(user.username)
            raise NoPermission(f"{subject} has no permission to ask for request code {request.code}: super users have.")
        for part in parts:
            self._require(user, part.needs(request, self._here), request.connection.peer[0])

    def _require(self, user: User, needs: Iterable[Need], source_ip: str) -> None:
        rights = self._accounts.rights_of(user.username)
        for need in needs:
            refusal = rights.refusal(need, source_ip)
            if refusal:
                raise NoPermission(
                    f"{subject_key(user.username)} has no permission to access {need.resource.key} from {source_ip}, "
                    f"{refusal}"
                )

    def _tell(self, request: Request[Any], username: str, refusal: NoPermission) -> None:
        """The log hears of each kind once: who is refused does not stop trying. Names are the client's inventions."""
        user, host = self._accounts.user(username), request.connection.peer[0]
        if self._told.is_news(_Refusal(None if user is None else username, request.code, host)):
            name, reason = _printable(username[:64]), _printable(refusal.message[:512])
            log.warning("refused", user=name, code=request.code, host=host, reason=reason)


def _check_enabled(user: User) -> None:
    if user.status is UserStatus.DISABLE:
        raise NoPermission(f"{subject_key(user.username)} is disabled.")


def _printable(text: str) -> str:
    return text.encode("unicode_escape").decode()


def _signed(request: Request[Any], fields: Mapping[str, str]) -> Mapping[str, str]:
    if request.version <= Version.V4_9_3 and UNIQUE_KEY_QUERY in fields:  # older clients set it when they have signed
        return {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
    return fields
