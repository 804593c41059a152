"""How a cluster is: its name servers and brokers, each asked, all brokers at once. What is wrong with them is in
`cluster_problems`. A broker that does not answer is part of the picture and no error.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rmqspark.client.administration.broker_admin import ADMIN_TIMEOUT_MS
from rmqspark.client.administration.broker_facts import config_of, runtime_of
from rmqspark.client.administration.replicas import ReplicaQuestions, Replicas
from rmqspark.client.cluster.futures import then
from rmqspark.client.cluster.routes import registered_masters
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.errors import RmqError
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient

_FREE: Final = re.compile(r"Free : ([\d.]+) ?(B|KiB|MiB|GiB|TiB|PiB)")
_RUNTIME: Final = re.compile(r"\[ ([\d,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]", re.ASCII)
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class NameServerStatus:
    """`brokers` are those it knows, `masters` those of them whose master it knows, too; `silence` says why it does not
    answer, "" where it does."""

    address: str
    brokers: frozenset[str] = frozenset()
    masters: frozenset[str] = frozenset()
    silence: str = ""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A registered broker. `runtime` and `settings` are under RocketMQ's names, and empty where it does not answer:
    then `silence` says why. `topics` and `queues` are the users', as the name servers route to them. `replicas` are its
    slaves, whether it answers or not."""

    name: str
    cluster: str
    addresses: dict[int, str]
    topics: int
    queues: int
    runtime: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    silence: str = ""
    replicas: Replicas = field(default_factory=Replicas)

    @property
    def role(self) -> str | None:
        """ASYNC_MASTER or SYNC_MASTER; SLAVE where there is no master, and a slave answered."""
        return self.settings.get("brokerRole")

    @property
    def slaves_wanted(self) -> int:
        """How many slaves a sender waits for."""
        return max(0, (whole(self.settings.get("inSyncReplicas")) or 1) - 1) if self.role == "SYNC_MASTER" else 0

    @property
    def address(self) -> str:
        """The master's, else that of the lowest id."""
        return self.addresses[min(self.addresses)] if self.addresses else ""

    @property
    def version(self) -> str | None:
        return self.runtime.get("brokerVersionDesc")

    @property
    def flush_mode(self) -> str | None:
        return self.settings.get("flushDiskType")

    @property
    def stored_per_second(self) -> float | None:
        """Messages that came in, over the last ten seconds."""
        return _rate(self.runtime.get("putTps"))

    @property
    def read_per_second(self) -> float | None:
        return _rate(self.runtime.get("getTransferredTps"))

    @property
    def stored(self) -> int | None:
        """Messages that came in since it was started."""
        return whole(self.runtime.get("msgPutTotalTodayNow"))

    @property
    def read(self) -> int | None:
        return whole(self.runtime.get("msgGetTotalTodayNow"))

    @property
    def disk_used(self) -> float | None:
        """The used share of the disk its log is on, 0 to 1."""
        return _decimal(self.runtime.get("commitLogDiskRatio"))

    @property
    def disk_free_bytes(self) -> int | None:
        """As exactly as it says so."""
        found = _FREE.search(self.runtime.get("commitLogDirCapacity", ""))
        return int(float(found[1]) * 1024 ** _UNITS.index(found[2])) if found else None

    @property
    def started_ms(self) -> int | None:
        """By the broker's clock."""
        return whole(self.runtime.get("bootTimestamp"))

    @property
    def uptime_s(self) -> int | None:
        """As the broker counts it: nobody else's clock need be right."""
        found = _RUNTIME.fullmatch(self.runtime.get("runtime", ""))
        if found is None:
            return None
        days, hours, minutes, seconds = (int(each.replace(",", "")) for each in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """`lost_routes` are topics to which a name server still routes, with the brokers that are not there; none of them
    where it knows no broker for the topic at all."""

    name_servers: list[NameServerStatus]
    brokers: list[BrokerStatus]
    lost_routes: dict[str, list[str]]


def look(cluster: ClusterClient, broker_name: str | None = None, *, with_routes: bool = True) -> ClusterStatus:
    """Asks everybody; of the brokers only one, where its name is given. Without routes no topics or queues are counted,
    and none are lost. Unreachable where no name server answers."""
    table = cluster.cluster_info().brokerAddrTable
    names = sorted(table) if broker_name is None else sorted({broker_name} & table.keys())
    asked = {
        name: (
            _ask(cluster, name, RequestCode.GET_BROKER_RUNTIME_INFO),
            _ask(cluster, name, RequestCode.GET_BROKER_CONFIG),
            ReplicaQuestions(cluster, name, table[name].brokerAddrs),
        )
        for name in names
    }
    name_servers = [
        NameServerStatus(address, silence=answer.message)
        if isinstance(answer, RmqError)
        else NameServerStatus(address, frozenset(answer.brokerAddrTable), frozenset(registered_masters(answer)))
        for address, answer in cluster.name_servers.views().items()
    ]
    topics, queues, lost = _routes(cluster) if with_routes else (Counter(), Counter(), {})
    brokers = []
    for name, (runtime, config, replicas) in asked.items():
        data = table[name]
        known = BrokerStatus(name, data.cluster, dict(data.brokerAddrs), topics[name], queues[name])
        there = _answered(known, runtime, config)
        brokers.append(replace(there, replicas=replicas.answered(there.settings)))
    return ClusterStatus(name_servers, brokers, lost)


def _ask(cluster: ClusterClient, broker_name: str, code: RequestCode) -> Future[dict[str, str]] | RmqError:
    read = runtime_of if code == RequestCode.GET_BROKER_RUNTIME_INFO else config_of
    try:
        answer = cluster.broker(broker_name).submit(code, timeout_ms=ADMIN_TIMEOUT_MS)
    except RmqError as error:
        return error
    return then(answer, lambda response: read(response.raise_for_code()))


def _answered(
    known: BrokerStatus, runtime: Future[dict[str, str]] | RmqError, config: Future[dict[str, str]] | RmqError
) -> BrokerStatus:
    try:
        facts, settings = (_result(each) for each in (runtime, config))
    except RmqError as error:
        return replace(known, silence=error.message)
    return replace(known, runtime=facts, settings=settings)


def _result(answer: Future[dict[str, str]] | RmqError) -> dict[str, str]:
    if isinstance(answer, RmqError):
        raise answer
    return answer.result()


def _routes(cluster: ClusterClient) -> tuple[Counter[str], Counter[str], dict[str, list[str]]]:
    """Topics and queues of each broker, and the topics that are routed to brokers that are not there."""
    topics: Counter[str] = Counter()
    queues: Counter[str] = Counter()
    lost: dict[str, list[str]] = {}
    names = user_topics(cluster)
    routes = cluster.name_servers.known_routes(names)
    for topic in names:
        route = routes.get(topic)
        if route is None:
            lost[topic] = []
            continue
        there = {broker.brokerName for broker in route.brokerDatas}
        for queue_data in route.queueDatas:
            topics[queue_data.brokerName] += 1
            queues[queue_data.brokerName] += max(queue_data.readQueueNums, queue_data.writeQueueNums)
        if gone := sorted({queue_data.brokerName for queue_data in route.queueDatas} - there):
            lost[topic] = gone
    return topics, queues, lost


def _rate(text: str | None) -> float | None:
    """The first of "a b c": of ten seconds, a minute, ten minutes."""
    return _decimal(text.split()[0]) if text and text.split() else None


def whole(text: str | None) -> int | None:
    """A number as brokers say it; None where it is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _decimal(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
