"""Administration of a cluster. The work is in `admin_topics`, `admin_groups`, `admin_messages`, `admin_access`; here
are the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.administration import (
    admin_access,
    admin_groups,
    admin_messages,
    admin_topics,
    cluster_status,
    dead_letter_plan,
    dead_letter_resends,
    dead_letter_walk,
    dead_letters,
    group_resets,
    groups_described,
    topics_described,
)
from rmqspark.client.administration.broker_admin import LATEST_MS, BrokerAdmin
from rmqspark.client.administration.dead_letter_plan import ResendPlan  # noqa: TC001 - takes_what_it_says reads it
from rmqspark.client.administration.descriptions import BrokerDescription
from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.client.spark import queries
from rmqspark.client.tracing import journeys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rmqspark.client.administration.admin_access import Right, User
    from rmqspark.client.administration.cluster_status import ClusterStatus
    from rmqspark.client.administration.dead_letters import DeadLetter, DeadLetterCount
    from rmqspark.client.administration.descriptions import GroupDescription, TopicDescription
    from rmqspark.client.administration.group_resets import QueueReset
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.client.tracing.journey import Journey
    from rmqspark.clock import Clock
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage
    from rmqspark.remoting.access import Access


@takes_what_it_says
class AdminClient(ClosedByWith):
    """Creates, looks at and deletes what a cluster has. A context manager.

    What only looks takes `on_silent`, which hears of each broker that does not answer, and why; what the others know is
    the answer then, and has `silent` where it has figures. Without it such a broker is an error. A
    `rmqspark.client.cluster.silence.Silence` given to several calls has each such broker waited for once.
    """

    def __init__(self, namesrv: str | None = None, *, clock: Clock | None = None, access: Access | None = None) -> None:
        """`namesrv` is "h1:9876;h2:9876"; None takes $RMQ_NAMESRV, $NAMESRV_ADDR, or this machine. `access` None is
        what the environment says."""
        self._cluster = ClusterClient(namesrv, clock=clock, access=access)

    def close(self) -> None:
        self._cluster.close()

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        queues: int = 8,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: str | int = "rw",
        message_type: str = "normal",
        brokers: Sequence[str] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Creates a topic with `queues` queues on each broker: all masters, or those of `brokers`, to which one that
        exists on others can be brought so.

        Returns when every name server shows it. InvalidArgument if it exists there, unless `exist_ok`, which leaves it
        alone where it is.
        """
        config = admin_topics.topic_config(
            name,
            read_queues=queues if read_queues is None else read_queues,
            write_queues=queues if write_queues is None else write_queues,
            perm=perm,
            message_type=message_type,
        )
        admin_topics.create_topic(self._cluster, config, brokers, exist_ok=exist_ok)

    def update_topic(
        self,
        name: str,
        queues: int | None = None,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: str | int | None = None,
        message_type: str | None = None,
    ) -> None:
        """Changes what is given on every broker that has the topic. To shrink, take write queues away first."""
        admin_topics.update_topic(
            self._cluster,
            name,
            read_queues=queues if read_queues is None else read_queues,
            write_queues=queues if write_queues is None else write_queues,
            perm=perm,
            message_type=message_type,
        )

    def delete_topic(self, name: str) -> None:
        """Deletes the topic with all its messages. TopicNotFound."""
        admin_topics.delete_topic(self._cluster, name)

    def topics(self, *, system: bool = False) -> list[str]:
        """The names of the users' topics; with `system`, RocketMQ's own too."""
        return self._cluster.topics() if system else user_topics(self._cluster)

    def topic(self, name: str, *, on_silent: OnSilent | None = None) -> TopicDescription:
        """Settings per broker, and offsets per queue. TopicNotFound."""
        return topics_described.describe_topic(self._cluster, name, on_silent=on_silent)

    def describe_topics(self, names: Sequence[str], *, on_silent: OnSilent | None = None) -> list[TopicDescription]:
        """The same of many topics, in about the time of one: those that are there still, by name."""
        return topics_described.describe_topics(self._cluster, names, on_silent=on_silent)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read, in the order that all clients use. TopicNotFound."""
        self._cluster.expire_route(topic)
        return self._cluster.subscribe_queues(topic)

    # --- groups ------------------------------------------------------------------------------------------------------

    def groups(self, *, system: bool = False, on_silent: OnSilent | None = None) -> list[str]:
        """The names of consumer groups; with `system`, the predefined ones too."""
        return admin_groups.list_groups(self._cluster, system=system, on_silent=on_silent)

    def group(self, name: str, *, on_silent: OnSilent | None = None) -> GroupDescription:
        """Members, and committed offset and lag per queue; never committed is None. GroupNotFound."""
        return groups_described.describe_group(self._cluster, name, on_silent=on_silent)

    def describe_groups(self, names: Sequence[str], *, on_silent: OnSilent | None = None) -> list[GroupDescription]:
        """The same of many groups, asked about together: those that are there still, by name."""
        return groups_described.describe_groups(self._cluster, names, on_silent=on_silent)

    def spark_readers(self, name: str, *, on_silent: OnSilent | None = None) -> list[str]:
        """The Spark queries that read for a group just now, by name or id: they are none of its members."""
        return queries.readers_of(self._cluster, name, on_silent=on_silent)

    def delete_group(self, name: str) -> None:
        """Deletes a group and its committed offsets. GroupNotFound."""
        admin_groups.delete_group(self._cluster, name)

    def reset_group(
        self,
        name: str,
        to: str,
        *,
        topic: str | None = None,
        queues: Collection[int] | None = None,
        create: bool = False,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Sets a group to another place, read for or not just then; with `dry_run` only says what would be done.

        `to` is `earliest`, `latest`, a time, `-10m`, an offset, or `group:NAME`. Without `topic` it is about every
        topic that the group has committed offsets of. `create` makes a group for a `topic` that there is not yet, so
        that its first reader begins there. GroupNotFound, TopicNotFound, InvalidArgument.
        """
        target = group_resets.ResetTarget.parse(to)
        plan = group_resets.plan_reset(self._cluster, name, target, topic=topic, queue_ids=queues, create=create)
        if not dry_run:
            self.carry_out_reset(name, plan, create=create)
        return plan

    def carry_out_reset(self, name: str, plan: Sequence[QueueReset], *, create: bool = False) -> None:
        """Does what `reset_group(..., dry_run=True)` has planned, to the offset. GroupNotFound."""
        group_resets.carry_out(self._cluster, name, plan, create=create)

    # --- messages ----------------------------------------------------------------------------------------------------

    def message(self, msg_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message with this id: the broker's (offset id), or the sender's, looked up in `topic`, or in all.

        MessageNotFound, also for an id that names a machine outside this cluster.
        """
        return admin_messages.message_by_id(self._cluster, msg_id, topic)

    def query(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = LATEST_MS, max_count: int = 64
    ) -> list[ReceivedMessage]:
        """The messages with this key stored between these times, oldest first; the newest `max_count`."""
        return admin_messages.messages_by_key(
            self._cluster, topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count
        )

    def journey(self, msg_id: str, topic: str | None = None) -> Journey:
        """What is known of the way of the message with this id, the broker's or the sender's (then of the first stored
        of that id, in `topic` or in any): where it was stored, where it came from, who read it, what came of it.

        What cannot be found out is in the answer, with why. MessageNotFound.
        """
        return journeys.journey_of(self._cluster, msg_id, topic)

    # --- dead letters ------------------------------------------------------------------------------------------------

    def dead_letter_counts(self, *, on_silent: OnSilent | None = None) -> list[DeadLetterCount]:
        """The groups that have dead letters, and how many."""
        return dead_letters.count_dead_letters(self._cluster, on_silent=on_silent)

    def dead_letters(self, group: str, max_count: int = 64, *, on_silent: OnSilent | None = None) -> list[DeadLetter]:
        """What the group has consumed in vain, oldest first; the newest `max_count`. GroupNotFound."""
        return dead_letter_walk.newest_dead_letters(self._cluster, group, max_count, on_silent=on_silent)

    def resend_dead_letters(
        self,
        group: str,
        *,
        msg_ids: Sequence[str] | None = None,
        begin_ms: int = 0,
        end_ms: int = LATEST_MS,
        again: bool = False,
        to_topic: bool = False,
        dry_run: bool = False,
    ) -> ResendPlan:
        """Gives a group its dead letters once more, as if never consumed; with `dry_run` only says which.

        Those with one of `msg_ids`, or stored in [begin_ms, end_ms); what was sent again before only by its id or with
        `again`. With `to_topic` all who read their original topics get them. GroupNotFound, MessageNotFound, Conflict.
        """
        plan = dead_letter_plan.plan_resend(
            self._cluster, group, msg_ids=msg_ids, begin_ms=begin_ms, end_ms=end_ms, again=again, to_topic=to_topic
        )
        if not dry_run:
            for _ in self.resending(plan):
                pass
        return plan

    def resending(self, plan: ResendPlan) -> Iterator[DeadLetter]:
        """Does what `resend_dead_letters(..., dry_run=True)` has planned while it is iterated over: gives each letter
        once it is sent. One that is broken off has a few sent that the next one sends again."""
        return dead_letter_resends.resend(self._cluster, plan)

    # --- users and rights --------------------------------------------------------------------------------------------

    def create_user(self, username: str, password: str, user_type: str = "normal", *, exist_ok: bool = False) -> None:
        """On every broker, and every name server that has users. The password is what the user signs with, its secret
        key. `user_type` is normal, or super, for one that may do everything. NoPermission if it exists; with `exist_ok`
        it is given this password and type there."""
        admin_access.create_user(self._cluster, username, password, user_type, exist_ok=exist_ok)

    def update_user(
        self,
        username: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        enabled: bool | None = None,
    ) -> None:
        """Changes what is given. NoPermission where there is no such user."""
        admin_access.update_user(self._cluster, username, password, user_type, enabled)

    def delete_user(self, username: str) -> None:
        """With all its rights. NotFound."""
        admin_access.delete_user(self._cluster, username)

    def users(self, name: str = "", *, on_silent: OnSilent | None = None) -> list[User]:
        """Those with this in their name. One that servers have differently is in it more than once."""
        return admin_access.list_users(self._cluster, name, on_silent=on_silent)

    def user(self, username: str, *, on_silent: OnSilent | None = None) -> list[User]:
        """One user, as its servers have it: more than one entry where they differ. NotFound."""
        return admin_access.describe_user(self._cluster, username, on_silent=on_silent)

    def create_acl(
        self,
        username: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        decision: str = "allow",
        source_ips: Sequence[str] = (),
        policy_type: str = "custom",
    ) -> None:
        """Says what a user may do of resources (`Topic:orders`, `Group:bill*`, `Cluster:*`, `*`), in the place of what
        was said of each. Actions are Pub, Sub, Create, Update, Delete, Get, List, All."""
        admin_access.create_acl(self._cluster, username, resources, actions, decision, source_ips, policy_type)

    def delete_acl(self, username: str, resource: str | None = None, *, policy_type: str = "custom") -> None:
        """Takes back what was said of a resource; without one, all that was said of the user. NotFound where nothing
        is."""
        admin_access.delete_acl(self._cluster, username, resource, policy_type)

    def acls(self, name: str = "", resource: str = "", *, on_silent: OnSilent | None = None) -> list[Right]:
        """The rights of users with this in their name, of resources with this in theirs."""
        return admin_access.list_acls(self._cluster, name, resource, on_silent=on_silent)

    def rights(self, username: str, *, on_silent: OnSilent | None = None) -> list[Right]:
        """What one user may do. NotFound where there is no such user."""
        return admin_access.describe_acl(self._cluster, username, on_silent=on_silent)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerDescription]:
        """All brokers that are registered."""
        table = self._cluster.cluster_info().brokerAddrTable
        return [BrokerDescription(name, data.cluster, dict(data.brokerAddrs)) for name, data in sorted(table.items())]

    def cluster_status(self) -> ClusterStatus:
        """All name servers and brokers, each asked how it is; what does not answer is in it, too."""
        return cluster_status.look(self._cluster)

    def broker_config(self, broker_name: str) -> dict[str, str]:
        """The broker's settings, under RocketMQ's names."""
        return BrokerAdmin(self._cluster.broker(broker_name)).config()

    def is_ours(self, broker_name: str) -> bool:
        """Whether the broker is rmqspark's; otherwise it is RocketMQ's, or another one that speaks its protocol."""
        return self._cluster.broker(broker_name).capabilities().transactions > 0

    def set_broker_config(self, broker_name: str, name: str, value: str) -> None:
        """Changes one setting, under RocketMQ's name. NoPermission where that takes a restart, InvalidArgument for a
        value that makes no sense."""
        BrokerAdmin(self._cluster.broker(broker_name)).update_config({name: value})

    def broker_runtime(self, broker_name: str) -> dict[str, str]:
        """The broker's counters and states, under RocketMQ's names."""
        return BrokerAdmin(self._cluster.broker(broker_name)).runtime()

    def metrics(self, broker_name: str) -> str:
        """The broker's metrics in Prometheus' text format. NotSupported for one of RocketMQ's."""
        return BrokerAdmin(self._cluster.broker(broker_name)).metrics()
