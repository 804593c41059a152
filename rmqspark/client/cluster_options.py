"""What a Spark query says of the cluster it talks to: source and sink have these options in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rmqspark.client.cluster.access import credentials_of_environment, tls_of_environment
from rmqspark.errors import InvalidArgument
from rmqspark.options import Option, boolean, text
from rmqspark.remoting.access import Access, Credentials, Tls, TlsNames, check_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS: Final = ("accessKey", "secretKey")
_TLS: Final = MappingProxyType(
    {
        "tlsTrustCertPath": "trust_cert_path",
        "tlsCertPath": "cert_path",
        "tlsKeyPath": "key_path",
        "tlsKeyPassword": "key_password",
        "tlsAuthServer": "auth_server",
        "tlsCheckHost": "check_host",
    }
)

OPTIONS: Final = TlsNames(**{field: name for name, field in _TLS.items() if field in TlsNames._fields})

NAMESRV: Final = Option(
    "namesrv",
    "`$RMQ_NAMESRV`, `$NAMESRV_ADDR`, `127.0.0.1:9876`",
    "name servers, `host:port;host:port`",
    text,
    aliases=("nameServer", "namesrvAddr"),
)
ACCESS_OPTIONS: Final = (
    Option("accessKey", "`$RMQ_ACCESS_KEY`", "the user in whose name requests are signed, with `secretKey`", text),
    Option("secretKey", "`$RMQ_SECRET_KEY`", "its password; shown nowhere", text),
    Option("securityToken", "`$RMQ_SECURITY_TOKEN`", "with a pair of keys that is only lent; shown nowhere", text),
    Option("tlsEnable", "`$RMQ_TLS_ENABLE`, `false`", "encrypt connections, to name servers and brokers", boolean),
    Option(
        "tlsTrustCertPath",
        "`$RMQ_TLS_CLIENT_TRUST_CERT_PATH`, the system's",
        "PEM file of the authorities to trust; on every machine, as all files here",
        text,
    ),
    Option("tlsCertPath", "`$RMQ_TLS_CLIENT_CERT_PATH`", "PEM file of a certificate to show servers", text),
    Option("tlsKeyPath", "`$RMQ_TLS_CLIENT_KEY_PATH`", "PEM file of its key; without one it is in the same file", text),
    Option("tlsKeyPassword", "`$RMQ_TLS_CLIENT_KEY_PASSWORD`", "what that key is encrypted with; shown nowhere", text),
    Option(
        "tlsAuthServer",
        "`$RMQ_TLS_CLIENT_AUTH_SERVER`, `true`",
        "`false`: take any server's certificate, an impostor's too",
        boolean,
    ),
    Option(
        "tlsCheckHost",
        "`$RMQ_TLS_CLIENT_CHECK_HOST`, `true`",
        "`false`: take a trusted certificate that is made out to another host",
        boolean,
    ),
)
KAFKA_NAMES: Final = MappingProxyType(
    {
        "kafka.bootstrap.servers": 'Use option("namesrv", "host:9876").',
        "kafka.security.protocol": "Use tlsEnable=true for TLS, accessKey and secretKey to sign requests.",
        "kafka.sasl.": "Use accessKey and secretKey.",
        "kafka.ssl.": "Use tlsEnable=true, and the other tls options: they name files in PEM.",
    }
)
"""What Kafka's source and sink call these; see `source.kafka_names`."""
ACCESS_NAMES: Final = tuple(option.name for option in ACCESS_OPTIONS)
SECRET_NAMES: Final = (*_KEYS, "securityToken", "tlsKeyPassword")


def access_of(values: Mapping[str, Any]) -> Access:
    """From options as read; what they do not say at all, of keys or of TLS, the environment does. InvalidArgument names
    one without its other half."""
    return Access(_credentials(values), _tls(values))


def _credentials(values: Mapping[str, Any]) -> Credentials | None:
    given = [name for name in (*_KEYS, "securityToken") if name in values]
    if not given:
        return credentials_of_environment()
    for name in _KEYS:
        if name not in values:
            raise InvalidArgument(f"Option {given[0]!r} needs {name!r}: requests are signed with both.")
    found = Credentials(values["accessKey"], values["secretKey"], values.get("securityToken", ""))
    check_credentials(found)
    return found


def _tls(values: Mapping[str, Any]) -> Tls | None:
    given = [name for name in _TLS if name in values]
    if not values.get("tlsEnable"):
        if given:
            raise InvalidArgument(f"Option {given[0]!r} has no meaning without tlsEnable=true.")
        return None if "tlsEnable" in values else tls_of_environment()
    return Tls(**{_TLS[name]: values[name] for name in given}, names=OPTIONS)
