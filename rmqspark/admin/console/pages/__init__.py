"""All pages, and where they are. One file each; what they share is beside this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rmqspark.admin.console.pages import (
    audit,
    broker,
    brokers,
    dead_letters,
    dead_letters_of,
    group,
    groups,
    login,
    message,
    messages,
    missing,
    overview,
    proof,
    query,
    spark,
    topic,
    topics,
    transactions,
)
from rmqspark.admin.console.pages.page import Page

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit

__all__ = ["ALL_PAGES", "MISSING", "Page"]


def _called(title: str) -> Callable[[Visit], str]:
    """A title in which `{topic}` is the topic of the address."""
    return lambda visit: title.format_map(visit.params)


ALL_PAGES: Final = (
    Page("/", _called("Overview"), "/", overview.build),
    Page("/topics", _called("Topics"), "/topics", topics.build),
    Page("/topics/{topic}", _called("Topic {topic}"), "/topics", topic.build),
    Page("/topics/{topic}/messages", _called("Messages of {topic}"), "/topics", messages.build),
    Page("/messages/{msg_id}", _called("Message {msg_id}"), "/topics", message.build),
    Page("/groups", _called("Groups and queries"), "/groups", groups.build),
    Page("/groups/{group}", _called("Group {group}"), "/groups", group.build),
    Page("/spark", _called("Spark queries"), "/spark", spark.build),
    Page("/spark/{query_id:path}/proof", _called("Proof of {query_id}"), "/spark", proof.build),  # names have slashes
    Page("/spark/{query_id:path}", _called("Query {query_id}"), "/spark", query.build),
    Page("/transactions", _called("Transactions"), "/transactions", transactions.build),
    Page("/dlq", _called("Dead letters"), "/dlq", dead_letters.build),
    Page("/dlq/{group}", _called("Dead letters of {group}"), "/dlq", dead_letters_of.build),
    Page("/brokers", _called("Brokers"), "/brokers", brokers.build),
    Page("/brokers/{broker}", _called("Broker {broker}"), "/brokers", broker.build),
    Page("/audit", _called("Audit"), "/audit", audit.build),
    Page("/login", _called("Sign in"), "/login", login.build, is_open=True),
)
MISSING: Final = Page("/{rest:path}", _called("Not found"), "", missing.build)
