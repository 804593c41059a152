"""How two servers that know the same secret prove it to each other, without telling it. Pure.

Both put random bytes of their own in, so that nothing heard before proves anything now; each proof says what it is for
and who gives it, so that none can be turned round, or used elsewhere.
"""

from __future__ import annotations

import hmac
from typing import Final

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32


def proof(secret: str, purpose: bytes, *said: bytes) -> bytes:
    """Of whoever knows the secret, about all that was said so far."""
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (purpose, *said))
    return hmac.digest(secret.encode(errors="surrogatepass"), parts, "sha256")


def is_proof(given: bytes, secret: str, purpose: bytes, *said: bytes) -> bool:
    """In the same time, whatever is given."""
    return hmac.compare_digest(given, proof(secret, purpose, *said))
