"""What a server is told of authentication and authorization. Names are RocketMQ's AuthConfig in snake_case.

RocketMQ names the classes that do the work. Ours are built in: the names of RocketMQ's own are taken, so that its
broker.conf serves as it is, and any other is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Final

from rmqspark.auth.users import User, UserType
from rmqspark.errors import InvalidArgument, NotThereYet
from rmqspark.remoting.access import Credentials
from rmqspark.settings import camel_case, setting
from rmqspark.whole_numbers import whole_number

_PACKAGE: Final = "org.apache.rocketmq.auth."
_CLASSES: Final = {
    f"{work}_{part}": f"{_PACKAGE}{work}.{name}"
    for work, kind in (("authentication", "Authentication"), ("authorization", "Authorization"))
    for part, name in (
        ("provider", f"provider.Default{kind}Provider"),
        ("metadata_provider", f"provider.Local{kind}MetadataProvider"),
        ("strategy", f"strategy.Stateless{kind}Strategy"),
    )
}
_ABOUT_USERS: Final = frozenset({*range(3001, 3011), 30060})  # AUTH_CREATE_USER to AUTH_LIST_ACL, RMQ_ACCOUNTS
_BUILT_IN: Final = "RocketMQ's class for it, which is built in."


@dataclass(frozen=True, kw_only=True)
class AuthConfig:
    """Who is let in, and whether all may do all. Base of the settings of broker and name server."""

    authentication_enabled: bool = setting(False, "Only users are served: each request must be signed.")
    authorization_enabled: bool = setting(
        False, "Users may do what was allowed them, and nothing else; super users may do everything."
    )
    init_authentication_user: str = setting(
        "",
        'The first super user: {"username":"...","password":"..."}; best given in a file or as '
        "RMQ_INIT_AUTHENTICATION_USER.",
        secret=True,
    )
    inner_client_authentication_credentials: str = setting(
        "",
        'What servers sign with among themselves: {"accessKey":"...","secretKey":"..."}, a super user of each; best '
        "given in a file or as RMQ_INNER_CLIENT_AUTHENTICATION_CREDENTIALS. Empty: as the first user.",
        secret=True,
    )
    authentication_whitelist: str = setting("", "Request codes that need no signature: 105,106.")
    authorization_whitelist: str = setting("", "Request codes that every user may ask: 105,106.")
    authentication_provider: str = setting("", _BUILT_IN)
    authentication_metadata_provider: str = setting("", _BUILT_IN)
    authentication_strategy: str = setting("", _BUILT_IN)
    authorization_provider: str = setting("", _BUILT_IN)
    authorization_metadata_provider: str = setting("", _BUILT_IN)
    authorization_strategy: str = setting("", _BUILT_IN)
    migrate_auth_from_v1_enabled: bool = setting(False, "Refused: plain_acl.yml of RocketMQ 4 is not read.")

    def check_auth(self) -> None:
        """Raises InvalidArgument for what cannot be, NotThereYet for what this version does not have."""
        for name, built_in in _CLASSES.items():
            if getattr(self, name) not in ("", built_in):
                raise NotThereYet(
                    f"{camel_case(name)} is {getattr(self, name)!r}; there is no other than {built_in}.",
                    hint="Leave it out.",
                )
        if self.migrate_auth_from_v1_enabled:
            raise NotThereYet("migrateAuthFromV1Enabled: plain_acl.yml is not read.", hint="Make its users anew.")
        if self.authorization_enabled and not self.authentication_enabled:
            raise InvalidArgument(
                "authorizationEnabled without authenticationEnabled: users could call themselves what they like.",
                hint="Set both.",
            )
        if self.authentication_enabled and not self.first_users:
            raise InvalidArgument(
                "authenticationEnabled without a user to begin with: nobody could do anything.",
                hint="Set initAuthenticationUser or innerClientAuthenticationCredentials.",
            )
        if about_users := codes_in("authentication_whitelist", self.authentication_whitelist) & _ABOUT_USERS:
            raise InvalidArgument(
                f"authenticationWhitelist has {min(about_users)}: users and rights are changed by who has signed.",
                hint="Leave 3001 to 3010 and 30060 out.",
            )
        codes_in("authorization_whitelist", self.authorization_whitelist)

    @property
    def auth_settings(self) -> dict[str, Any]:
        """Those of this class, for another server to have the same."""
        return {each.name: getattr(self, each.name) for each in fields(AuthConfig)}

    @property
    def first_users(self) -> list[User]:
        """The super users of the settings."""
        first, inner = self._first, self._inner
        users = [] if first is None else [first]
        return users if inner is None or inner in users else [*users, inner]

    @property
    def inner_credentials(self) -> Credentials | None:
        """In whose name this server goes to the others."""
        user = self._inner or self._first
        return None if user is None else Credentials(user.username, user.password)

    @property
    def _first(self) -> User | None:
        read = _read("init_authentication_user", self.init_authentication_user, "username", "password")
        return None if read is None else User(*read, UserType.SUPER)

    @property
    def _inner(self) -> User | None:
        name = "inner_client_authentication_credentials"
        read = _read(name, self.inner_client_authentication_credentials, "accessKey", "secretKey")
        return None if read is None else User(*read, UserType.SUPER)


def codes_in(setting_name: str, text: str) -> frozenset[int]:
    """The request codes of a whitelist. Raises InvalidArgument for what is no number."""
    codes = {whole_number(word.strip()) for word in text.split(",") if word.strip()}
    if None in codes:
        raise InvalidArgument(f"{camel_case(setting_name)} is {text!r}, but must be request codes: 105,106.")
    return frozenset(code for code in codes if code is not None)


def _read(setting_name: str, text: str, name: str, secret: str) -> tuple[str, str] | None:
    """The two members of a JSON object; None where nothing is set. No error shows what was given: it is a secret."""
    if not text.strip():
        return None
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        found = given.get(name), given.get(secret)
        if all(isinstance(each, str) and each.strip() for each in found):
            return str(found[0]), str(found[1])
    wanted = f'{{"{name}":"...","{secret}":"..."}}'
    raise InvalidArgument(f"{camel_case(setting_name)} is not what it must be: {wanted}.")
