"""Topics: in lists, in full, and the schema that fits their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.paging import PartialPage, paged, partial
from rmqspark.admin.schemas.groups import GroupSummary
from rmqspark.admin.schemas.topics import FieldView, QueueView, SchemaView, TopicSummary, TopicView
from rmqspark.client.administration.admin_groups import groups_reading
from rmqspark.client.administration.groups_described import describe_groups
from rmqspark.client.administration.topics_described import describe_topic, describe_topics
from rmqspark.client.browsing.body_sampling import sampled
from rmqspark.client.browsing.body_schema import ddl, one_case, type_name
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import MessageNotFound, UnparsableBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient


_LONGEST_MS: Final = 10_000  # that bodies are looked at: a thousand may be four gigabytes


def names(client: ClusterClient, *, system: bool = False) -> list[str]:
    return client.topics() if system else user_topics(client)


def topics(
    client: ClusterClient, limit: int, cursor: str | None, *, system: bool = False, containing: str = ""
) -> PartialPage[TopicSummary]:
    """By name; those whose name contains a text, in upper or lower case."""
    silence = Silence()

    def show(chosen: Sequence[str]) -> list[TopicSummary]:
        return [TopicSummary.of(topic) for topic in describe_topics(client, chosen, on_silent=silence)]

    wanted = [name for name in names(client, system=system) if containing.casefold() in name.casefold()]
    return partial(paged(wanted, show, limit, cursor), silence.reasons)


def topic(client: ClusterClient, name: str, silence: Silence | None = None) -> TopicView:
    """TopicNotFound. `silence` hears of brokers that do not answer; without it one of them is an error."""
    return TopicView.of(describe_topic(client, name, on_silent=silence))


def queues(client: ClusterClient, name: str, silence: Silence) -> list[QueueView]:
    """TopicNotFound."""
    return [QueueView.of(queue) for queue in describe_topic(client, name, on_silent=silence).queues]


def groups(client: ClusterClient, name: str, silence: Silence) -> list[GroupSummary]:
    """Who reads this topic. TopicNotFound. Of all groups its brokers alone know which do: others are not looked at."""
    describe_topic(client, name, on_silent=silence)
    now_ms = client.clock.now_ms()
    described = describe_groups(client, groups_reading(client, name, on_silent=silence), on_silent=silence)
    return [summary for each in described if name in (summary := GroupSummary.of(each, now_ms)).topics]


def schema(client: ClusterClient, name: str, count: int) -> SchemaView:
    """From the newest `count` messages, or as many of them as can be looked at in ten seconds. MessageNotFound where
    there are none, UnparsableBody where none is JSON."""
    with PullConsumer(client.namesrv, clock=client.clock, access=client.access) as consumer:
        until_ms = client.clock.monotonic_ms() + _LONGEST_MS
        sample = sampled(consumer, name, count, until_ms=until_ms, clock=client.clock)
    if not sample.bodies:
        raise MessageNotFound(f"Topic {name!r} has no messages to look at.")
    if sample.bodies == sample.not_objects:
        raise UnparsableBody(
            f"No body of topic {name!r} is a JSON object.", hint="Text is read with valueFormat=string."
        )
    fields, left_out = one_case(sample.fields)
    objects = sample.bodies - sample.not_objects
    return SchemaView(
        topic=name,
        ddl=ddl(fields),
        left_out=left_out,
        sampled=sample.bodies,
        not_json=sample.not_objects,
        columns=[
            FieldView(name=field, type=type_name(kind), missing=objects - sample.present[field])
            for field, kind in sample.fields.fields.items()
        ],
    )
