"""The way of one message, in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.journeys import JourneyView
from rmqspark.client.journeys import journey_of

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient


def journey(client: ClusterClient, msg_id: str, topic: str | None) -> JourneyView:
    """By either id. MessageNotFound, TopicNotFound."""
    return JourneyView.of(journey_of(client, msg_id, topic))
