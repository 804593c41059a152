"""What a connection signs its requests with, if with anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.protocol.signature import Sign
    from rmqspark.remoting.access import Access


def signer_of(access: Access) -> Sign | None:
    """None where the client says nothing of who it is: then nothing is imported for it either."""
    if access.credentials is None:
        return None
    from rmqspark.protocol.signature import signer

    return signer(*access.credentials)
