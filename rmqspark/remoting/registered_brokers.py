"""Which brokers a name server knows, asked from an event loop: what brokers want to know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RmqError, Unreachable
from rmqspark.protocol.bodies.route import ClusterInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.connection import AsyncConnection

if TYPE_CHECKING:
    from rmqspark.remoting.access import Access

_CONNECT_TIMEOUT_MS: Final = 2_000
_ANSWER_TIMEOUT_MS: Final = 3_000
LONGEST_MS: Final = _CONNECT_TIMEOUT_MS + _ANSWER_TIMEOUT_MS
"""Until it is known that a name server is away."""

log = structlog.get_logger("rmqspark.remoting")


async def registered_brokers(name_server: str, access: Access) -> ClusterInfo | None:
    """None where it is away, or does not say it, which is logged: it may not want to, and it may be no name server."""
    try:
        connection = await AsyncConnection.open(name_server, timeout_ms=_CONNECT_TIMEOUT_MS, access=access)
        try:
            answer = await connection.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=_ANSWER_TIMEOUT_MS)
            return ClusterInfo.decode(answer.raise_for_code().body)
        finally:
            await connection.close()
    except Unreachable:
        return None
    except RmqError as error:
        log.warning("a name server did not say which brokers there are", namesrv=name_server, reason=str(error))
        return None
