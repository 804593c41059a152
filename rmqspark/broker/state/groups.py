"""Which consumer groups there are and what each may do. Pure: told what time it is, writes no file.

A group exists from its first heartbeat or pull on, unless auto-creation is off; a few exist on every broker.
RocketMQ: SubscriptionGroupManager; spec: requests, sections 1.1 and 7, semantics, section 2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.broker.state.possible_names import PossibleNames
from rmqspark.broker.state.room import require_room
from rmqspark.errors import GroupNotFound, NoPermission
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupTable
from rmqspark.protocol.bodies.route import DataVersion
from rmqspark.protocol.names import PREDEFINED_GROUPS, check_group, is_system_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PULLS: Final = 4  # RocketMQ's bit for them in its forbiddenTable
_MOST_FORBIDDEN: Final = 20_000  # pairs of group and topic; they outlive their topics


class SubscriptionGroups:
    """All consumer groups of one broker, at most `max_groups`."""

    def __init__(self, *, auto_create: bool, max_groups: int, now_ms: int) -> None:
        self.version = DataVersion(timestamp=now_ms)
        self._auto_create = auto_create
        self._max_groups = max_groups
        self._groups = {name: SubscriptionGroupConfig(groupName=name) for name in sorted(PREDEFINED_GROUPS)}
        self._forbidden: dict[str, dict[str, int]] = {}  # by group and topic
        self._names = PossibleNames(check_group)

    @property
    def revision(self) -> int:
        return self.version.counter

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return (self._groups[name] for name in sorted(self._groups))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self._groups.get(group)

    def require(self, group: str) -> SubscriptionGroupConfig:
        """The group's configuration; raises GroupNotFound."""
        config = self._groups.get(group)
        if config is None:
            raise GroupNotFound(group, hint="It exists once a consumer of it was here.")
        return config

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig:
        """The group's configuration, made with defaults if that is allowed; raises GroupNotFound where it is not."""
        config = self._groups.get(group)
        if config is not None:
            return config
        if not (self._auto_create or is_system_group(group)):
            raise GroupNotFound(group, hint="Groups are not created by use on this broker; an operator has to.")
        config = SubscriptionGroupConfig(groupName=group)
        self.put(config, now_ms)
        return config

    def permit(self, group: str, now_ms: int) -> SubscriptionGroupConfig:
        """The same of a group that may consume; raises NoPermission where an operator has forbidden it."""
        config = self.find_or_create(group, now_ms)
        if not config.consumeEnable:
            raise NoPermission(f"Group {config.groupName!r} is not allowed to consume.")
        return config

    def may_pull(self, group: str, topic: str) -> bool:
        """Whether nobody has forbidden it to read this topic by its subscription."""
        return not self._forbidden.get(group, {}).get(topic, 0) & _PULLS

    def forbid_pulls(self, group: str, topic: str, now_ms: int, *, forbidden: bool) -> None:
        """Forbids a group to read a topic by its subscription, or takes that back. Raises NoPermission for one too
        many."""
        known = self._forbidden.get(group, {}).get(topic, 0)
        bits = known | _PULLS if forbidden else known & ~_PULLS
        if bits and not known and sum(map(len, self._forbidden.values())) >= _MOST_FORBIDDEN:
            raise NoPermission(
                f"This broker forbids {_MOST_FORBIDDEN} topics to groups, the most it may.", hint="Take some back."
            )
        topics = self._forbidden.setdefault(group, {})
        if bits:
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self._forbidden[group]
        if bits != known:
            self.version = self.version.next(now_ms)

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> bool:
        """Creates or replaces a group; False if it is so already. Raises InvalidName, NoPermission over the limit."""
        known = self._groups.get(config.groupName)
        if known == config:
            return False
        if known is None:
            check_group(config.groupName)
            self.require_room([config.groupName])
        self._groups[config.groupName] = config
        self.version = self.version.next(now_ms)
        return True

    def require_room(self, groups: Iterable[str]) -> None:
        """Raises NoPermission where there may not be so many more; those that are there already are none."""
        require_room("groups", self._groups, groups, self._max_groups, "max_group_nums")

    def remove(self, group: str, now_ms: int) -> bool:
        """Whether there was such a group."""
        self._forbidden.pop(group, None)
        if self._groups.pop(group, None) is None:
            return False
        self.version = self.version.next(now_ms)
        return True

    def table(self) -> SubscriptionGroupTable:
        """In the form of config/subscriptionGroup.json."""
        forbidden = {group: dict(topics) for group, topics in self._forbidden.items()}
        return SubscriptionGroupTable(dict(self._groups), forbidden, self.version)

    def follow(self, table: SubscriptionGroupTable, now_ms: int) -> None:
        """Becomes what a master's table is."""
        told = {
            name: msgspec.structs.replace(config, groupName=name)
            for name, config in self._names.of(table.subscriptionGroupTable).items()
        }
        if told != self._groups or table.forbiddenTable != self._forbidden:
            self._groups, self._forbidden = told, table.forbiddenTable
            self.version = self.version.next(now_ms)

    def load(self, table: SubscriptionGroupTable) -> None:
        """Takes over a stored table, but for names that no group may have."""
        for name, config in self._names.of(table.subscriptionGroupTable).items():
            self._groups[name] = msgspec.structs.replace(config, groupName=name)
        self._forbidden = table.forbiddenTable
        self.version = table.dataVersion
