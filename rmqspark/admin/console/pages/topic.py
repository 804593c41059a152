"""/topics/{topic}: its settings on each broker, its queues, who reads it, the schema that fits its bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.dialogs import close_button
from rmqspark.admin.console.groups_table import group_columns
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import button, code, empty, facts, figures, group, notes, partial, section
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.console.topic_forms import change_topic, delete_topic, send_message
from rmqspark.admin.reads import topics as look
from rmqspark.admin.schemas.groups import GroupSummary
from rmqspark.admin.schemas.topics import QueueView, SchemaView, TopicOnBrokerView, TopicView
from rmqspark.client.cluster.silence import Silence
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit
    from rmqspark.client.cluster.cluster_client import ClusterClient

_SAMPLED = 1_000


class _Document(NamedTuple):
    topic: TopicView
    queues: list[QueueView]
    groups: list[GroupSummary]
    silent: dict[str, str]


async def build(frame: Frame) -> None:
    visit = frame.visit
    name = visit.params["topic"]
    messages = h("a", "Messages", href=visit.href(path("topics", name, "messages")), class_="button primary")
    frame.head(frame.code_button(lambda: _snippets(visit, name)), messages, crumbs=[("Topics", "/topics")])
    await frame.live(lambda: _read(visit.cluster, name), lambda document: show(frame, document), 5)


def _read(client: ClusterClient, name: str) -> _Document:
    silence = Silence()
    topic, queues = look.topic(client, name, silence), look.queues(client, name, silence)
    return _Document(topic, queues, look.groups(client, name, silence), silence.reasons)


def show(frame: Frame, document: _Document) -> Node:
    visit, topic = frame.visit, document.topic
    never = words.UNKNOWN if document.silent else "never"
    newest = visit.time(topic.last_stored) if topic.last_stored else h("span", never)
    return group(
        partial(document.silent),
        figures(
            [
                ("Messages", words.number(topic.messages), "can be read now"),
                ("Queues", words.number(topic.queues), f"on {words.counted(topic.brokers, 'broker')}"),
                ("Groups", words.number(len(document.groups)), "read it"),
                ("Type", words.known(topic.type), topic.perm),
            ]
        ),
        section(
            "Settings", facts({"Newest stored": newest}), _on_brokers(visit, topic), actions=_changes(frame, topic)
        ),
        section("Queues", _queues(visit, document.queues)),
        section("Read by", _groups(visit, document)),
        section(
            "Schema",
            h("p", "The Spark schema that fits its newest JSON bodies.", class_="note"),
            actions=[button("Sample bodies", lambda: _show_schema(frame, topic.topic))],
        ),
    )


def _changes(frame: Frame, topic: TopicView) -> list[Node]:
    if not frame.visit.may_change:
        return []
    return [
        button("Send a message", lambda: send_message(frame, topic.topic)),
        button("Change", lambda: change_topic(frame, topic)),
        button("Delete", lambda: delete_topic(frame, topic), kind="danger"),
    ]


def _on_brokers(visit: Visit, topic: TopicView) -> Node:
    columns: list[Column[TopicOnBrokerView]] = [
        Column("Broker", lambda each: visit.link(each.broker_name, path("brokers", each.broker_name))),
        Column("Queues to read", lambda each: words.number(each.read_queues), is_number=True),
        Column("Queues to write", lambda each: words.number(each.write_queues), is_number=True),
        Column("Perm", lambda each: each.perm),
        Column(
            "Attributes", lambda each: ", ".join(f"{name}={text}" for name, text in each.attributes.items()) or "none"
        ),
    ]
    return table(visit, "Settings on each broker", columns, topic.on_brokers, lambda each: each.broker_name)


def _queues(visit: Visit, queues: list[QueueView]) -> Node:
    name = visit.params["topic"]
    columns: list[Column[QueueView]] = [
        Column(
            "Queue",
            lambda each: visit.link(
                f"{each.broker_name}/{each.queue_id}",
                path("topics", name, "messages"),
                queue=f"{each.broker_name}/{each.queue_id}",
            ),
        ),
        Column("First offset", lambda each: str(each.min_offset), is_number=True),
        Column("End offset", lambda each: str(each.max_offset), is_number=True),
        Column("Messages", lambda each: words.number(each.max_offset - each.min_offset), is_number=True),
        Column("Newest stored", lambda each: visit.time(each.last_stored) if each.last_stored else "never"),
    ]
    return table(visit, "Queues", columns, queues, lambda each: f"{each.broker_name}/{each.queue_id}")


def _groups(visit: Visit, document: _Document) -> Node:
    if not document.groups:
        return empty("No group has read it yet.", f"rmq consume {document.topic.topic} --group billing")
    return table(visit, "Read by", group_columns(visit), document.groups, lambda each: each.group)


async def _show_schema(frame: Frame, name: str) -> None:
    try:
        found = await frame.visit.look(lambda: look.schema(frame.visit.cluster, name, _SAMPLED))
    except RmqError as error:
        frame.complain(error)
        return
    frame.dialog(f"Schema of {name}", lambda: [schema_node(found), close_button()], wide=True)


def schema_node(found: SchemaView) -> Node:
    return group(
        h("p", f"From the newest {words.counted(found.sampled, 'body', 'bodies')}."),
        code(found.ddl),
        notes(
            f"{found.not_json:,} of them are no JSON objects." if found.not_json else None,
            f"Left out, for they differ only in case: {', '.join(found.left_out)}." if found.left_out else None,
        ),
    )


def _snippets(visit: Visit, name: str) -> Snippets:
    return Snippets(
        visit.where.cli("topic", "describe", name), visit.where.rest("topics", name), visit.where.spark(subscribe=name)
    )
