"""Topics, as an administrator creates, changes and deletes them. Looking at them is in `topics_described`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.in_turn import in_turn
from rmqspark.client.cluster.routes import registered_masters
from rmqspark.client.cluster.user_topics import with_nearest
from rmqspark.errors import Conflict, InvalidArgument, NotFound, NotWritable, RequestTimeout, TopicNotFound, Unreachable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import MOST_QUEUES, Perm, check_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.routes import TopicRoute
    from rmqspark.protocol.bodies.route import TopicRouteData

VISIBLE_WITHIN_MS = 5_000
LOOK_AGAIN_MS = 10
MESSAGE_TYPES = ("normal", "fifo", "delay", "transaction", "mixed")
MESSAGE_TYPE_ATTRIBUTE = "message.type"


def create_topic(cluster: ClusterClient, config: TopicConfig, brokers: Sequence[str] | None, *, exist_ok: bool) -> None:
    """On every master, or on those named, which others may have it without; returns when every name server shows it."""
    check_topic(config.topicName)
    if brokers is not None and not brokers:
        raise InvalidArgument("No broker is named for the topic.", hint="Without brokers=... all masters get it.")
    there = _holders(cluster, config.topicName)
    if there and not exist_ok and (brokers is None or not there.isdisjoint(brokers)):
        raise _exists(config.topicName, there, masters(cluster))
    if there and brokers is None:
        return
    targets = masters(cluster) if brokers is None else [name for name in brokers if name not in there]
    if not targets and not there:
        raise Unreachable(
            "No master is registered that could have the topic.", address=cluster.namesrv, hint="Start one, or wait."
        )
    in_turn(targets, lambda name: BrokerAdmin(cluster.broker(name)).put_topic(config))
    _wait_until_visible(cluster, config.topicName, dict.fromkeys(targets, config))


def _holders(cluster: ClusterClient, topic: str) -> set[str]:
    """The brokers that have it, as the name servers know."""
    data = cluster.name_servers.route(topic)
    return set() if data is None else {queue_data.brokerName for queue_data in data.queueDatas}


def _exists(topic: str, there: set[str], brokers: Sequence[str]) -> Conflict:
    lacking = [name for name in brokers if name not in there]
    if lacking:
        return Conflict(
            f"Topic {topic!r} exists already, on {', '.join(sorted(there))} and not on {', '.join(lacking)}.",
            hint=f"Make it there, too: rmq topic create {topic} --broker {lacking[0]}. In Python, brokers=[...].",
        )
    return Conflict(
        f"Topic {topic!r} exists already.",
        hint=f"Change it with: rmq topic update {topic}. --exist-ok leaves it as it is, in Python exist_ok=True.",
    )


def update_topic(
    cluster: ClusterClient,
    topic: str,
    *,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | int | None,
    message_type: str | None,
) -> None:
    """Changes what is given on every broker that has the topic; returns when every name server shows it."""
    attributes = {} if message_type is None else _type_attribute(message_type)
    _check_numbers(read_queues or 0, write_queues or 0)
    changed: dict[str, TopicConfig] = {}
    for broker_name, config in _configs(cluster, topic).items():
        changed[broker_name] = msgspec.structs.replace(
            config,
            readQueueNums=config.readQueueNums if read_queues is None else read_queues,
            writeQueueNums=config.writeQueueNums if write_queues is None else write_queues,
            perm=config.perm if perm is None else parse_perm(perm),
            attributes=attributes,  # `+name=value` only for what changes
        )
    in_turn(changed, lambda name: BrokerAdmin(cluster.broker(name)).put_topic(changed[name]))
    _wait_until_visible(cluster, topic, changed)


def delete_topic(cluster: ClusterClient, topic: str) -> None:
    """From every broker and every name server: messages, queues and committed offsets are gone. NotWritable, and
    nothing is, where a broker that has it is without its master, which would bring it back."""
    cluster.expire_route(topic)
    route = route_of(cluster, topic)
    if without := sorted(name for name in route.brokers if route.master(name) is None):
        raise NotWritable(
            f"Topic {topic!r} is on {', '.join(without)}, too, where only a slave is: its master would bring it back.",
            hint="Start the master first; or stop the slave, if that is to be all.",
        )
    in_turn(route.brokers, lambda name: BrokerAdmin(cluster.broker(name)).delete_topic(topic))
    for name in cluster.cluster_info().clusterAddrTable:
        cluster.name_servers.forget_topic(topic, name)
    cluster.expire_route(topic)


def topic_config(topic: str, *, read_queues: int, write_queues: int, perm: str | int, message_type: str) -> TopicConfig:
    """What a broker is told of a new topic. InvalidArgument names what cannot be."""
    attribute = _type_attribute(message_type)
    if read_queues < 1 or write_queues < 1:
        raise InvalidArgument("A topic needs at least one queue.")
    _check_numbers(read_queues, write_queues)
    attributes = {} if message_type == "normal" else attribute
    return TopicConfig(topic, read_queues, write_queues, parse_perm(perm), attributes=attributes)


def _check_numbers(*queues: int) -> None:
    """How many a topic may have is its brokers' to say; these could not even be asked."""
    if max(queues) > MOST_QUEUES:
        raise InvalidArgument(f"A topic has {MOST_QUEUES:,} queues on a broker at most, not {max(queues):,}.")


