"""RMQ_CAPABILITIES (30000): what this broker can do beyond RocketMQ's protocol.

rmqspark's own; a stock broker answers REQUEST_CODE_NOT_SUPPORTED, from which clients conclude that it has none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqspark import __version__
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.message_store import MessageStore


class CapabilityHandlers:
    """Says who is there, which store it has, and where that is."""

    def __init__(
        self,
        broker_name: str,
        store: MessageStore,
        store_path: str,
        *,
        delay_levels: int,
        max_delay_sec: int,
        is_slave: bool = False,
    ) -> None:
        self._store = store
        self._body = CapabilitiesBody(
            version=__version__,
            brokerName=broker_name,
            storePath=store_path,
            slave=is_slave,
            delayLevels=delay_levels,
            maxDelaySec=max_delay_sec,
            capabilities={
                "bulkSend": 2,
                "bulkRead": 2,
                "transactions": 1,
                "measure": 1,
                "groups": 1,
                "topicsSend": 1,
                "topicsRead": 1,
                "queueBounds": 1,
                "delays": 1,
                "metrics": 1,
            },
        )

    def routes(self) -> Routes:
        return {RequestCode.RMQ_CAPABILITIES: Route(None, self.capabilities)}

    def capabilities(self, request: Request[NoFields]) -> Reply:
        """Busy while a slave's store is a copy of it does not know whose: who notes its offsets under an identity that
        it will not keep would find another store later."""
        del request
        if self._body.slave and not self._store.lineage.is_known:
            raise Busy(
                "This slave has not heard from its master yet, whose store it copies.",
                hint="Start the master; it takes ten seconds from then on.",
            )
        store, body = self._store, self._body
        if (store.store_id, store.incarnation, store.opening) != (body.storeId, body.incarnation, body.opening):
            self._body = msgspec.structs.replace(
                body, storeId=store.store_id, incarnation=store.incarnation, opening=store.opening
            )
        return Reply(body=self._body.encode())
