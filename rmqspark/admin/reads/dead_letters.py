"""Dead letters: how many each group has, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.admin.paging import Page, listed
from rmqspark.admin.schemas.dead_letters import DeadLetterCountView, DeadLetterView
from rmqspark.client.dead_letters import count_dead_letters, newest_dead_letters

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.dead_letters import DeadLetter

MOST: Final = 10_000


def counts(client: ClusterClient) -> list[DeadLetterCountView]:
    return [DeadLetterCountView.of(count) for count in count_dead_letters(client)]


def letters(client: ClusterClient, group: str, limit: int, cursor: str | None) -> Page[DeadLetterView]:
    """The newest first; MOST of them in all. GroupNotFound."""
    newest = newest_dead_letters(client, group, MOST if cursor else limit + 1)
    page = listed(newest, _place, limit, cursor)
    return Page(items=[DeadLetterView.of(letter) for letter in page.items], next=page.next)


def _place(letter: DeadLetter) -> list[Any]:
    """In the list, where the newest is first."""
    message = letter.message
    return [-message.store_timestamp_ms, message.queue.broker_name, message.queue.queue_id, -message.queue_offset]
