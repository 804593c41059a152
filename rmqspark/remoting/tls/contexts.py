"""What OpenSSL is told, from what the user said: for the client's end and for the server's.

Certificates and keys are PEM files, as netty takes them for RocketMQ. An error names the setting and the file, because
OpenSSL's own, such as "PEM lib", name neither.
"""

from __future__ import annotations

import functools
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqspark.errors import InvalidArgument, UnusableFile
from rmqspark.remoting.tls.settings import SERVER_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.remoting.access import Tls, TlsNames
    from rmqspark.remoting.tls.settings import TlsServing

Stamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_CERTIFICATE: Final = b"CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
_LOCKED_KEY: Final = b"ENCRYPTED"
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
_KEPT: Final = 8


def client_context(tls: Tls) -> ssl.SSLContext:
    """For connections of ours to servers. The same one for the same settings, as long as the files do not change: to
    read what the system trusts takes 10 ms. Raises InvalidArgument for a file that is not what it should be."""
    return _client_context(tls, stamps(client_files(tls)))


@functools.lru_cache(_KEPT)
def _client_context(tls: Tls, _: Stamps) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.auth_server and tls.check_host
    context.verify_mode = ssl.CERT_REQUIRED if tls.auth_server else ssl.CERT_NONE
    if tls.trust_cert_path:
        _trust(context, tls.names.trust_cert_path, tls.trust_cert_path)
    elif tls.auth_server:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.cert_path:
        _show(context, tls.names, tls.cert_path, tls.key_path, tls.key_password)
    elif tls.key_path:
        hint = f"Name {tls.names.cert_path}."
        raise InvalidArgument(f"{tls.names.key_path} is the key of no certificate.", hint=hint)
    return context


def server_context(serving: TlsServing) -> ssl.SSLContext:
    """For connections of clients to us. Raises InvalidArgument for a file that is not what it should be."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[serving.need_client_auth]
    if serving.trust_cert_path:
        _trust(context, SERVER_SETTINGS.trust_cert_path, serving.trust_cert_path)
    _show(context, SERVER_SETTINGS, serving.cert_path, serving.key_path, serving.key_password)
    return context


def certified_host(host: str) -> str:
    """What a certificate calls a host: an address of a link goes there without the name of the link."""
    return host.partition("%")[0] if ":" in host else host


def client_files(tls: Tls) -> tuple[str, ...]:
    """What a client's context is read from."""
    return tls.trust_cert_path, tls.cert_path, tls.key_path


def server_files(serving: TlsServing) -> tuple[str, ...]:
    """What a server's context is read from."""
    return serving.cert_path, serving.key_path, serving.trust_cert_path


def stamps(paths: Iterable[str]) -> Stamps:
    """By which one sees that files have changed; None for one that is not there."""
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # nobody needs it, and it costs the side that is asked the most
    return context


def _trust(context: ssl.SSLContext, name: str, path: str) -> None:
    _read(name, path, _CERTIFICATE, "certificate")
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise UnusableFile(name, f"{path} holds a certificate that cannot be read{_said(error)}.") from error


def _show(context: ssl.SSLContext, names: TlsNames, cert_path: str, key_path: str, password: str) -> None:
    """Gives the context a certificate with its key."""
    _read(names.cert_path, cert_path, _CERTIFICATE, "certificate")
    key_name, key_file = (names.key_path, key_path) if key_path else (names.cert_path, cert_path)
    is_locked = _LOCKED_KEY in _read(key_name, key_file, _KEY, "private key")
    if is_locked and not password:
        story = f"{key_file} is a key with a password, and none is given."
        raise UnusableFile(key_name, story, hint=f"Set {names.key_password}.")
    try:
        context.load_cert_chain(cert_path, key_path or None, lambda: password)  # a function: else OpenSSL asks the user
    except OSError as error:
        raise _does_not_fit(error, names, cert_path, key_file, is_locked=is_locked) from error


def _does_not_fit(
    error: OSError, names: TlsNames, cert_path: str, key_file: str, *, is_locked: bool
) -> InvalidArgument:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return InvalidArgument(f"The key in {key_file} is not the one of the certificate in {cert_path}.")
    if is_locked and isinstance(error, ssl.SSLError):
        return InvalidArgument(f"{names.key_password} does not open the key in {key_file}.")
    return InvalidArgument(f"The certificate in {cert_path} or the key in {key_file} cannot be read{_said(error)}.")


def _read(name: str, path: str, marker: bytes, what: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnusableFile(name, f"{path} cannot be read: {error.strerror}.") from error
    if marker not in content:
        raise UnusableFile(name, f"{path} holds no {what} in PEM.", hint="openssl converts to it.")
    return content


def _said(error: OSError) -> str:
    """OpenSSL's reason, where it has one; of a file that was there a moment ago, the system's."""
    if not isinstance(error, ssl.SSLError):
        return f": {error.strerror}"
    return f": {error.reason.replace('_', ' ').lower()}" if error.reason else ""
