"""Consumer groups with their members, and how far they are in each queue. Many are asked about at once: each question
goes to all brokers about all groups before the next one is asked.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.administration.admin_topics import readable
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.descriptions import GroupDescription, GroupMember, GroupQueue
from rmqspark.client.administration.topics_described import bounds_in
from rmqspark.client.cluster.broker_client import NO_GROUP
from rmqspark.client.cluster.futures import at_hand, failing, or_else, then
from rmqspark.client.cluster.silence import RollCall, is_silence
from rmqspark.errors import GroupNotFound, RmqError, TopicNotFound
from rmqspark.protocol.names import check_group, dead_letter_topic
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.administration.descriptions import QueueDescription
    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent


def describe_group(cluster: ClusterClient, group: str, *, on_silent: OnSilent | None = None) -> GroupDescription:
    """Its members, and how far it is in each queue of each topic it has committed for. GroupNotFound.

    A broker that does not answer is told to `on_silent` and left out; without that, and where no other knows the group,
    it is an error.
    """
    check_group(group)
    roll = RollCall(cluster, on_silent)
    found = _Look(cluster, roll).described([group])
    if found:
        return found[0]
    roll.insist()
    raise GroupNotFound(group, hint="rmq group list shows those that exist.")


def describe_groups(
    cluster: ClusterClient, groups: Collection[str], *, on_silent: OnSilent | None = None
) -> list[GroupDescription]:
    """Those of the groups that are there still, by name. `on_silent` as in `describe_group`."""
    return _Look(cluster, RollCall(cluster, on_silent)).described(sorted(groups))


class _Reading(NamedTuple):
    """A group in a queue; `committed` None where it never has."""

    group: str
    bounds: QueueDescription
    committed: int | None

    @property
    def is_behind(self) -> bool:
        return self.committed is not None and self.committed < self.bounds.max_offset


class _Look:
    """One look at groups of a cluster."""

    def __init__(self, cluster: ClusterClient, roll: RollCall) -> None:
        self._cluster = cluster
        self._roll = roll
        self._brokers = readable(cluster)

    def described(self, groups: Collection[str]) -> list[GroupDescription]:
        """Those that any broker knows."""
        topics, members = self._topics(groups), self._members(groups)
        known = topics.keys() | members.keys()
        known |= self._registered(groups) if known < set(groups) else set()
        queues = self._queues(topics)
        rates = self._rates([group for group in groups if any(queue.lag for queue in queues[group])])
        silent = self._roll.silent
        return [
            GroupDescription(group, members[group], queues[group], rates.get(group), dict(silent))
            for group in groups
            if group in known
        ]

    def _pairs(self, groups: Iterable[str]) -> Iterable[tuple[str, str]]:
        return product(self._brokers, groups)

    def _topics(self, groups: Iterable[str]) -> dict[str, list[str]]:
        """The topics that each has committed offsets of."""
        pairs = self._pairs(groups)
        found = self._roll.ask(pairs, lambda broker, group: BrokerAdmin(broker).submit_group_topics(group))
        topics: defaultdict[str, set[str]] = defaultdict(set)
        for (_, group), names in found.items():
            topics[group].update(names)
        return {group: read for group, names in topics.items() if (read := read_by(group, names))}

    def _members(self, groups: Iterable[str]) -> defaultdict[str, list[GroupMember]]:
        """A consumer is connected to several brokers, and counted once."""
        found = self._roll.ask(self._pairs(groups), lambda broker, group: BrokerAdmin(broker).submit_consumers(group))
        members: defaultdict[str, dict[str, GroupMember]] = defaultdict(dict)
        for (_, group), connected in found.items():
            for each in connected.connectionSet if connected is not None else ():
                members[group][each.clientId] = GroupMember(each.clientId, each.clientAddr, each.language, each.version)
        by_id = {group: [named[key] for key in sorted(named)] for group, named in members.items()}
        return defaultdict(list, by_id)

    def _registered(self, groups: Collection[str]) -> set[str]:
        """Of what has committed nothing and reads not: what brokers know all the same."""
        found = self._roll.ask(((name, None) for name in self._brokers), lambda broker, _: _submit_names(broker))
        return {group for names in found.values() for group in names} & set(groups)

    def _queues(self, topics: Mapping[str, Collection[str]]) -> defaultdict[str, list[GroupQueue]]:
        """How far each group is in each queue of its topics, where a broker says it."""
        bounds = self._bounds(sorted({topic for names in topics.values() for topic in names}))
        readings = self._readings(
            (each.queue.broker_name, (group, each))
            for group, names in topics.items()
            for topic in names
            for each in bounds[topic]
        )
        since = self._roll.ask(
            ((each.bounds.queue.broker_name, each) for each in readings if each.is_behind), _submit_waiting_since
        )
        queues: defaultdict[str, list[GroupQueue]] = defaultdict(list)
        for each in readings:
            queue, end = each.bounds.queue, each.bounds.max_offset
            waiting_since_ms = since.get((queue.broker_name, each))
            queues[each.group].append(GroupQueue(queue, each.committed, end, waiting_since_ms))
        return queues

    def _bounds(self, topics: list[str]) -> defaultdict[str, list[QueueDescription]]:
        self._cluster.look_up(topics)
        pairs = [(broker_name, topic) for topic in topics for broker_name in self._brokers_of(topic)]
        found = self._roll.ask(pairs, lambda broker, topic: BrokerAdmin(broker).submit_topic_stats(topic))
        bounds: defaultdict[str, list[QueueDescription]] = defaultdict(list)
        for (_, topic), table in found.items():
            bounds[topic] += bounds_in(table)
        return bounds

    def _brokers_of(self, topic: str) -> list[str]:
        try:
            return sorted(self._cluster.route(topic).brokers)
        except TopicNotFound:
            return []  # offsets outlive their topic until the broker cleans up

    def _readings(self, asked: Iterable[tuple[str, tuple[str, QueueDescription]]]) -> list[_Reading]:
        committed = self._roll.ask(asked, _submit_committed)
        return [_Reading(group, bounds, offset) for (_, (group, bounds)), offset in committed.items()]

    def _rates(self, groups: Iterable[str]) -> dict[str, float]:
        """How many messages a second each consumes, of those for whom some wait."""
        found = self._roll.ask(
            self._pairs(groups), lambda broker, group: BrokerAdmin(broker).submit_consumed_per_second(group)
        )
        rates: defaultdict[str, float] = defaultdict(float)
        for (_, group), rate in found.items():
            rates[group] += rate
        return rates


def read_by(group: str, topics: Iterable[str]) -> list[str]:
    """Of the topics that a group has committed offsets of those it reads. In its dead letters, how far they were sent
    again is kept so: nobody waits for those."""
    return sorted(set(topics) - {dead_letter_topic(group)})


def _submit_names(broker: BrokerClient) -> Future[frozenset[str]]:
    return then(BrokerAdmin(broker).submit_groups(), frozenset)


def _submit_committed(broker: BrokerClient, reader: tuple[str, QueueDescription]) -> Future[int | None]:
    group, bounds = reader
    return broker.submit_query_offset(group, bounds.queue.topic, bounds.queue.queue_id)


def _submit_waiting_since(broker: BrokerClient, reading: _Reading) -> Future[int | None]:
    """Reads the first message that is still to be consumed, as any consumer would: no request of stock brokers tells
    its store time alone. None where that cannot be read: the topic may be closed to readers, or it has just expired."""
    first = max(reading.committed or 0, reading.bounds.min_offset)
    pull = broker.submit_pull(reading.bounds.queue, first, group=NO_GROUP, max_count=1)
    since = then(pull, lambda result: decode_record(result.records).store_timestamp_ms if result.records else None)
    return or_else(since, _unknown)


def _unknown(error: BaseException) -> Future[int | None]:
    return at_hand(None) if isinstance(error, RmqError) and not is_silence(error) else failing(error)
