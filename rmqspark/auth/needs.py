"""How what a request asks for is found: in its header, in its body, or in the message that it points to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rmqspark.auth.named import recalled_topics
from rmqspark.auth.resources import Action, Need, ResourceType, cluster, distinct, every, group, topic
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.records.message_id import parse_offset_msg_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.remoting.request import Request


class Here(NamedTuple):
    """What a server knows and a request only hints at. `topic_at`: where the message belongs that is at a physical
    offset; `topics_read`: those that a batch of a query has read. A name server is of every cluster and has neither."""

    cluster_name: str = "*"
    topic_at: Callable[[int], str | None] = lambda offset: None
    topics_read: Callable[[str, int], Iterable[str]] = lambda query_id, batch_id: ()


Needs: TypeAlias = "Callable[[Request[Any], Here], Iterable[Need]]"


class Part(NamedTuple):
    """A part of what a request asks for, and how the docs say it."""

    resource: str
    actions: tuple[Action, ...]
    needs: Needs


def on_topic(*actions: Action, field: str = "topic") -> Part:
    """The topic in a field of the header, if it is there."""
    return Part("Topic", actions, lambda request, here: _if_named(topic, getattr(request.header, field), actions))


def on_group(*actions: Action, field: str = "consumerGroup") -> Part:
    return Part("Group", actions, lambda request, here: _if_named(group, getattr(request.header, field), actions))


def on_topic_list(*actions: Action) -> Part:
    def needs(request: Request[Any], here: Here) -> list[Need]:
        return [topic(name, *actions) for name in (request.header.topicList or "").split(";") if name]

    return Part("Topics", actions, needs)


def on_cluster(*actions: Action, field: str = "") -> Part:
    """The cluster that the header names in a field, or this server's."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        return [cluster(getattr(request.header, field) if field else here.cluster_name, *actions)]

    return Part("Cluster", actions, needs)


def on_every(resource_type: ResourceType, *actions: Action) -> Part:
    return Part(f"{resource_type.value}:*", actions, lambda request, here: [every(resource_type, *actions)])


def on_body(resource: str, find: Callable[[Request[Any]], Iterable[Need]], *actions: Action) -> Part:
    """Whatever the body names."""
    return Part(resource, actions, lambda request, here: distinct(find(request)))


def on_topic_at(*actions: Action, field: str) -> Part:
    """The topic of the message at the physical offset in a field. Of one that is not there nothing is asked: the
    handler says so."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        return _if_named(topic, here.topic_at(getattr(request.header, field)), actions)

    return Part("Topic of the message", actions, needs)


def on_topic_of_id(*actions: Action) -> Part:
    """The same of the message with the id in `msgId`."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        try:
            _, offset = parse_offset_msg_id(request.header.msgId or "")
        except InvalidArgument:
            return []
        return _if_named(topic, here.topic_at(offset), actions)

    return Part("Topic of the message", actions, needs)


def on_transaction(*actions: Action) -> Part:
    """A transactional id stands for a group. Without one all of them are meant."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        name = request.header.transactionalId
        return [every(ResourceType.GROUP, *actions) if name is None else group(name, *actions)]

    return Part("Group (transactional id)", actions, needs)


def on_route() -> Part:
    """The template of new topics is no secret: producers look for it before their topic is there."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        name = request.header.topic
        is_retry = topic(name).resource.type is ResourceType.GROUP
        return [] if name == AUTO_CREATE_TOPIC else [topic(name, *(actions[1:] if is_retry else actions))]

    actions = Action.PUB, Action.SUB, Action.GET
    return Part("Topic", actions, needs)


def on_coordinator(*actions: Action) -> Part:
    """Who asks for a member, as the coordinator of its transactions: the queue waits for the broker that it names."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        return [] if request.header.coordinator is None else [cluster(here.cluster_name, *actions)]

    return Part("Cluster (for a coordinator)", actions, needs)


def on_status() -> Part:
    """Who has an open version closed by asking needs more than who only asks."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        actions = (Action.PUB,) if request.header.fence else (Action.PUB, Action.GET)
        return [group(request.header.transactionalId, *actions)]

    return Part("Group (transactional id)", (Action.PUB, Action.GET), needs)


def on_topics_read() -> Part:
    def needs(request: Request[Any], here: Here) -> list[Need]:
        read = here.topics_read(request.header.queryId, request.header.batchId)
        return distinct(topic(name, Action.SUB, Action.GET) for name in read)

    return Part("Topics that were read", (Action.SUB, Action.GET), needs)


def on_send(field: str, properties: str) -> tuple[Part, ...]:
    """What goes to a retry topic comes from who consumes for its group. What recalls a message may name its topic."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        names = getattr(request.header, field), *recalled_topics(getattr(request.header, properties))
        return [topic(name, action_on(name)) for name in names]

    def action_on(name: str) -> Action:
        return Action.SUB if topic(name).resource.type is ResourceType.GROUP else Action.PUB

    return (Part("Topic", (Action.PUB,), needs),)


def _if_named(make: Callable[..., Need], name: str | None, actions: tuple[Action, ...]) -> list[Need]:
    return [make(name, *actions)] if name is not None and name.strip() else []
