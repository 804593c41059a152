"""One look, while a batch write is planned, whether its topic is there: a job that could not end need not begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import RmqError, TopicNotFound

if TYPE_CHECKING:
    from rmqspark.sink.options import SinkOptions


def check_topic_exists(options: SinkOptions) -> None:
    """Raises TopicNotFound where option `topic` names none and none is to be made.

    An exactly-once write may have been done before, and then needs no topic any more. A cluster that does not answer
    just now is waited for by the tasks.
    """
    if options.topic is None or options.auto_create_topic or options.transaction is not None:
        return
    from rmqspark.client.shared import shared_client  # of use to no other write

    client = shared_client(options.namesrv)
    client.expire_route(options.topic)
    try:
        client.route(options.topic)
    except TopicNotFound as missing:
        raise with_hint(missing, options.topic) from None
    except RmqError:
        return


def with_hint(missing: TopicNotFound, topic: str) -> TopicNotFound:
    """The same error, with what a sink's user can do about it."""
    missing.hint = f"Create it with: rmq topic create {topic}, or write with autoCreateTopic=true."
    return missing
