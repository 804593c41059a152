"""What went wrong with TLS, in words that say what would be right. OpenSSL's own reasons are for who knows OpenSSL."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from rmqspark.errors import HandshakeFailed, Unreachable

if TYPE_CHECKING:
    from rmqspark.remoting.access import TlsNames

_OTHER_HOST: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_OUT_OF_TIME: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "UNKNOWN_PROTOCOL", "INVALID_ALERT")
_TOO_OLD: Final = ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "VERSION_TOO_LOW")
_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "it wants a certificate, and was shown none",
    "UNKNOWN_CA": "it does not know the authority of the certificate it was shown",
    "BAD_CERTIFICATE": "it does not accept the certificate it was shown",
    "CERTIFICATE_EXPIRED": "the certificate it was shown has expired",
    "CERTIFICATE_REVOKED": "the certificate it was shown has been revoked",
    "CERTIFICATE_UNKNOWN": "it does not accept the certificate it was shown",
    "HANDSHAKE_FAILURE": "it accepts none of what was offered, or wants a certificate and was shown none",
    "DECRYPT_ERROR": "it could not verify what it was sent",
}
_SPEAKS_NONE: Final = "the other side speaks no TLS"
_IS_IT_ON: Final = "Is TLS on there (tls_server_mode)?"
_GONE: Final = "it ended in the middle of the TLS handshake"


def told(error: OSError) -> str:
    """Why a connection cannot go on."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(error)
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
        return _GONE
    reason = _reason_of(error)
    if is_alert(error):
        return f"the other side gave up: {_of_alert(reason)}"
    if reason in _NO_TLS:
        return _SPEAKS_NONE
    if reason in _TOO_OLD:
        return "the other side knows no TLS from version 1.2 on"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client shows no certificate"
    return reason.replace("_", " ").lower() or error.strerror or str(error)


def is_alert(error: OSError) -> bool:
    """Whether it is the other side that has given up, and said so."""
    reason = _reason_of(error)
    return "ALERT" in reason and reason not in _TOO_OLD


def is_of_tls(error: Exception) -> bool:
    """Whether it comes of the handshake: somebody was there, and shook no hands or went away over it."""
    return isinstance(error, (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError))


def handshake_failed(error: OSError, address: str, names: TlsNames) -> Unreachable:
    """The error for a server with which no TLS could be agreed on; `names` are the user's."""
    reason = told(error)
    message = f"No TLS with {address}: {reason}."
    if reason == _GONE:  # which may be a server that stops just now
        return Unreachable(message, address=address, hint=_IS_IT_ON)
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeFailed(message, address=address, hint=_remedy(error, names))
    return HandshakeFailed(message, address=address, hint=_IS_IT_ON if reason == _SPEAKS_NONE else "")


def _reason_of(error: OSError) -> str:
    return getattr(error, "reason", None) or ""


def _not_trusted(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_HOST:
        return f"the certificate is made out to another host ({_message_of(error)})"
    if error.verify_code in _OUT_OF_TIME:
        return f"the {_message_of(error)}"  # "certificate has expired", "certificate is not yet valid"
    return f"the certificate is not trusted ({_message_of(error)})"


def _message_of(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.rstrip(".")
    return message[:1].lower() + message[1:] if not message.startswith("IP") else message


def _remedy(error: ssl.SSLCertVerificationError, names: TlsNames) -> str:
    if error.verify_code in _OTHER_HOST:
        return f"Call it by a name in the certificate (a broker's is broker_ip1), or set {names.check_host} to false."
    if error.verify_code in _OUT_OF_TIME:
        return "Renew it, or set this machine's clock."
    return f"Name the certificate of its authority with {names.trust_cert_path}."


def _of_alert(reason: str) -> str:
    for name, words in _ALERTS.items():
        if reason.endswith(name):
            return words
    return reason.rpartition("ALERT_")[2].replace("_", " ").lower()
