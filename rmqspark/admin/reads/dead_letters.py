"""Dead letters: how many each group has, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.admin.paging import Page, PartialPage, listed, partial
from rmqspark.admin.schemas.dead_letters import DeadLetterCountView, DeadLetterView
from rmqspark.client.dead_letters import count_dead_letters, newest_dead_letters
from rmqspark.client.silence import Silence

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.dead_letters import DeadLetter

MOST: Final = 10_000


def counts(client: ClusterClient, silence: Silence) -> list[DeadLetterCountView]:
    """`silence` hears of brokers that do not answer."""
    return [DeadLetterCountView.of(count) for count in count_dead_letters(client, on_silent=silence)]


def letters(client: ClusterClient, group: str, limit: int, cursor: str | None) -> PartialPage[DeadLetterView]:
    """The newest first; MOST of them in all. GroupNotFound."""
    silence = Silence()
    newest = newest_dead_letters(client, group, MOST if cursor else limit + 1, on_silent=silence)
    page = listed(newest, _place, limit, cursor)
    shown: Page[DeadLetterView] = Page(items=[DeadLetterView.of(letter) for letter in page.items], next=page.next)
    return partial(shown, silence.reasons)


def _place(letter: DeadLetter) -> list[Any]:
    """In the list, where the newest is first."""
    message = letter.message
    return [-message.store_timestamp_ms, message.queue.broker_name, message.queue.queue_id, -message.queue_offset]
