"""How replication stands, as RocketMQ's mqadmin haStatus reads it (HARuntimeInfo)."""

from __future__ import annotations

import msgspec

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.headers.types import Int32, Int64


class HaConnectionInfo(Body):
    """A slave, as its master sees it. `diff` is how many bytes of the log it has not confirmed."""

    addr: str = ""
    slaveAckOffset: Int64 = 0
    diff: Int64 = 0
    inSync: bool = False
    transferredByteInSecond: Int64 = 0  # not measured
    transferFromWhere: Int64 = 0


class HaClientInfo(Body):
    """A slave, as it sees itself; times in ms, 0 for never."""

    masterAddr: str | None = None
    transferredByteInSecond: Int64 = 0  # not measured
    maxOffset: Int64 = 0
    lastReadTimestamp: Int64 = 0
    lastWriteTimestamp: Int64 = 0
    masterFlushOffset: Int64 = 0  # masters do not say
    activated: bool = False


class HaRuntimeInfo(Body):
    """Answers GET_BROKER_HA_STATUS."""

    master: bool = False
    masterCommitLogMaxOffset: Int64 = 0
    inSyncSlaveNums: Int32 = 0
    haConnectionInfo: list[HaConnectionInfo] = []
    haClientRuntimeInfo: HaClientInfo = msgspec.field(default_factory=HaClientInfo)
