"""Which producers are online, by their client ids: a reply names the one it is for. Pure.

RocketMQ: ProducerManager.clientChannelTable. Unlike there, a client with two groups is still found when it leaves one
of them, and of two connections the one that lives is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.broker.online_groups import Member


class ProducerIds:
    """As many entries as producers have memberships."""

    def __init__(self) -> None:
        self._members: dict[str, dict[tuple[int, str], Member]] = {}  # by client id; by connection id and group

    def find(self, client_id: str) -> Member | None:
        """Of several connections with this id the one that was heard last."""
        members = self._members.get(client_id)
        return next(reversed(members.values())) if members else None

    def add(self, group: str, member: Member) -> None:
        self._members.setdefault(member.client_id, {})[member.connection.id, group] = member

    def remove(self, group: str, member: Member) -> None:
        members = self._members[member.client_id]
        del members[member.connection.id, group]
        if not members:
            del self._members[member.client_id]
