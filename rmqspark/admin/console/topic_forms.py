"""Making, changing and deleting topics, and sending to one."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, get_args

from nicegui import ui

from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.bodies import MOST_EVER
from rmqspark.admin.console.forms import Form, Said, area, choice, field, whole
from rmqspark.admin.console.nodes import Child, h
from rmqspark.admin.console.words import counted
from rmqspark.admin.schemas.messages import MessageView, NewMessage
from rmqspark.admin.schemas.topics import MessageType, NewTopic, TopicChange, TopicView
from rmqspark.client.cluster.silence import story
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import trimmed_tag
from rmqspark.protocol.records.properties import Property, is_reserved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.admin.console.frame import Frame

_TYPES: Final = [(each, each) for each in get_args(MessageType)]
_PERMS: Final = [("rw", "read and write"), ("r", "read"), ("w", "write")]


def create_topic(frame: Frame) -> None:
    async def do(said: Said) -> None:
        new = NewTopic.model_validate(
            {
                **{name: said[name] for name in ("perm", "type")},
                "topic": said["topic"].strip(),
                "queues": whole(said, "queues", "Queues"),
            }
        )
        await frame.visit.act(lambda who: frame.visit.desk.actions.create_topic(who, new))
        ui.navigate.to(path("topics", new.topic))

    fields: list[Child] = [
        field("Name", "topic", focus=True),
        h(
            "div",
            field("Queues on each broker", "queues", "8"),
            choice("Type", "type", _TYPES, "normal"),
            choice("Allowed", "perm", _PERMS, "rw"),
            class_="fields",
        ),
    ]
    Form(frame, "New topic", fields, "Create", do)


def change_topic(frame: Frame, topic: TopicView) -> None:
    async def do(said: Said) -> None:
        change = change_of(topic, said)
        await frame.visit.act(lambda who: frame.visit.desk.actions.update_topic(who, topic.topic, change))
        frame.tell(f"Topic {topic.topic} is changed on every broker that has it.")

    first = topic.on_brokers[0]
    fields: list[Child] = [
        h(
            "div",
            field("Queues to read", "read", str(first.read_queues), focus=True),
            field("Queues to write", "write", str(first.write_queues)),
            choice("Type", "type", _TYPES, _type_of(topic)),
            choice("Allowed", "perm", [*_PERMS, ("", "nothing")], first.perm),
            class_="fields",
        ),
        h(
            "p",
            "To shrink a topic, take queues to write away first, and those to read when they are consumed.",
            class_="note",
        ),
    ]
    Form(frame, f"Change {topic.topic}", fields, "Change", do)


def change_of(topic: TopicView, said: Said) -> TopicChange:
    """What is another than was shown, and nothing else: where a topic has other queues on another broker they stay, for
    to take some away there leaves their messages to nobody."""
    first = topic.on_brokers[0]
    shown = {
        "read_queues": first.read_queues,
        "write_queues": first.write_queues,
        "perm": first.perm,
        "type": _type_of(topic),
    }
    wanted = {
        "read_queues": whole(said, "read", "Queues to read"),
        "write_queues": whole(said, "write", "Queues to write"),
        "perm": said["perm"],
        "type": said["type"],
    }
    return TopicChange.model_validate({name: value for name, value in wanted.items() if value != shown[name]})


def _type_of(topic: TopicView) -> str:
    return topic.type or "normal"


def delete_topic(frame: Frame, topic: TopicView) -> None:
    async def do() -> None:
        await frame.visit.act(lambda who: frame.visit.desk.actions.delete_topic(who, topic.topic))
        ui.navigate.to("/topics")

    place = f"{counted(topic.queues or 0, 'queue')} on {counted(topic.brokers, 'broker')}"
    messages = counted(topic.messages or 0, "message")
    effects = [f"{messages} in {place} are deleted with it. They cannot be brought back."]
    effects += [story(broker_name, why) for broker_name, why in topic.silent.items()]
    frame.confirm(f"Delete topic {topic.topic}?", effects, "Delete topic", do, typed=topic.topic)


def send_message(frame: Frame, topic: str, like: MessageView | None = None) -> None:
    """A new message, or one like another, to be edited. A body that is no text, or too long, is sent again as it is."""

    async def do(said: Said) -> None:
        new = new_message(said, like)
        receipt = await frame.visit.act(lambda who: frame.visit.desk.actions.send(who, topic, new))
        story = f"Stored in {receipt.broker_name}/{receipt.queue_id} at offset {receipt.queue_offset}: "
        frame.tell(
            h("p", h("span", story), frame.visit.link(receipt.msg_id, path("messages", receipt.msg_id), topic=topic))
        )

    fields: list[Child] = [
        h(
            "p",
            f"Its body, no text or too long to edit, is sent as it is: {counted(like.body_bytes, 'byte')}.",
        )
        if like is not None and not _can_be_edited(like)
        else area("Body", "body", "" if like is None else like.body or ""),
        h(
            "div",
            field("Tag", "tags", "" if like is None else like.tags or ""),
            field("Keys, with blanks between", "keys", "" if like is None else " ".join(like.keys)),
            field("In one queue with, in order", "shard", _shard(like)),
            class_="fields",
        ),
        area("Properties, one name=value a line", "properties", _lines(_own_properties(like))),
    ]
    Form(frame, f"Send to {topic}", fields, "Send", do)


def new_message(said: Said, like: MessageView | None) -> NewMessage:
    """What the form says; of a message like another what was not changed is as it was there, and so is its flag."""
    if like is not None and not _can_be_edited(like):
        body = {"body_base64": base64.b64encode(like.body_as_bytes()).decode()}
    else:
        body = {"body": as_it_was(said["body"], "" if like is None else like.body or "")}
    shard, before = said["shard"].strip(), _shard(like)
    return NewMessage.model_validate(
        {
            **body,
            "tags": trimmed_tag(said["tags"]) or None,
            "keys": [key for key in said["keys"].split(" ") if key],
            "properties": _properties(said["properties"], _own_properties(like)),
            "flag": 0 if like is None else like.flag,
            "shard": (before if shard == before.strip() else shard) or None,
        }
    )


def _can_be_edited(like: MessageView) -> bool:
    return like.body is not None and like.body_bytes <= MOST_EVER


def _shard(like: MessageView | None) -> str:
    return "" if like is None else like.properties.get(Property.SHARDING_KEY, "")


def _own_properties(like: MessageView | None) -> dict[str, str]:
    """Without those of RocketMQ."""
    pairs = {} if like is None else like.properties
    return {name: value for name, value in pairs.items() if not is_reserved(name)}


def as_it_was(said: str, before: str) -> str:
    """What stands in a field of several lines, which knows one way to end them: they end as they did before, if they
    all ended alike, and all of it is as before where nothing was changed."""
    text = _plain(said)
    if text == _plain(before):
        return before
    is_crlf = "\r\n" in before and not {"\r", "\n"} & set(before.replace("\r\n", ""))
    return text.replace("\n", "\r\n") if is_crlf else text


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _lines(properties: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in properties.items())


def _properties(said: str, before: Mapping[str, str]) -> dict[str, str]:
    """As before where nothing was changed: a value may have several lines."""
    if _plain(said) == _plain(_lines(before)):
        return dict(before)
    found = {}
    for line in filter(str.strip, _plain(said).split("\n")):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"Property {line!r:.80} is no name=value.")
        found[name.strip()] = value
    return found
