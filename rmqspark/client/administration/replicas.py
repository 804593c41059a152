"""How a broker's slaves stand: each is asked itself, and its master with them. RocketMQ: HARuntimeInfo (haStatus).

A master knows its slaves by connections, whose ports are any; a slave knows how far it has come. So what is told of a
slave is what it says, held against the end of its master's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqspark.client.administration.broker_admin import ADMIN_TIMEOUT_MS
from rmqspark.client.cluster.futures import then
from rmqspark.errors import NotSupported, RmqError
from rmqspark.protocol.bodies.replication import HaRuntimeInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient

MOST_BEHIND_BYTES: Final = 256 << 20  # RocketMQ's haMaxGapNotInSync, where the master does not say it

_Answer: TypeAlias = "Future[HaRuntimeInfo] | RmqError"


@dataclass(frozen=True, slots=True)
class SlaveStatus:
    """A registered slave. `behind_bytes` is what it lacks of its master's log; that and the others are None where they
    are unknown. `silence` says why it does not answer, "" where it does."""

    broker_name: str
    broker_id: int
    address: str
    is_connected: bool | None = None
    behind_bytes: int | None = None
    is_in_sync: bool | None = None
    is_master: bool = False
    silence: str = ""

    @property
    def role(self) -> str:
        """RocketMQ's word; one that calls itself a master under a slave's id does not follow anybody."""
        return "MASTER" if self.is_master else "SLAVE"

    @property
    def problem(self) -> str:
        """What is wrong with it, "" where nothing is."""
        if self.silence:
            return f"is registered and does not answer: {self.silence}"
        if self.is_master:
            return "is registered with a slave's id and follows no master"
        if self.is_connected is False:
            return "does not follow its master"
        if self.is_in_sync is False and self.behind_bytes is not None:
            return f"is {self.behind_bytes >> 20:,} MiB behind its master"
        return ""


@dataclass(frozen=True, slots=True)
class Replicas:
    """`in_sync` is how many slaves the master counts as in step, None where it does not say."""

    slaves: tuple[SlaveStatus, ...] = ()
    in_sync: int | None = None


class ReplicaQuestions:
    """Under way from the start, to the master of a broker name and to its slaves."""

    def __init__(self, cluster: ClusterClient, broker_name: str, addresses: Mapping[int, str]) -> None:
        self._broker_name = broker_name
        self._addresses = dict(sorted(addresses.items()))
        self._asked = {
            number: _ask(cluster.broker_at(broker_name, address)) for number, address in self._addresses.items()
        }

    def answered(self, settings: Mapping[str, str]) -> Replicas:
        """`settings` are the master's: they say how far behind is too far."""
        limit = settings.get("haMaxGapNotInSync", "")
        most_behind = int(limit) if limit.isdecimal() else MOST_BEHIND_BYTES
        known = {number: _known(answer) for number, answer in self._asked.items()}
        master = known.pop(MASTER_ID, None)
        end = master.masterCommitLogMaxOffset if isinstance(master, HaRuntimeInfo) and master.master else None
        slaves = (self._slave(number, each, end, most_behind) for number, each in known.items())
        return Replicas(tuple(slaves), None if end is None else _in_sync(master))

    def _slave(self, number: int, said: HaRuntimeInfo | RmqError, end: int | None, most_behind: int) -> SlaveStatus:
        who = self._broker_name, number, self._addresses[number]
        if isinstance(said, NotSupported):  # of a time before haStatus: it is there, and that is all there is to say
            return SlaveStatus(*who)
        if isinstance(said, RmqError):
            return SlaveStatus(*who, silence=said.message)
        if said.master:
            return SlaveStatus(*who, is_master=True, is_connected=False, is_in_sync=False)
        own = said.haClientRuntimeInfo
        behind = None if end is None else max(0, end - own.maxOffset)
        in_sync = own.activated and behind < most_behind if behind is not None else None
        return SlaveStatus(*who, own.activated, behind, in_sync)


def _in_sync(master: HaRuntimeInfo | RmqError | None) -> int | None:
    return master.inSyncSlaveNums if isinstance(master, HaRuntimeInfo) else None


def _ask(broker: BrokerClient) -> _Answer:
    try:
        answer = broker.submit(RequestCode.GET_BROKER_HA_STATUS, timeout_ms=ADMIN_TIMEOUT_MS)
    except RmqError as error:
        return error
    return then(answer, lambda response: HaRuntimeInfo.decode(response.raise_for_code().body))


def _known(answer: _Answer) -> HaRuntimeInfo | RmqError:
    if isinstance(answer, RmqError):
        return answer
    try:
        return answer.result()
    except RmqError as error:
        return error
