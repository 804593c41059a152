"""The groups of one kind, producers' or consumers', that are online, and who is in which. Pure.

A member is a connection, not a client id: when the connection ends the member is gone, whatever its last heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from rmqspark.broker.shares import Shares
from rmqspark.errors import Busy
from rmqspark.remoting.request import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Member:
    """One client of one group."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int  # monotonic, last heartbeat

    @property
    def address(self) -> str:
        """Without the port."""
        return self.connection.peer[0]


@dataclass(slots=True)
class OnlineGroup:
    """One group. `founder` is the address whose client was the first in it."""

    name: str
    founder: str
    members: dict[int, Member] = field(default_factory=dict)  # by connection id


G = TypeVar("G", bound=OnlineGroup)


class OnlineGroups(Generic[G]):
    """At most `max_groups`, half of them made by one address. `memberships` has room for connections in groups, of this
    kind and others."""

    def __init__(self, max_groups: int, memberships: Shares) -> None:
        self._places = Shares(max_groups)
        self._memberships = memberships
        self._groups: dict[str, G] = {}
        self._of_connection: dict[int, dict[str, None]] = {}  # of ten thousand, a connection that ends is in a few

    def get(self, name: str) -> G | None:
        return self._groups.get(name)

    def __iter__(self) -> Iterator[G]:
        """Those of now, whoever comes and goes meanwhile."""
        return iter(list(self._groups.values()))

    def require_room(self, name: str, member: Member) -> None:
        """Raises Busy where there is none for the group, if that is new, or for a new member of it."""
        known = self._groups.get(name)
        if known is None and (shortage := self._places.shortage(member.address)):
            raise Busy(f"This broker knows as many groups online as it may: {shortage}.")
        is_known = known is not None and member.connection.id in known.members
        if not is_known and (shortage := self._memberships.shortage(member.address)):
            raise Busy(
                f"This broker knows of as many clients in their groups as it may: {shortage}.",
                hint="A client is in each group that its heartbeats name.",
            )

    def join(self, group: G, member: Member) -> Member | None:
        """There is room for it. Returns the one of the same connection whose place it takes."""
        if group.name not in self._groups:
            self._places.take(group.founder)
            self._groups[group.name] = group
        before = group.members.get(member.connection.id)
        if before is None:
            self._memberships.take(member.address)
            self._of_connection.setdefault(member.connection.id, {})[group.name] = None
        group.members[member.connection.id] = member
        return before

    def leave(self, name: str, connection_id: int) -> Member | None:
        """The one of this connection, if it was in that group. With its last member a group is gone."""
        group = self._groups.get(name)
        member = None if group is None else group.members.pop(connection_id, None)
        if group is None or member is None:
            return None
        self._memberships.give_back(member.address)
        names = self._of_connection[connection_id]
        del names[name]
        if not names:
            del self._of_connection[connection_id]
        if not group.members:
            self._places.give_back(group.founder)
            del self._groups[name]
        return member

    def of_connection(self, connection_id: int) -> list[str]:
        """The names of those that it is in."""
        return list(self._of_connection.get(connection_id, ()))

    def silent(self, expiry_ms: int, now_ms: int) -> list[tuple[str, int]]:
        """Group and connection of each member without a heartbeat for longer than that."""
        return [
            (group.name, connection_id)
            for group in self._groups.values()
            for connection_id, member in group.members.items()
            if now_ms - member.seen_ms > expiry_ms
        ]
