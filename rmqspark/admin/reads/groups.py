"""Consumer groups: in lists, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.paging import PartialPage, paged, partial
from rmqspark.admin.schemas.groups import GroupSummary, GroupView
from rmqspark.client.administration.admin_groups import list_groups
from rmqspark.client.administration.groups_described import describe_group, describe_groups
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.spark.queries import readers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient


def groups(
    client: ClusterClient,
    limit: int,
    cursor: str | None,
    *,
    system: bool = False,
    containing: str = "",
    silence: Silence | None = None,
) -> PartialPage[GroupSummary]:
    """By name; those whose name contains a text, in upper or lower case. `silence` where it is known already who does
    not answer."""
    silence, now_ms = silence or Silence(), client.clock.now_ms()

    def show(chosen: Sequence[str]) -> list[GroupSummary]:
        return [GroupSummary.of(group, now_ms) for group in describe_groups(client, chosen, on_silent=silence)]

    names = list_groups(client, system=system, on_silent=silence)
    wanted = [name for name in names if containing.casefold() in name.casefold()]
    return partial(paged(wanted, show, limit, cursor), silence.reasons)


def group(client: ClusterClient, name: str) -> GroupView:
    """GroupNotFound."""
    silence = Silence()
    described = describe_group(client, name, on_silent=silence)
    return GroupView.of_all(described, readers_of(client, name, on_silent=silence), client.clock.now_ms())
