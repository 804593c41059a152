"""/topics and what is under it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.status import HTTP_201_CREATED, HTTP_204_NO_CONTENT

from rmqspark.admin.paging import USUAL, Cursor, Limit, Page, PartialPage, listed, partial
from rmqspark.admin.reads import messages
from rmqspark.admin.reads import topics as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.groups import GroupSummary
from rmqspark.admin.schemas.messages import MessageView, NewMessage, ReceiptView
from rmqspark.admin.schemas.topics import NewTopic, QueueView, SchemaView, TopicChange, TopicSummary, TopicView
from rmqspark.client.cluster.silence import Silence
from rmqspark.errors import InvalidArgument

router = APIRouter(prefix="/topics", tags=["topics"])

_MOST_SAMPLED = 100_000


@router.get("")
def get_topics(
    desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None, system: bool = False
) -> PartialPage[TopicSummary]:
    """The topics by name; with `system` RocketMQ's own, too."""
    return look.topics(desk.cluster, limit, cursor, system=system)


@router.post("", status_code=HTTP_201_CREATED)
def create_topic(desk: TheDesk, who: Who, new: NewTopic) -> TopicView:
    """Makes a topic on every broker. 409 where it exists."""
    desk.actions.create_topic(who, new)
    return look.topic(desk.cluster, new.topic)


@router.get("/{topic}")
def get_topic(desk: TheDesk, topic: str) -> TopicView:
    """One topic: its settings on each broker."""
    return look.topic(desk.cluster, topic, Silence())


@router.patch("/{topic}")
def update_topic(desk: TheDesk, who: Who, topic: str, change: TopicChange) -> TopicView:
    """Changes what is given."""
    desk.actions.update_topic(who, topic, change)
    return look.topic(desk.cluster, topic)


@router.delete("/{topic}", status_code=HTTP_204_NO_CONTENT)
def delete_topic(desk: TheDesk, who: Who, topic: str) -> None:
    """Deletes it with all its messages."""
    desk.actions.delete_topic(who, topic)


@router.get("/{topic}/queues")
def get_queues(desk: TheDesk, topic: str, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[QueueView]:
    """Its queues, with their offsets."""
    silence = Silence()
    queues = look.queues(desk.cluster, topic, silence)
    return partial(listed(queues, lambda queue: [queue.broker_name, queue.queue_id], limit, cursor), silence.reasons)


@router.get("/{topic}/groups")
def get_groups(desk: TheDesk, topic: str, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[GroupSummary]:
    """The groups that read it."""
    silence = Silence()
    groups = look.groups(desk.cluster, topic, silence)
    return partial(listed(groups, lambda group: [group.group], limit, cursor), silence.reasons)


@router.get("/{topic}/schema")
def get_schema(desk: TheDesk, topic: str, count: Annotated[int, Query(ge=1, le=_MOST_SAMPLED)] = 1_000) -> SchemaView:
    """The Spark schema that fits its JSON bodies, from the newest `count` messages, or what of them ten seconds are
    enough for."""
    return look.schema(desk.cluster, topic, count)


@router.get("/{topic}/messages")
def get_messages(
    desk: TheDesk,
    topic: str,
    queue: Annotated[str | None, Query(description="broker-a/3, or 3 of every broker.")] = None,
    offset: Annotated[str | None, Query(description="As rmq consume -o: 5:10, 42, -5, @-1h.")] = None,
    from_: Annotated[str | None, Query(alias="from", description="A time (UTC), milliseconds, or -10m.")] = None,
    to: Annotated[str | None, Query(description="Stored before then.")] = None,
    key: Annotated[str | None, Query(description="One of their keys; excludes all but from and to.")] = None,
    tags: Annotated[str | None, Query(description="paid || shipped")] = None,
    sql: Annotated[str | None, Query(description="price > 10")] = None,
    body: Annotated[str | None, Query(description="A text in their bodies, as it is written.")] = None,
    newest: Annotated[bool, Query(description="From the newest on, backwards.")] = False,
    limit: Limit = USUAL,
    cursor: Cursor = None,
) -> Page[MessageView]:
    """Its messages by store time, page by page: filtered in the broker, but by `body` here. A page may be short and
    yet have a next one."""
    if key is not None:
        if any(given is not None for given in (queue, offset, tags, sql, body)):
            raise InvalidArgument(
                "key finds messages wherever they are; it excludes queue, offset, tags, sql and body."
            )
        return messages.with_key(desk.cluster, topic, key, from_, to, limit, cursor)
    wanted = messages.Wanted(topic, queue, offset, from_, to, tags, sql, newest, body)
    return messages.page(desk.cluster, wanted, limit, cursor)


@router.post("/{topic}/messages", status_code=HTTP_201_CREATED)
def send(desk: TheDesk, who: Who, topic: str, new: NewMessage) -> ReceiptView:
    """Sends one message, and says where it was stored."""
    return desk.actions.send(who, topic, new)
