"""What servers and clients are told of TLS, and what they make of it."""

from __future__ import annotations

import ssl
from errno import EACCES, ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.config import BrokerConfig
from rmqspark.errors import InvalidArgument
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.tls.contexts import certified_host, client_context, server_context
from rmqspark.remoting.tls.serving import ServerTls
from rmqspark.remoting.tls.settings import CLIENT_SETTINGS, TlsServing
from rmqspark.settings import as_properties, describe, load, parse_file

if TYPE_CHECKING:
    from tests.certificates import Authority

CERT = {"tls_server_cert_path": "c.pem", "tls_server_key_path": "k.pem"}


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
@pytest.mark.parametrize(
    ("settings", "serving"),
    [
        ({}, None),
        (CERT, TlsServing("c.pem", "k.pem")),
        ({**CERT, "tls_server_mode": "permissive"}, TlsServing("c.pem", "k.pem")),
        ({**CERT, "tls_server_mode": "Enforcing"}, TlsServing("c.pem", "k.pem", enforcing=True)),
        ({**CERT, "tls_server_mode": "disabled"}, None),
        (
            {**CERT, "tls_server_need_client_auth": "REQUIRE", "tls_server_trust_cert_path": "ca.pem"},
            TlsServing("c.pem", "k.pem", "", "ca.pem", "require"),
        ),
    ],
)
def test_modes(kind: Any, settings: dict[str, str], serving: TlsServing | None) -> None:
    """TLS is on where there is a certificate, unless it is switched off; it is demanded where that is said."""
    assert kind(**settings).tls_serving == serving


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tls_server_mode": "on"}, "must be disabled, permissive or enforcing"),
        ({"tls_server_mode": "enforcing"}, "there is no certificate"),
        ({**CERT, "tls_server_need_client_auth": "yes"}, "must be none, optional or require"),
        ({**CERT, "tls_server_need_client_auth": "optional"}, "Name their authority with tls_server_trust_cert_path"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, str], words: str) -> None:
    """A server that could not do what it is told does not start."""
    for kind in (BrokerConfig, NamesrvConfig):
        with pytest.raises(InvalidArgument, match=words):
            kind(**settings)


def test_rocketmqs_lines_are_understood() -> None:
    """What stands in RocketMQ's tls.properties may stand in a settings file."""
    lines = (
        "tls.server.mode=enforcing\ntls.server.certPath=/c\ntls.server.keyPath=/k\ntls.server.need.client.auth=none\n"
    )
    assert load(NamesrvConfig, file=parse_file(lines)).tls_serving == TlsServing("/c", "/k", enforcing=True)


@pytest.mark.parametrize(
    "text",
    ["listenPort=10911\ntls.enable=true\n", 'tls.enable = true\ntls.server.certPath = "/c"', "[tls]\nenable = true"],
)
def test_rocketmqs_names_are_understood_where_a_file_is_toml(text: str) -> None:
    """A broker.conf of numbers and switches alone is TOML, to which a name with dots is one in a table."""
    assert load(BrokerConfig, file=parse_file(text)).tls_enable


def test_a_broker_calls_others_as_it_is_told() -> None:
    """Without TLS by default; with it, servers are verified unless that is switched off."""
    assert BrokerConfig(tls_client_trust_cert_path="ca.pem").access == Access()
    assert BrokerConfig(tls_enable=True).access == Access(tls=Tls(names=CLIENT_SETTINGS))
    told = BrokerConfig(tls_enable=True, tls_client_trust_cert_path="ca.pem", tls_client_check_host=False)
    assert told.access == Access(tls=Tls("ca.pem", check_host=False, names=CLIENT_SETTINGS))


def test_passwords_are_shown_nowhere() -> None:
    """Neither in what tools are told of a server, nor in what is printed of it."""
    config = BrokerConfig(
        tls_enable=True,
        tls_server_cert_path="c.pem",
        tls_server_key_password="swordfish",
        tls_client_key_password="swordfish",
    )
    shown = as_properties(config)
    assert "tlsServerKeyPassword=***\n" in shown
    for text in (shown, repr(config), repr(config.tls_serving), repr(config.access)):
        assert "swordfish" not in text
    assert "tlsServerKeyPassword=\n" in as_properties(BrokerConfig())


def test_own_settings_come_before_those_that_servers_share() -> None:
    """`--help` and the docs begin with what a server is."""
    names = [info.name for info in describe(BrokerConfig)]
    assert names[0] == "broker_name"
    assert names[-1].startswith("tls_")


