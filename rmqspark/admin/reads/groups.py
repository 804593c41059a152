"""Consumer groups: in lists, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.paging import Page, paged
from rmqspark.admin.schemas.groups import GroupSummary, GroupView
from rmqspark.client.admin_groups import describe_group, list_groups
from rmqspark.errors import GroupNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.descriptions import GroupDescription


def groups(
    client: ClusterClient, limit: int, cursor: str | None, *, system: bool = False, containing: str = ""
) -> Page[GroupSummary]:
    """By name; those whose name contains a text, in upper or lower case."""
    now_ms = client.clock.now_ms()

    def show(chosen: Sequence[str]) -> list[GroupSummary]:
        return [GroupSummary.of(group, now_ms) for group in _existing(client, chosen)]

    wanted = [name for name in list_groups(client, system=system) if containing.casefold() in name.casefold()]
    return paged(wanted, show, limit, cursor)


def group(client: ClusterClient, name: str) -> GroupView:
    """GroupNotFound."""
    return GroupView.of(describe_group(client, name), client.clock.now_ms())


def _existing(client: ClusterClient, chosen: Iterable[str]) -> Iterator[GroupDescription]:
    for name in chosen:
        try:
            yield describe_group(client, name)
        except GroupNotFound:
            continue
