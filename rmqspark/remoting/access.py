"""Who a client says it is to servers, and how its connections are kept from others' eyes and hands.

Nothing secret is in what these print: they end up in tracebacks, in Spark's logs and in the arguments of tasks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rmqspark.errors import InvalidArgument

_HIDDEN: Final = "***"


class Credentials(NamedTuple):
    """What requests are signed with (RocketMQ's SessionCredentials)."""

    access_key: str
    secret_key: str
    security_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, {_HIDDEN})"


class TlsNames(NamedTuple):
    """What a user calls what is in a `Tls`, for errors to say it in his words."""

    trust_cert_path: str = "Tls.trust_cert_path"
    cert_path: str = "Tls.cert_path"
    key_path: str = "Tls.key_path"
    key_password: str = "Tls.key_password"  # noqa: S105 - what it is called
    check_host: str = "Tls.check_host"


class Tls(NamedTuple):
    """How connections are encrypted; the names are RocketMQ's (`tls.client.*`), paths are of PEM files.

    Without `trust_cert_path` the system's authorities are trusted. `auth_server` False takes any certificate, and
    `check_host` False one that is made out to another host. `names` is for errors.
    """

    trust_cert_path: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    auth_server: bool = True
    check_host: bool = True
    names: TlsNames = TlsNames()

    def __repr__(self) -> str:
        shown = self._replace(key_password=_HIDDEN if self.key_password else "")._asdict()
        del shown["names"]
        return f"Tls({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Access(NamedTuple):
    """Who a client is and how its connections are encrypted; by default nobody, and not at all."""

    credentials: Credentials | None = None
    tls: Tls | None = None


OPEN: Final = Access()


def check_credentials(credentials: Credentials) -> None:
    """InvalidArgument for those that nothing could be signed with. Says no value: it may be in the wrong place."""
    for name, value in zip(Credentials._fields, credentials, strict=True):
        if not isinstance(value, str):
            raise InvalidArgument(f"{name} must be text, not {type(value).__name__}.")
        if not value and name != "security_token":
            raise InvalidArgument(f"{name} is empty.", hint='Write Credentials("access key", "secret key").')
        if any(char < " " or "\ud800" <= char <= "\udfff" for char in value):
            hint = "A newline at its end may come from the file it was read from."
            raise InvalidArgument(f"{name} has characters that no key has.", hint=hint)
