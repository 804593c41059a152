"""What a client shows servers: what the user said, else what the environment says.

The environment has RocketMQ's names where there are any (its client's `tls.*`), and a file for secrets that are not to
stand in it: `RMQ_CREDENTIALS` names it.
"""

from __future__ import annotations

import os
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import Access, Credentials, Tls, TlsNames, check_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

CREDENTIALS_FILE: Final = "RMQ_CREDENTIALS"
KEY_VARIABLES: Final = ("RMQ_ACCESS_KEY", "RMQ_SECRET_KEY", "RMQ_SECURITY_TOKEN")
TLS_VARIABLE: Final = "RMQ_TLS_ENABLE"
_TLS_TEXTS: Final = MappingProxyType(
    {
        "RMQ_TLS_CLIENT_TRUST_CERT_PATH": "trust_cert_path",
        "RMQ_TLS_CLIENT_CERT_PATH": "cert_path",
        "RMQ_TLS_CLIENT_KEY_PATH": "key_path",
        "RMQ_TLS_CLIENT_KEY_PASSWORD": "key_password",
    }
)
_TLS_SWITCHES: Final = MappingProxyType(
    {"RMQ_TLS_CLIENT_AUTH_SERVER": "auth_server", "RMQ_TLS_CLIENT_CHECK_HOST": "check_host"}
)
TLS_VARIABLES: Final = (TLS_VARIABLE, *_TLS_TEXTS, *_TLS_SWITCHES)
VARIABLES: Final = TlsNames(*(f"$RMQ_TLS_CLIENT_{name.upper()}" for name in TlsNames._fields))


def resolve_access(explicit: Access | None = None, environ: Mapping[str, str] = os.environ) -> Access:
    """`explicit`, else what the environment says. InvalidArgument names what is wrong with either, and shows no key."""
    if explicit is None:
        return access_of_environment(environ)
    _check_kind("access", explicit, Access, "Access(Credentials(…))")
    _check_kind("credentials of an Access", explicit.credentials, Credentials | None, "Access(Credentials(…))")
    _check_kind("tls of an Access", explicit.tls, Tls | None, "Access(tls=Tls(…))")
    if explicit.credentials is not None:
        check_credentials(explicit.credentials)
    return explicit


def access_of_environment(environ: Mapping[str, str] = os.environ) -> Access:
    """What variables say; an empty one counts as not set. InvalidArgument names one that lacks its other half."""
    return Access(credentials_of_environment(environ), tls_of_environment(environ))


def credentials_of_environment(environ: Mapping[str, str] = os.environ) -> Credentials | None:
    """The keys, else those in the file that $RMQ_CREDENTIALS names, else none."""
    key, secret, token = (environ.get(name, "") for name in KEY_VARIABLES)
    if key or secret or token:
        for name, value in zip(KEY_VARIABLES, (key, secret), strict=False):
            if not value:
                given = next(other for other in KEY_VARIABLES if environ.get(other))
                raise InvalidArgument(f"${given} is set, and ${name} is not.", hint="Requests are signed with both.")
        found = Credentials(key, secret, token)
        check_credentials(found)
        return found
    if path := environ.get(CREDENTIALS_FILE):
        from rmqspark.client.cluster.credentials_file import read_credentials  # of use where there is one

        return read_credentials(path, f"${CREDENTIALS_FILE}")
    return None


def tls_of_environment(environ: Mapping[str, str] = os.environ) -> Tls | None:
    """None without $RMQ_TLS_ENABLE. To say how, and not whether, is a slip: nothing would be encrypted."""
    given = [name for name in (*_TLS_TEXTS, *_TLS_SWITCHES) if environ.get(name)]
    if not environ.get(TLS_VARIABLE):
        if given:
            hint = f"Set {TLS_VARIABLE}=true, or false for connections that are not encrypted."
            raise InvalidArgument(f"${given[0]} is set, and ${TLS_VARIABLE} is not.", hint=hint)
        return None
    if not _is_on(TLS_VARIABLE, environ):
        return None
    said: dict[str, Any] = {_TLS_TEXTS[name]: environ[name] for name in given if name in _TLS_TEXTS}
    said |= {_TLS_SWITCHES[name]: _is_on(name, environ) for name in given if name in _TLS_SWITCHES}
    return Tls(**said, names=VARIABLES)


def variables_of(tls: Tls | None) -> dict[str, str]:
    """The variables by which `tls_of_environment` says this; those that are not named are not to be set."""
    if tls is None:
        return {}
    texts = {name: getattr(tls, field) for name, field in _TLS_TEXTS.items()}
    switches = {name: str(getattr(tls, field)).lower() for name, field in _TLS_SWITCHES.items()}
    return {TLS_VARIABLE: "true", **{name: text for name, text in texts.items() if text}, **switches}


def _check_kind(name: str, value: object, kind: type | UnionType, form: str) -> None:
    """A plain tuple would do as well, but show what is in it wherever it is printed."""
    if not isinstance(value, kind):
        raise InvalidArgument(f"{name} cannot be of type {type(value).__name__}.", hint=f"Write {form}.")


def _is_on(name: str, environ: Mapping[str, str]) -> bool:
    word = environ[name].strip().lower()
    if word not in ("true", "false"):
        raise InvalidArgument(f"${name} is {environ[name]!r:.80}.", hint="true or false is accepted.")
    return word == "true"
