"""Certificates for tests, made when they are asked for, by authorities that live as long as the tests do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import trustme

HERE = ("localhost", "127.0.0.1")


class Certificate(NamedTuple):
    """PEM files: the certificate with what leads to its authority, and its key as PKCS #8, which Java wants."""

    cert_path: str
    key_path: str


class Authority:
    """One that says who is who."""

    def __init__(self, directory: Path) -> None:
        import trustme

        self._directory = directory
        self._ca = trustme.CA()
        self._count = 0
        self.path = str(directory / "ca.pem")
        """Its own certificate, which makes others trusted."""
        self._ca.cert_pem.write_to_path(self.path)

    def issue(self, *names: str, expired: bool = False, password: str = "", key_type: str = "ECDSA") -> Certificate:
        """For a host of these names and addresses; by default for this machine as tests call it."""
        import trustme

        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        leaf = self._ca.issue_cert(*(names or HERE), not_after=until, key_type=trustme.KeyType[key_type])
        self._count += 1
        made = Certificate(*(str(self._directory / f"{self._count}-{part}.pem") for part in ("cert", "key")))
        self.write(leaf, made, password)
        return made

    def replace(self, made: Certificate, *names: str) -> None:
        """Puts another certificate, with its key, in the place of one."""
        self.write(self._ca.issue_cert(*names), made, "")

    @staticmethod
    def write(leaf: trustme.LeafCert, made: Certificate, password: str) -> None:
        from cryptography.hazmat.primitives import serialization as pem

        key = pem.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        locked = pem.BestAvailableEncryption(password.encode()) if password else pem.NoEncryption()
        Path(made.cert_path).write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        Path(made.key_path).write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, locked))
