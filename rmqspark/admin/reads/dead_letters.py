"""Dead letters: how many each group has, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.dead_letters import DeadLetterCountView, DeadLetterView
from rmqspark.client.dead_letters import count_dead_letters, newest_dead_letters

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient


def counts(client: ClusterClient) -> list[DeadLetterCountView]:
    return [DeadLetterCountView.of(count) for count in count_dead_letters(client)]


def letters(client: ClusterClient, group: str, limit: int) -> list[DeadLetterView]:
    """The newest first. GroupNotFound."""
    return [DeadLetterView.of(letter) for letter in reversed(newest_dead_letters(client, group, limit))]
