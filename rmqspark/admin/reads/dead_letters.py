"""Dead letters: how many each group has, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.paging import Page, PartialPage, make_cursor, partial, read_places
from rmqspark.admin.reads.messages import MOST_BYTES
from rmqspark.admin.schemas.dead_letters import DeadLetterCountView, DeadLetterView
from rmqspark.client.administration.dead_letter_walk import dead_letter_page
from rmqspark.client.administration.dead_letters import count_dead_letters
from rmqspark.client.cluster.silence import Silence

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient


def counts(client: ClusterClient, silence: Silence) -> list[DeadLetterCountView]:
    """`silence` hears of brokers that do not answer."""
    return [DeadLetterCountView.of(count) for count in count_dead_letters(client, on_silent=silence)]


def letters(client: ClusterClient, group: str, limit: int, cursor: str | None) -> PartialPage[DeadLetterView]:
    """The newest first. A page is short where bodies are large. GroupNotFound."""
    silence = Silence()
    before = read_places(cursor) if cursor else None
    found = dead_letter_page(client, group, limit, before, MOST_BYTES, on_silent=silence)
    page: Page[DeadLetterView] = Page(
        items=[DeadLetterView.of(letter) for letter in found.letters],
        next=make_cursor(found.older) if found.older else None,
    )
    return partial(page, silence.reasons)
