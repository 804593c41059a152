"""GET_BROKER_HA_STATUS (907): which slaves a master has and how far they are, or how a slave stands.

RocketMQ's AdminBrokerProcessor.getBrokerHaStatus. Left out: bytes a second, which are 0. A slave with two connections
counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.bodies.replication import HaClientInfo, HaConnectionInfo, HaRuntimeInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.replication.slave import Slave

if TYPE_CHECKING:
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.replication.acks import SlaveProgress, Slaves
    from rmqspark.store.message_store import MessageStore


class HaStatusHandlers:
    """Of a master, which has slaves, or of a slave."""

    def __init__(self, store: MessageStore, role: Slaves | Slave, *, most_behind_bytes: int) -> None:
        self._store = store
        self._role = role
        self._most_behind_bytes = most_behind_bytes

    def routes(self) -> Routes:
        return {RequestCode.GET_BROKER_HA_STATUS: Route(None, self.status)}

    def status(self, request: Request[NoFields]) -> Reply:
        del request
        role = self._role
        return Reply(body=(self._of_slave(role) if isinstance(role, Slave) else self._of_master(role)).encode())

    def _of_master(self, slaves: Slaves) -> HaRuntimeInfo:
        end = self._store.end_offset
        connections = [self._connection(slave, end) for slave in slaves]
        return HaRuntimeInfo(
            master=True,
            masterCommitLogMaxOffset=end,
            inSyncSlaveNums=slaves.in_step(end, self._most_behind_bytes),
            haConnectionInfo=connections,
        )

    def _connection(self, slave: SlaveProgress, end: int) -> HaConnectionInfo:
        behind = end - max(0, slave.acked_offset)
        return HaConnectionInfo(
            addr=slave.address,
            slaveAckOffset=slave.acked_offset,
            diff=behind,
            inSync=slave.has_begun and behind < self._most_behind_bytes,
            transferFromWhere=slave.next_offset,
        )

    def _of_slave(self, slave: Slave) -> HaRuntimeInfo:
        client = HaClientInfo(
            masterAddr=slave.master or None,
            maxOffset=self._store.end_offset,
            lastReadTimestamp=slave.heard_ms,
            lastWriteTimestamp=slave.reported_ms,
            activated=slave.is_connected,
        )
        return HaRuntimeInfo(haClientRuntimeInfo=client)
