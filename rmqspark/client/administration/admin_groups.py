"""Consumer groups, as an administrator lists and deletes them. How each is doing is in `groups_described`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.administration.admin_topics import readable, route_of
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.in_turn import in_turn
from rmqspark.client.cluster.routes import registered_masters
from rmqspark.client.cluster.silence import RollCall
from rmqspark.errors import GroupNotFound, NotWritable
from rmqspark.protocol.names import is_system_group, retry_topic

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent


def list_groups(cluster: ClusterClient, *, system: bool, on_silent: OnSilent | None = None) -> list[str]:
    """The groups that any broker knows. One that does not answer is told to `on_silent` and left out, unless none
    does; without that it is an error."""
    roll, names = RollCall(cluster, on_silent), readable(cluster)
    found = roll.ask(((name, None) for name in names), lambda broker, _: BrokerAdmin(broker).submit_groups())
    roll.insist_on_one(names)
    groups = {group for there in found.values() for group in there}
    return sorted(group for group in groups if system or not is_system_group(group))


def groups_reading(cluster: ClusterClient, topic: str, *, on_silent: OnSilent | None = None) -> list[str]:
    """The users' groups that have offsets of a topic on any of its brokers, or are connected and subscribe to it.
    TopicNotFound. `on_silent` as for `list_groups`, of the topic's brokers."""
    roll = RollCall(cluster, on_silent)
    names = sorted(route_of(cluster, topic).brokers)
    found = roll.ask(
        ((name, topic) for name in names), lambda broker, of: BrokerAdmin(broker).submit_groups_reading(of)
    )
    roll.insist_on_one(names)
    return sorted({group for there in found.values() for group in there if not is_system_group(group)})


def delete_group(cluster: ClusterClient, group: str) -> None:
    """From every broker, its committed offsets and its retry topic too: each of these counts as one of the topics that
    a broker may have. Its dead letters stay. GroupNotFound where none has it; NotWritable, and nothing is deleted,
    where one that has it is without its master, which would bring it back."""
    info = cluster.cluster_info()
    admins = [BrokerAdmin(cluster.broker(name)) for name in sorted(info.brokerAddrTable)]
    holders = [admin for admin in admins if admin.has_group(group)]
    if not holders:
        raise GroupNotFound(group, hint="rmq group list shows those that exist.")
    led = registered_masters(info)
    if without := [admin.broker.name for admin in holders if admin.broker.name not in led]:
        raise NotWritable(
            f"Group {group!r} is on {', '.join(without)}, too, where only a slave is: its master would bring it back.",
            hint="Start the master first; or stop the slave, if that is to be all.",
        )
    in_turn(holders, lambda admin: _delete(admin, group), lambda admin: admin.broker.name)


def _delete(admin: BrokerAdmin, group: str) -> None:
    admin.delete_group(group)
    admin.delete_topic(retry_topic(group))