def _type_attribute(message_type: str) -> dict[str, str]:
    if message_type not in MESSAGE_TYPES:
        raise InvalidArgument(f"A topic's type is one of {', '.join(MESSAGE_TYPES)}, not {message_type!r}.")
    return {MESSAGE_TYPE_ATTRIBUTE: message_type.upper()}


def masters(cluster: ClusterClient) -> list[str]:
    """The names of all brokers whose master is there."""
    return registered_masters(cluster.cluster_info())


def readable(cluster: ClusterClient) -> list[str]:
    """The names of all brokers that are there, also of those of which only a slave is: that can be asked, too."""
    return sorted(cluster.cluster_info().brokerAddrTable)


def parse_perm(perm: str | int) -> int:
    """ "rw", "r", "w", "", in capitals too, or RocketMQ's number, as text too: 2 writes, 4 reads, 6 does both."""
    if isinstance(perm, int) or re.fullmatch(r"[0-9]", perm):
        return int(perm)
    letters, said = {"r": Perm.READ, "w": Perm.WRITE}, set(perm.lower())
    if not said <= set(letters):
        raise InvalidArgument(f"A permission is 'rw', 'r', 'w' or '' (or 6, 4, 2, 0), not {perm!r}.")
    return sum(letters[letter] for letter in said)


def format_perm(perm: int) -> str:
    return ("r" if perm & Perm.READ else "") + ("w" if perm & Perm.WRITE else "")


def _configs(cluster: ClusterClient, topic: str) -> dict[str, TopicConfig]:
    """How each broker of the topic's route has it."""
    cluster.expire_route(topic)
    configs: dict[str, TopicConfig] = {}
    for broker_name in sorted(route_of(cluster, topic).brokers):
        try:
            configs[broker_name] = BrokerAdmin(cluster.broker(broker_name)).topic_config(topic)
        except NotFound:
            continue  # it is on its way out of this broker's route
    if not configs:
        raise no_topic(cluster, topic)
    return configs


def route_of(cluster: ClusterClient, topic: str) -> TopicRoute:
    try:
        return cluster.route(topic)
    except TopicNotFound:
        raise no_topic(cluster, topic) from None


def no_topic(cluster: ClusterClient, topic: str) -> TopicNotFound:
    """Whoever looks at a topic, changes or deletes it has misspelled its name, and does not want it made."""
    return with_nearest(cluster, TopicNotFound(topic, hint="See which there are: rmq topic list"))


def _wait_until_visible(cluster: ClusterClient, topic: str, wanted: Mapping[str, TopicConfig]) -> None:
    """Brokers register a change at once, yet the next line of a script would be faster."""
    clock = cluster.clock
    deadline_ms = clock.monotonic_ms() + VISIBLE_WITHIN_MS
    while not cluster.name_servers.route_seen_everywhere(topic, lambda data: _shows(data, wanted)):
        if clock.monotonic_ms() >= deadline_ms:
            raise RequestTimeout(
                f"Topic {topic!r} is on {', '.join(wanted)}, but not on every name server yet.",
                hint="Brokers register again every 30 seconds.",
            )
        clock.sleep_ms(LOOK_AGAIN_MS)
    cluster.expire_route(topic)


def _shows(data: TopicRouteData | None, wanted: Mapping[str, TopicConfig]) -> bool:
    seen = {queues.brokerName: queues for queues in data.queueDatas} if data is not None else {}
    return all(
        name in seen
        and (seen[name].readQueueNums, seen[name].writeQueueNums, seen[name].perm)
        == (config.readQueueNums, config.writeQueueNums, config.perm)
        for name, config in wanted.items()
    )
