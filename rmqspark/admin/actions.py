"""Changing a cluster, each change on the record. `who` is the one who asked: a role, and an address."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rmqspark.admin.schemas.dead_letters import ResendView
from rmqspark.admin.schemas.groups import QueueResetView, ResetView
from rmqspark.admin.schemas.messages import ReceiptView
from rmqspark.admin.schemas.transactions import DecisionView
from rmqspark.client.administration import admin_topics
from rmqspark.client.administration.admin_groups import delete_group
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.dead_letter_plan import plan_resend
from rmqspark.client.administration.dead_letter_resends import resend as resend_letters
from rmqspark.client.administration.group_resets import QueueReset, ResetTarget, carry_out, plan_reset
from rmqspark.client.administration.topics_described import describe_topic
from rmqspark.client.moments import time_span
from rmqspark.client.producer import Producer
from rmqspark.client.spark.decisions import decide, open_version, state_of
from rmqspark.client.spark.queries import seen_query
from rmqspark.client.spark.query_view import view_of
from rmqspark.errors import Conflict, InvalidArgument
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.settings import camel_case, snake_case
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.admin.action_log import ActionLog, Effect
    from rmqspark.admin.schemas.dead_letters import ResendRequest
    from rmqspark.admin.schemas.groups import ResetRequest
    from rmqspark.admin.schemas.messages import NewMessage
    from rmqspark.admin.schemas.topics import NewTopic, TopicChange
    from rmqspark.client.administration.dead_letter_plan import ResendPlan
    from rmqspark.client.cluster.cluster_client import ClusterClient

_GROUP = "rmq-admin"


class Actions:
    """All that REST and console can change. Errors are those of the client, and are recorded, too."""

    def __init__(self, cluster: ClusterClient, log: ActionLog) -> None:
        self._cluster = cluster
        self._log = log
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    # --- topics and messages -----------------------------------------------------------------------------------------

    def create_topic(self, who: str, new: NewTopic) -> None:
        """On every broker."""
        readable, writable = new.read_queues or new.queues, new.write_queues or new.queues
        detail = f"{counted(readable, 'queue')} to read and {writable:,} to write, {new.perm}, {new.type}"
        with self._log.recording(who, "create topic", new.topic, detail):
            config = admin_topics.topic_config(
                new.topic, read_queues=readable, write_queues=writable, perm=new.perm, message_type=new.type
            )
            admin_topics.create_topic(self._cluster, config, None, exist_ok=False)

    def update_topic(self, who: str, topic: str, change: TopicChange) -> None:
        """InvalidArgument where nothing is to be changed."""
        given = change.model_dump(by_alias=False, exclude_none=True)
        if not given:
            raise InvalidArgument("Nothing to change.", hint="Give queues, readQueues, writeQueues, perm or type.")
        with self._log.recording(who, "update topic", topic, _words(given)):
            admin_topics.update_topic(
                self._cluster,
                topic,
                read_queues=change.read_queues or change.queues,
                write_queues=change.write_queues or change.queues,
                perm=change.perm,
                message_type=change.type,
            )

    def delete_topic(self, who: str, topic: str) -> None:
        """With all its messages."""
        with self._log.recording(who, "delete topic", topic, "") as effect:
            count = describe_topic(self._cluster, topic).message_count or 0
            admin_topics.delete_topic(self._cluster, topic)
            effect.story = f"{counted(count, 'message')} deleted with it"

    def send(self, who: str, topic: str, new: NewMessage) -> ReceiptView:
        """To a topic that is there already: a misspelled name makes none. TopicNotFound."""
        message = new.message(topic)
        with self._log.recording(who, "send", topic, f"{len(message.body):,} bytes") as effect:
            self._cluster.expire_route(topic)
            admin_topics.route_of(self._cluster, topic)
            receipt = self._sender().send(message, shard=new.shard)
            effect.story = f"message {receipt.msg_id}"
        return ReceiptView(
            msg_id=receipt.msg_id,
            offset_msg_id=receipt.offset_msg_id,
            topic=receipt.queue.topic,
            broker_name=receipt.queue.broker_name,
            queue_id=receipt.queue.queue_id,
            queue_offset=receipt.queue_offset,
            status=receipt.status.value,
        )

    def _sender(self) -> Producer:
        with self._lock:
            if self._producer is None:
                self._producer = Producer(self._cluster.namesrv, group=_GROUP, access=self._cluster.access)
            return self._producer

    # --- groups and queries ------------------------------------------------------------------------------------------

    def reset_group(self, who: str, group: str, request: ResetRequest) -> ResetView:
        """What is planned is done, to the offset; with `dry_run` it is only planned, and not recorded."""
        plan = self.plan_reset(group, request)
        if not request.dry_run:
            self.carry_out_reset(who, group, request.to, plan, create=request.create)
        views = [QueueResetView.of(reset) for reset in plan]
        return ResetView(group=group, done=not request.dry_run, queues=views)

    def plan_reset(self, group: str, request: ResetRequest) -> list[QueueReset]:
        """Queue by queue, for who is to say yes to it."""
        target = ResetTarget.parse(request.to)
        return plan_reset(
            self._cluster, group, target, topic=request.topic, queue_ids=request.queues, create=request.create
        )

    def carry_out_reset(self, who: str, group: str, to: str, plan: list[QueueReset], *, create: bool = False) -> None:
        """Exactly what was planned, however long ago."""
        with self._log.recording(who, "reset group", group, f"to {to}") as effect:
            carry_out(self._cluster, group, plan, create=create)
            again = counted(sum(reset.read_again for reset in plan), "message")
            effect.story = f"{counted(len(plan), 'queue')}, {again} again"

    def rewind(self, who: str, query: str, request: ResetRequest) -> ResetView:
        """As a reset of the one group that the query reads for. Conflict where it has none, or several."""
        groups = view_of(self._cluster, seen_query(self._cluster, query)).groups
        if len(groups) != 1:
            raise Conflict(
                f"Query {query!r} reads for {len(groups)} groups; a rewind goes by its one group.",
                hint="With commitOffsets=false it has none. Of several, reset the one that is meant.",
            )
        return self.reset_group(who, groups[0], request)

    def delete_group(self, who: str, group: str) -> None:
        """With its committed offsets."""
        with self._log.recording(who, "delete group", group, ""):
            delete_group(self._cluster, group)

    def resend(self, who: str, group: str, request: ResendRequest) -> ResendView:
        """Dead letters once more."""
        span = time_span(request.from_, request.to, self._cluster.clock.now_ms(), prefix="")
        plan = plan_resend(
            self._cluster,
            group,
            msg_ids=request.ids,
            begin_ms=span.start,
            end_ms=span.stop,
            again=request.again,
            to_topic=request.to_topic,
        )
        sent = 0
        if not request.dry_run:
            detail = f"{counted(plan.count, 'letter')} to {'their topics' if request.to_topic else 'the group'}"
            with self._log.recording(who, "resend dead letters", group, detail) as effect:
                sent = self._sent(plan, effect)
        return ResendView(group=group, planned=plan.count, sent=sent, to_topic=request.to_topic)

    def _sent(self, plan: ResendPlan, effect: Effect) -> int:
        """How many."""
        sent = 0
        for sent, _ in enumerate(resend_letters(self._cluster, plan), 1):
            effect.story = f"{sent:,} sent"
        return sent

    # --- transactions and settings -----------------------------------------------------------------------------------

    def decide(self, who: str, transactional_id: str, version: int | None, decision: TxnOutcome) -> DecisionView:
        """By hand, for good. TransactionError where it contradicts what was decided."""
        verb = "commit" if decision == TxnOutcome.COMMIT else "roll back"
        with self._log.recording(who, verb, transactional_id, f"version {'open' if version is None else version}") as e:
            if version is None:
                version = open_version(state_of(self._cluster, transactional_id))
            e.story = decide(self._cluster, transactional_id, version, decision, who)
        return DecisionView(
            transactional_id=transactional_id, version=version, decision=decision.value, by=who, story=e.story
        )

    def set_config(self, who: str, broker_name: str, settings: Mapping[str, str]) -> None:
        """Settings in either spelling, all of them or none. NoPermission for one that takes a restart; InvalidArgument
        for one that there is none of, or a value that makes no sense."""
        broker = BrokerAdmin(self._cluster.broker(broker_name))
        known = {snake_case(name): name for name in broker.config()}
        wanted = {}
        for name, value in settings.items():
            own = known.get(snake_case(name))
            if own is None:
                raise InvalidArgument(f"{broker_name} has no setting {name!r}.", hint="GET the same path lists them.")
            wanted[own] = value
        if not wanted:
            raise InvalidArgument("Nothing to change.", hint="GET the same path lists the settings there are.")
        with self._log.recording(who, "set", broker_name, _words(wanted)):
            broker.update_config(wanted)


def _words(given: Mapping[str, object]) -> str:
    return ", ".join(f"{camel_case(name)} = {value}" for name, value in given.items())
