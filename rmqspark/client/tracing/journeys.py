"""The way of one message, asked of everybody who knows a part of it: where it was stored, where it came from, who has
read it, what came of it. What is known of it is a `Journey`; the same story in words is in `journey_story`.

A message leaves traces by three links, and no others are followed. A record that was made of another one names it
(preparedTransactionOffset): a committed message its half, one that was delayed the record that waited (ours; RocketMQ's
brokers name nothing there). Copies have the sender's unique id, by which the index finds them. And batches of Spark
have told their input and output ranges. A broker that is away, an index that has expired, a query that writes elsewhere
leave gaps: these are told as unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.stored_records import (
    WAITING_TOPICS,
    Stored,
    find_record,
    record_at,
    record_under,
    with_unique_id,
)
from rmqspark.client.tracing.journey import Journey, StageKind, Unknown
from rmqspark.client.tracing.journey_parts import (
    first_id,
    group_of_return,
    is_source,
    level_of,
    place,
    real_topic,
    returned,
    returns_among,
    stage,
)
from rmqspark.client.tracing.journey_readers import batches_about, groups_about
from rmqspark.errors import RmqError
from rmqspark.options import duration_ms
from rmqspark.protocol.names import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    PARKING_TOPICS,
    dead_letter_topic,
    retry_topic,
)
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.tracing.journey import GroupReader, Place, Return, Stage

_MOST_STAGES: Final = 16


def journey_of(cluster: ClusterClient, msg_id: str, topic: str | None = None) -> Journey:
    """What is known of the message with this offset id, or of the first one with this unique id (in `topic`, else in
    any). MessageNotFound, TopicNotFound."""
    return _Inquiry(cluster).journey(msg_id, topic)


class _Inquiry:
    """Asks about one message, and keeps what it could not find out."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._unknown: list[Unknown] = []

    def journey(self, msg_id: str, topic: str | None) -> Journey:
        found = find_record(self._cluster, msg_id, topic, self._silent_index)
        copies = self._copies(found)
        stored = self._where_it_came_to(found, copies)
        told = returned(stored)
        first = self._first(stored, told)
        stages = self._stages(stored, copies)
        journey = Journey(
            stored.message,
            place(stored),
            real_topic(stored) or stored.record.topic,
            not stored.is_waiting,
            tuple(stages),
            self._with_time(told),
            place(first) if first is not None else None,
        )
        journey = self._with_readers(journey, stored, stages)
        return replace(self._with_copies(journey, stored, copies), unknown=tuple(self._unknown))

    # --- the record itself, and those it was made of -----------------------------------------------------------------

    def _where_it_came_to(self, found: Stored, copies: list[Stored]) -> Stored:
        """The record that readers see, of one that waited or was a half; itself where there is none such yet."""
        made = [each for each in copies if not each.is_waiting and self._is_made_of(each, found)]
        return made[0] if found.is_waiting and made else found

    @staticmethod
    def _is_made_of(made: Stored, of: Stored) -> bool:
        named = made.record.prepared_transaction_offset
        return made.broker_name == of.broker_name and named > 0 and is_source(of, named)

    def _stages(self, stored: Stored, copies: list[Stored]) -> list[Stage]:
        """Oldest first; those it names, else the copy that waited for it."""
        stages: list[Stage] = []
        at: Stored | None = stored
        while at is not None and len(stages) < _MOST_STAGES:
            if (own := stage(at)) is not None:
                stages.append(self._with_due_time(own) if at is stored else own)
            at = self._source(at)
        if not stages and self._has_waited(stored):
            stages = self._stages_by_id(stored, copies)
        return stages[::-1]

    def _source(self, stored: Stored) -> Stored | None:
        record = stored.record
        named = record.prepared_transaction_offset
        is_committed = record.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.COMMITTED
        if not named and not (is_committed and record.physical_offset):
            return None
        reasons = []
        for at in (named, named - 1) if is_committed else (named - 1, named):
            try:
                source = record_at(self._cluster, stored.broker_name, at) if at >= 0 else None
            except RmqError as error:
                reasons.append(str(error))
                continue
            if source is not None and is_source(source, named):
                return source
        self._unknown.append(Unknown("what it was made of", reasons[0] if reasons else f"no such record is at {named}"))
        return None

    @staticmethod
    def _has_waited(stored: Stored) -> bool:
        said = stored.properties
        return (
            not stored.is_waiting and (level_of(said) > 0 or Property.TIMER_OUT_MS in said) and returned(stored) is None
        )

    def _stages_by_id(self, stored: Stored, copies: list[Stored]) -> list[Stage]:
        waited = [
            each for each in copies if each.record.topic in PARKING_TOPICS and real_topic(each) == stored.record.topic
        ]
        if not waited:
            why = "its broker names no record that waited, and no index knows one with its unique id"
            self._unknown.append(Unknown("where it waited", why))
        return [told for each in waited[:1] if (told := stage(each)) is not None]

    def _with_due_time(self, waiting: Stage) -> Stage:
        """Of a level of delay, by what its broker says that levels are."""
        if waiting.kind is not StageKind.DELAY or waiting.level is None:
            return waiting
        due_ms = self._due_ms(waiting.place, waiting.level)
        if due_ms is None:
            self._unknown.append(
                Unknown("when it is to be delivered", f"its broker does not say what level {waiting.level} is")
            )
        return replace(waiting, due_ms=due_ms)

    def _due_ms(self, at: Place, level: int) -> int | None:
        try:
            words = (
                BrokerAdmin(self._cluster.broker(at.queue.broker_name)).config().get("messageDelayLevel", "").split()
            )
            return at.stored_ms + duration_ms(words[level - 1])
        except (RmqError, IndexError, ValueError):
            return None

    # --- what was given back -----------------------------------------------------------------------------------------

    def _first(self, stored: Stored, told: Return | None) -> Stored | None:
        """Of a retry or dead letter, the message that was consumed first."""
        if told is None:
            return None
        if told.first_msg_id is None:
            self._unknown.append(Unknown("which message was consumed first", "the record does not say it"))
            return None
        try:
            found = record_under(self._cluster, told.first_msg_id)
            if found is not None:
                return found
            topic = stored.properties.get(Property.RETRY_TOPIC) or stored.properties.get(Property.DLQ_ORIGIN_TOPIC)
            return find_record(self._cluster, told.first_msg_id, topic, self._silent_index)
        except RmqError as error:
            self._unknown.append(Unknown(f"where {told.first_msg_id} lies, which was consumed first", str(error)))
            return None

    def _with_time(self, told: Return | None) -> Return | None:
        if told is None or not told.is_waiting:
            return told
        return replace(told, due_ms=self._due_ms(told.place, told.place.queue.queue_id + 1))

    # --- its copies --------------------------------------------------------------------------------------------------

    def _copies(self, found: Stored) -> list[Stored]:
        """All records with its unique id, itself too, in its topic, where messages wait, and where groups that read it,
        or have dead letters, have their own."""
        unique_id = found.properties.get(Property.UNIQ_KEY)
        if not unique_id:
            why = "it has no unique id, by which an index would know them"
            self._unknown.append(Unknown("retries, dead letters and other copies", why))
            return [found]
        topics = self._topics_of_copies(found)
        return with_unique_id(self._cluster, topics, unique_id, self._silent_index)

    def _topics_of_copies(self, found: Stored) -> Iterable[str]:
        said = found.properties
        topic = real_topic(found)
        origin = said.get(Property.RETRY_TOPIC) or said.get(Property.DLQ_ORIGIN_TOPIC) or topic
        groups = {topic_[len(DLQ_PREFIX) :] for topic_ in self._cluster.topics() if topic_.startswith(DLQ_PREFIX)}
        groups.update(self._groups_reading(found.broker_name, origin))
        if (own := group_of_return(topic)) is not None:
            groups.add(own)
        made = [name(group) for group in sorted(groups) for name in (retry_topic, dead_letter_topic)]
        return (topic, origin, *WAITING_TOPICS, *made)

    def _groups_reading(self, broker_name: str, topic: str) -> list[str]:
        try:
            return BrokerAdmin(self._cluster.broker(broker_name)).groups_reading(topic)
        except RmqError as error:
            self._unknown.append(Unknown("which groups read it", str(error)))
            return []

    def _with_copies(self, journey: Journey, stored: Stored, copies: list[Stored]) -> Journey:
        ids = {first_id(stored), stored.offset_msg_id}
        if stored.properties.get(Property.UNIQ_KEY):
            ids.add(stored.properties[Property.UNIQ_KEY])
        others = [each for each in copies if each.offset_msg_id != stored.offset_msg_id]
        same = [each for each in others if each.record.topic == stored.record.topic and returned(each) is None]
        aside = [each for each in others if each.record.topic == CHECK_MAX_TIME_TOPIC]
        returns = [each for each in returns_among(copies, ids) if each.place != journey.place]
        return replace(
            journey,
            duplicates=tuple(map(place, same)) if journey.is_readable else (),
            returns=tuple(filter(None, map(self._with_time, returns))),
            set_aside=place(aside[0]) if aside and not journey.is_readable else None,
        )

    # --- who read it, and who wrote it -------------------------------------------------------------------------------

    def _with_readers(self, journey: Journey, stored: Stored, stages: list[Stage]) -> Journey:
        """Nobody reads what waits; only what came of a half batch has a batch that wrote it."""
        if not journey.is_readable:
            self._tell_of_what_waits(stored)
            return journey
        groups = self._groups(journey)
        half = next((each for each in stages if each.kind is StageKind.HALF_BATCH), None)
        readers, writer, gaps = batches_about(self._cluster, journey.place, half)
        self._unknown += gaps
        return replace(journey, groups=tuple(groups), batches=tuple(readers), written_by=writer)

    def _groups(self, journey: Journey) -> list[GroupReader]:
        try:
            return groups_about(self._cluster, journey.message, journey.place)
        except RmqError as error:
            self._unknown.append(Unknown("which groups have read it", str(error)))
            return []

    def _tell_of_what_waits(self, stored: Stored) -> None:
        if stored.record.topic == HALF_TOPIC:
            why = "no committed message names it: it is not decided yet, was rolled back, or set aside"
            self._unknown.append(Unknown("what became of its transaction", why))

    def _silent_index(self, broker_name: str, error: RmqError) -> None:
        self._unknown.append(Unknown(f"copies, retries and dead letters on {broker_name}", str(error)))