def test_the_client_verifies_unless_told_otherwise(authority: Authority) -> None:
    """Chain and host by default; the chain alone; nothing."""
    strict, lax, blind = (
        client_context(tls)
        for tls in (Tls(authority.path), Tls(authority.path, check_host=False), Tls(authority.path, auth_server=False))
    )
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert (blind.verify_mode, blind.check_hostname) == (ssl.CERT_NONE, False)
    assert strict.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_context_is_made_anew_when_its_files_change(authority: Authority, tmp_path: Path) -> None:
    """Connections share one until then."""
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(Path(authority.path).read_bytes())
    first = client_context(Tls(str(trusted)))
    assert client_context(Tls(str(trusted))) is first
    trusted.write_bytes(trusted.read_bytes() + b"\n")
    assert client_context(Tls(str(trusted))) is not first


def test_keys_with_a_password_are_opened(authority: Authority) -> None:
    """By the password; without one, or with another, the error names the setting, and nobody is asked at a terminal."""
    cert, key = authority.issue(password="swordfish")
    assert server_context(TlsServing(cert, key, "swordfish"))
    with pytest.raises(InvalidArgument, match="Set tls_server_key_password"):
        server_context(TlsServing(cert, key))
    with pytest.raises(InvalidArgument, match="Tls.key_password does not open the key"):
        client_context(Tls(cert_path=cert, key_path=key, key_password="haddock"))


def test_a_key_in_the_certificates_file_needs_no_name(authority: Authority, tmp_path: Path) -> None:
    """As many tools write them."""
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(Path(path).read_bytes() for path in authority.issue()))
    assert server_context(TlsServing(str(both)))


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    """With the setting that names them, and what is wrong."""
    cert, key = authority.issue()
    other_key = authority.issue().key_path
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for tls, words in [
        (Tls("/nowhere.pem"), "Tls.trust_cert_path /nowhere.pem cannot be read: No such file"),
        (Tls(str(tmp_path)), "cannot be read: Is a directory"),
        (Tls(key), "Tls.trust_cert_path .* holds no certificate in PEM"),
        (Tls(str(damaged)), "holds a certificate that cannot be read"),
        (Tls(cert_path=cert), "Tls.cert_path .* holds no private key in PEM"),
        (Tls(cert_path=cert, key_path=cert), "Tls.key_path .* holds no private key in PEM"),
        (Tls(cert_path=cert, key_path=other_key), "is not the one of the certificate in"),
        (Tls(cert_path=str(damaged), key_path=key), "cannot be read"),
        (Tls(key_path=key), "the key of no certificate"),
    ]:
        with pytest.raises(InvalidArgument, match=words):
            client_context(tls)


@pytest.mark.parametrize(
    ("host", "certified"), [("localhost", "localhost"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1"), ("a%b", "a%b")]
)
def test_hosts_as_certificates_name_them(host: str, certified: str) -> None:
    """An address of a link stands there without the link."""
    assert certified_host(host) == certified


def test_a_certificate_that_may_not_be_read_is_when_it_may(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing about the file itself changes then: an operator has given it to the broker's user. That it cannot be used
    is logged once."""
    certificate = authority.issue("elsewhere")
    tls = ServerTls(TlsServing(*certificate))
    with capture_logs() as logs:
        authority.replace(certificate, "127.0.0.1")
        with monkeypatch.context() as forbidden:
            forbidden.setattr(Path, "read_bytes", _forbidden)
            tls.look()
            tls.look()
        tls.look()
        tls.look()
    assert [entry["event"] for entry in logs] == [
        "the new certificate cannot be used, going on with the old one",
        "certificate read again",
    ]


def _forbidden(path: Path) -> bytes:
    raise PermissionError(EACCES, "Permission denied", path)


@pytest.mark.parametrize("load", ["load_cert_chain", "load_verify_locations"])
def test_a_file_that_goes_while_it_is_read_is_named(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    """It is replaced just then. What is no error of ours would end a broker that registers."""
    certificate = authority.issue()
    tls = Tls(trust_cert_path=authority.path, cert_path=certificate.cert_path, key_path=certificate.key_path)
    monkeypatch.setattr(ssl.SSLContext, load, _gone)
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        client_context(tls)


def _gone(*_: object) -> None:
    raise FileNotFoundError(ENOENT, "No such file or directory")
