"""How servers and brokers are told of TLS. Names are those of RocketMQ's TlsSystemConfig, in snake_case.

RocketMQ reads them from tls.properties and system properties; here they stand among the other settings, and a line
`tls.server.certPath=…` is understood in a settings file as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import Tls, TlsNames
from rmqspark.settings import setting

_DISABLED, _PERMISSIVE, _ENFORCING = MODES = ("disabled", "permissive", "enforcing")
CLIENT_AUTHS: Final = ("none", "optional", "require")
_HIDDEN: Final = "***"
CLIENT_SETTINGS: Final = TlsNames(*(f"tls_client_{name}" for name in TlsNames._fields))
SERVER_SETTINGS: Final = TlsNames(*(f"tls_server_{name}" for name in TlsNames._fields))


class TlsServing(NamedTuple):
    """What a server's end of TLS is made of; paths are of PEM files.

    Without `key_path` the key is in the certificate's file. `need_client_auth` is one of CLIENT_AUTHS; what clients
    show is always verified, by `trust_cert_path`. `enforcing` sends clients away that do without TLS.
    """

    cert_path: str
    key_path: str = ""
    key_password: str = ""
    trust_cert_path: str = ""
    need_client_auth: str = "none"
    enforcing: bool = False

    def __repr__(self) -> str:
        shown = self._replace(key_password=_HIDDEN if self.key_password else "")
        return f"TlsServing({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, shown, strict=True))})"


@dataclass(frozen=True, kw_only=True)
class TlsServerSettings:
    """Those of whatever listens."""

    tls_server_mode: str = setting(
        "",
        "TLS of clients: disabled, permissive (with it or without) or enforcing. Not set: permissive where there is a "
        "certificate, disabled where there is none.",
    )
    tls_server_cert_path: str = setting(
        "", "Certificate of the server, and those between it and its authority: a PEM file, read again when it changes."
    )
    tls_server_key_path: str = setting("", "Its private key, a PEM file; empty: in the same file.")
    tls_server_key_password: str = setting(
        "", "Password of that key; best given as RMQ_TLS_SERVER_KEY_PASSWORD.", secret=True
    )
    tls_server_need_client_auth: str = setting(
        "none", "Certificates of clients: none, optional or require. One that is shown is verified."
    )
    tls_server_trust_cert_path: str = setting("", "Authorities of clients' certificates: a PEM file.")

    @property
    def tls_server_settings(self) -> dict[str, Any]:
        """Those of this class, for another server to have the same."""
        return {each.name: getattr(self, each.name) for each in fields(TlsServerSettings)}

    @property
    def tls_serving(self) -> TlsServing | None:
        """None where TLS is off. Raises InvalidArgument for settings that do not go together."""
        cert_path = self.tls_server_cert_path
        mode = _one_of(MODES, "tls_server_mode", self.tls_server_mode or (_PERMISSIVE if cert_path else _DISABLED))
        client_auth = _one_of(CLIENT_AUTHS, "tls_server_need_client_auth", self.tls_server_need_client_auth)
        if mode == _DISABLED:
            return None
        if not cert_path:
            raise InvalidArgument(
                f"tls_server_mode is {mode}, but there is no certificate.",
                hint="Name one with tls_server_cert_path and tls_server_key_path.",
            )
        if client_auth != "none" and not self.tls_server_trust_cert_path:
            raise InvalidArgument(
                f"tls_server_need_client_auth is {client_auth}, but nothing says whose certificates are good.",
                hint="Name their authority with tls_server_trust_cert_path.",
            )
        return TlsServing(
            cert_path,
            self.tls_server_key_path,
            self.tls_server_key_password,
            self.tls_server_trust_cert_path,
            client_auth,
            mode == _ENFORCING,
        )


@dataclass(frozen=True, kw_only=True)
class TlsClientSettings:
    """Those of a server that is a client of others."""

    tls_enable: bool = setting(False, "Connections to name servers and other brokers speak TLS.")
    tls_client_trust_cert_path: str = setting(
        "", "Authorities of their certificates: a PEM file; empty: those the system trusts."
    )
    tls_client_cert_path: str = setting("", "Certificate to show them where they ask for one: a PEM file.")
    tls_client_key_path: str = setting("", "Its private key, a PEM file; empty: in the same file.")
    tls_client_key_password: str = setting(
        "", "Password of that key; best given as RMQ_TLS_CLIENT_KEY_PASSWORD.", secret=True
    )
    tls_client_auth_server: bool = setting(True, "Their certificates are verified (off in RocketMQ).")
    tls_client_check_host: bool = setting(True, "(ours) They have to be made out to the host that is called.")

    @property
    def tls_client(self) -> Tls | None:
        """None where TLS is off."""
        if not self.tls_enable:
            return None
        return Tls(
            self.tls_client_trust_cert_path,
            self.tls_client_cert_path,
            self.tls_client_key_path,
            self.tls_client_key_password,
            self.tls_client_auth_server,
            self.tls_client_check_host,
            CLIENT_SETTINGS,
        )


def _one_of(words: tuple[str, ...], name: str, value: str) -> str:
    word = value.strip().lower()
    if word not in words:
        raise InvalidArgument(f"{name} is {value!r}, but must be {', '.join(words[:-1])} or {words[-1]}.")
    return word
