"""Which brokers there are, and which queues of which topics they have (RocketMQ's RouteInfoManager). Pure.

A broker exists here under its name; the addresses under a name are its replicas, by broker id, 0 the master. What
keeps an address in the table is life: a registration or heartbeat within its timeout, and the connection it registered
by. When an address goes, by its own wish, its silence or the end of its connection, the name goes with its last
address, and a topic with its last broker name.

Seven rules go beyond RocketMQ. A broker id that is alive at one address is not given to another (RocketMQ lets the last
one win). What a broker says over an older connection than its last registration, be it that it comes or that it goes,
is late, and ignored: it has hung up there and said more since. The version of its topics does not tell that, for a
store that was put back from a copy has an older one, too. A broker is in one cluster, the one it named last. A master
that says it has no topics but those it registers loses the others: RocketMQ's brokers also register what changed alone,
or some topics at a time, and nothing tells that from all of them (its `deleteTopicWithBrokerRegistration`, off by
default, wants all brokers set up for it). Of a broker that is alive only who registered it says more (`speaker.py`),
and where users are on no other takes its name to another cluster. And the table has bounds. What is left out: acting
masters in answers (`supportActingMaster`, off by default in RocketMQ), static topics' merged mappings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.errors import Busy, NoPermission, ServerFault
from rmqspark.namesrv.registration import (
    LiveBroker,
    Master,
    Registration,
    check_name,
    check_names,
)
from rmqspark.namesrv.topic_queues import TopicQueues
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, DataVersion, QueueData, TopicRouteData
from rmqspark.protocol.names import MASTER_ID, Perm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from rmqspark.namesrv.speaker import Speaker


class RouteTable:
    """All state of a name server but its key-value configurations. Times are of one monotonic clock."""

    def __init__(self, *, max_brokers: int = 4_096, max_topics: int = 200_000) -> None:
        self._max_brokers = max_brokers
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}  # broker names in the order they came
        self._live: dict[tuple[str, str], LiveBroker] = {}  # by name and address
        self._topics = TopicQueues(max_topics)
        self._filter_servers: dict[str, list[str]] = {}  # by address

    # --- brokers come and go -----------------------------------------------------------------------------------------

    def register(self, registration: Registration, now_ms: int) -> Master:
        """Takes in what a broker says of itself.

        Raises NoPermission for a broker id that is alive elsewhere, and for a living broker of others, ServerFault for
        a single topic of an unknown broker, Busy over the table's bounds. One with an older state than the living one
        is ignored, as in RocketMQ, and so is one over an older connection.
        """
        check_names(registration)
        if self._is_late(registration.name, registration.address, registration.speaker):
            return self._master_for(registration)
        self._check_speaker(registration.name, registration.address, registration.speaker)
        self._check_cluster(registration)
        known = self._brokers.get(registration.name)
        holder = known.brokerAddrs.get(registration.broker_id) if known else None
        if holder is not None and holder != registration.address:
            rival = self._live.get((registration.name, holder))
            if rival is not None:
                return self._refuse(registration, rival)
        if holder is None and len(registration.topics.topicConfigTable) == 1:
            raise ServerFault("register broker failed")  # a change of one topic, whose broker is not known yet
        everything = holder is None or self._changed(registration)
        dropped = self._dropped(registration) if everything else []
        self._check_bounds(registration, dropped)
        for topic in dropped:
            self._topics.forget(topic, registration.name)
        broker = self._take_in(registration)
        if self._speaks_for(registration, broker):
            self._take_topics(registration, broker, everything=everything)
        self._note_life(registration, now_ms)
        return self._master_for(registration)

    def heartbeat(self, name: str, address: str, speaker: Speaker, now_ms: int) -> None:
        """A broker lives; one that is not registered is not known by this either, and of others it says nothing."""
        live = self._live.get((name, address))
        if live is not None and speaker.speaks_for(live.speaker):
            self._live[name, address] = replace(live, seen_ms=now_ms)

    def data_version(self, name: str, address: str) -> DataVersion | None:
        """The version of its topics that a broker registered last; None if it is not alive."""
        live = self._live.get((name, address))
        return live.data_version if live is not None else None

    def unregister(self, name: str, address: str, speaker: Speaker) -> None:
        """Forgets one address of a broker, and what hangs on it alone; unless it has been registered over a newer
        connection since. Raises NoPermission for a living broker of others."""
        if not self._is_late(name, address, speaker):
            self._check_speaker(name, address, speaker)
            self._forget(name, address)

    def _forget(self, name: str, address: str) -> None:
        self._live.pop((name, address), None)
        self._filter_servers.pop(address, None)
        broker = self._brokers.get(name)
        if broker is None:
            return
        left = {broker_id: known for broker_id, known in broker.brokerAddrs.items() if known != address}
        if left:
            broker.brokerAddrs = left
            self._mask_without_master(broker)
        else:
            self._forget_name(name)

    def connection_closed(self, connection_id: int) -> list[LiveBroker]:
        """Forgets what was registered by a connection, unless it has been registered again by another; says whom."""
        return self._drop(lambda live: live.connection_id == connection_id)

    def excuse(self, ms: int, now_ms: int) -> None:
        """Counts so many ms of all silence as none: nobody could be heard."""
        if ms:
            for place, live in self._live.items():
                self._live[place] = replace(live, seen_ms=min(now_ms, live.seen_ms + ms))

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Forgets brokers that have been silent for longer than their timeout; says whom."""
        return self._drop(lambda live: now_ms - live.seen_ms > live.timeout_ms)

    # --- topics ------------------------------------------------------------------------------------------------------

    def add_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Enters queues of a topic by an administrator's hand; those of unknown brokers end it, as in RocketMQ."""
        check_name(topic)
        self._topics.check_room_for({topic}, "")
        for queue_data in queues:
            if queue_data.brokerName not in self._brokers:
                return
            self._topics.enter(topic, queue_data)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forgets a topic, on the brokers of one cluster or everywhere, until one registers it anew."""
        for name in list(self._topics.of(topic) if cluster is None else self._clusters.get(cluster, ())):
            self._topics.forget(topic, name)

    def set_write_permission(self, name: str, *, allowed: bool) -> int:
        """Masks the write permission of all topics of a broker, or sets read and write outright; says of how many."""
        return self._topics.set_write_permission(name, allowed=allowed)

    # --- questions ---------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRouteData | None:
        """A topic's queues and the addresses of the brokers that have them; None if nobody has any."""
        queues = self._topics.of(topic)
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        addresses = [address for broker in brokers for address in broker.brokerAddrs.values()]
        filters = {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}
        return TopicRouteData(list(queues.values()), brokers, filters)

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(dict(self._brokers), {cluster: list(names) for cluster, names in self._clusters.items()})

    def broker(self, name: str) -> BrokerData | None:
        return self._brokers.get(name)

    def topics(self) -> list[str]:
        return self._topics.names()

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return self._topics.of_any(self._clusters.get(cluster, ()))

    def topics_flagged(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics by their topicSysFlag, which the first broker that has them tells."""
        return self._topics.flagged(wanted)

    def system_names(self) -> list[str]:
        """Clusters and brokers: each has a topic of its name."""
        return list(dict.fromkeys([*self._clusters, *(name for names in self._clusters.values() for name in names)]))

    def any_address(self) -> str | None:
        """Some address of some broker."""
        return next((address for broker in self._brokers.values() for address in broker.brokerAddrs.values()), None)

    # --- registering, step by step -----------------------------------------------------------------------------------

    def _is_late(self, name: str, address: str, speaker: Speaker) -> bool:
        """Whether the broker has registered over a newer connection than this one."""
        live = self._live.get((name, address))
        return live is not None and speaker.connection_id < live.connection_id

    def _check_speaker(self, name: str, address: str, speaker: Speaker) -> None:
        live = self._live.get((name, address))
        if live is not None and not speaker.speaks_for(live.speaker):
            how = "as another user" if live.speaker.user else f"from {live.speaker.host}, not {speaker.host}"
            raise NoPermission(
                f"Broker {name!r} at {address} is alive, and was registered {how}.",
                hint="It is registered anew once it has stopped, or has been silent for its timeout.",
            )

    def _check_cluster(self, registration: Registration) -> None:
        """Rights are about the cluster that a registration names: who has one takes no broker of other users out of
        its own, nor gives it an address."""
        known = self._brokers.get(registration.name)
        if known is None or known.cluster == registration.cluster:
            return
        for address in known.brokerAddrs.values():
            live = self._live.get((registration.name, address))
            if live is not None and live.speaker.user not in ("", registration.speaker.user):
                raise NoPermission(
                    f"Broker {registration.name!r} is alive in cluster {known.cluster!r}, registered as another user.",
                    hint="Name that cluster, or give this broker a name of its own.",
                )

    def _refuse(self, registration: Registration, rival: LiveBroker) -> Master:
        if rival.data_version.stateVersion > registration.topics.dataVersion.stateVersion:
            return Master()
        raise NoPermission(
            f"Broker {registration.name!r} with id {registration.broker_id} is alive at {rival.address}; "
            f"{registration.address} cannot take its place.",
            hint="Stop the other one, or give this one a name or id of its own.",
        )

    def _dropped(self, registration: Registration) -> list[str]:
        """Topics that a master has no more: this server was not told when they were deleted. A slave may lag behind."""
        if not registration.all_topics or registration.broker_id != MASTER_ID:
            return []
        return [
            topic
            for topic in self._topics.of_any([registration.name])
            if topic not in registration.topics.topicConfigTable
        ]

    def _check_bounds(self, registration: Registration, dropped: Collection[str]) -> None:
        if (registration.name, registration.address) not in self._live:
            self._check_room_for_one_of(registration.speaker.host)
        self._topics.check_room_for(registration.topics.topicConfigTable.keys(), registration.name, going=dropped)

    def _check_room_for_one_of(self, host: str) -> None:
        """One host takes half of the room at most: whoever comes from elsewhere finds some."""
        if len(self._live) >= self._max_brokers:
            raise Busy(f"{self._max_brokers} brokers are registered already, as many as are allowed.")
        of_host = sum(live.speaker.host == host for live in self._live.values())
        if of_host >= (self._max_brokers + 1) // 2:
            raise Busy(
                f"{of_host} brokers are registered from {host} already, of {self._max_brokers} that are allowed.",
                hint="Raise max_brokers where so many are behind one address.",
            )

    def _take_in(self, registration: Registration) -> BrokerData:
        broker = self._brokers.setdefault(
            registration.name, BrokerData(cluster=registration.cluster, brokerName=registration.name)
        )
        if broker.cluster != registration.cluster:
            self._leave_cluster(broker)
            broker.cluster = registration.cluster
        self._clusters.setdefault(broker.cluster, {})[broker.brokerName] = None
        broker.enableActingMaster = bool(registration.acting_master)
        # One address has one id: a slave that became master gives up its old one.
        addresses = {broker_id: at for broker_id, at in broker.brokerAddrs.items() if at != registration.address}
        broker.brokerAddrs = {**addresses, registration.broker_id: registration.address}
        return broker

    def _speaks_for(self, registration: Registration, broker: BrokerData) -> bool:
        """Whether its word on topics counts: the master's does, and the first 5.x slave's while there is no master."""
        return registration.broker_id == MASTER_ID or _is_prime_slave(registration, broker)

    def _changed(self, registration: Registration) -> bool:
        return self.data_version(registration.name, registration.address) != registration.topics.dataVersion

    def _take_topics(self, registration: Registration, broker: BrokerData, *, everything: bool) -> None:
        masked = _is_prime_slave(registration, broker) and broker.enableActingMaster
        for topic, config in registration.topics.topicConfigTable.items():
            if everything or registration.name not in self._topics.of(topic):
                queue_data = QueueData(
                    brokerName=registration.name,
                    readQueueNums=config.readQueueNums,
                    writeQueueNums=config.writeQueueNums,
                    perm=config.perm & ~int(Perm.WRITE) if masked else config.perm,
                    topicSysFlag=config.topicSysFlag,
                )
                self._topics.enter(topic, queue_data)

    def _note_life(self, registration: Registration, now_ms: int) -> None:
        self._live[registration.name, registration.address] = LiveBroker(
            registration.cluster,
            registration.name,
            registration.address,
            registration.speaker,
            registration.ha_address,
            registration.timeout_ms,
            registration.topics.dataVersion,
            now_ms,
        )
        if registration.filter_servers:
            self._filter_servers[registration.address] = list(registration.filter_servers)
        else:
            self._filter_servers.pop(registration.address, None)

    def _master_for(self, registration: Registration) -> Master:
        """What a slave is told, and nobody else."""
        if registration.broker_id == MASTER_ID:
            return Master()
        address = self._brokers[registration.name].brokerAddrs.get(MASTER_ID)
        live = self._live.get((registration.name, address)) if address is not None else None
        return Master(live.address, live.ha_address) if live is not None else Master()

    # --- forgetting --------------------------------------------------------------------------------------------------

    def _drop(self, is_gone: Callable[[LiveBroker], bool]) -> list[LiveBroker]:
        gone = [live for live in self._live.values() if is_gone(live)]
        for live in gone:
            self._forget(live.name, live.address)
        return gone

    def _forget_name(self, name: str) -> None:
        self._leave_cluster(self._brokers.pop(name))
        for topic in self._topics.of_any([name]):
            self._topics.forget(topic, name)

    def _leave_cluster(self, broker: BrokerData) -> None:
        """A cluster goes with its last broker."""
        names = self._clusters[broker.cluster]
        del names[broker.brokerName]
        if not names:
            del self._clusters[broker.cluster]

    def _mask_without_master(self, broker: BrokerData) -> None:
        """Acting masters take no messages."""
        if broker.enableActingMaster and MASTER_ID not in broker.brokerAddrs:
            self.set_write_permission(broker.brokerName, allowed=False)


def _is_prime_slave(registration: Registration, broker: BrokerData) -> bool:
    is_lowest = registration.broker_id == min(broker.brokerAddrs)
    return registration.acting_master is not None and registration.broker_id != MASTER_ID and is_lowest
