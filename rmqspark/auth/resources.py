"""What rights are about, and the words for them: resources, actions, decisions. Pure.

RocketMQ's Resource, ResourceType, ResourcePattern, Action and Decision. A resource is written `Topic:orders`,
`Topic:ord*` (those that begin so), `Topic:*`, or `*`. Words are read in any case.
"""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from rmqspark.protocol.names import RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

W = TypeVar("W", bound=Enum)

_ANY: Final = "*"


def word_in(words: type[W], text: str | None) -> W | None:
    """The word of an enumeration that is written so, in any case; None for another."""
    return next((word for word in words if text is not None and str(word.value).lower() == text.lower()), None)


class ResourceType(StrEnum):
    UNKNOWN = "Unknown"
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(IntEnum):
    """How a resource's name is meant; the first of two that fit counts."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Action(StrEnum):
    UNKNOWN = "Unknown"
    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(StrEnum):
    """Default entries count only where no Custom one fits."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Resource(NamedTuple):
    """One thing, or all that have a name of this kind."""

    type: ResourceType
    name: str
    pattern: Pattern = Pattern.LITERAL

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """None for what is no resource."""
        if text is None or not text.strip():
            return None
        if text == _ANY:
            return cls(ResourceType.ANY, "", Pattern.ANY)
        kind, _, name = text.partition(":")
        resource_type = word_in(ResourceType, kind)
        if resource_type is None:
            return None
        if name == _ANY:
            return cls(resource_type, "", Pattern.ANY)
        if name.endswith(_ANY):
            return cls(resource_type, name.partition(_ANY)[0], Pattern.PREFIXED)
        return cls(resource_type, name)

    @property
    def key(self) -> str:
        """As it is written."""
        if self.type is ResourceType.ANY:
            return _ANY
        star = "" if self.pattern is Pattern.LITERAL else _ANY
        return f"{self.type.value}:{self.name}{star}"

    def covers(self, asked: Resource) -> bool:
        """Whether an entry about this resource is about the one asked for, which is one thing."""
        if self.type is ResourceType.ANY:
            return True
        if self.type is not asked.type:
            return False
        match self.pattern:
            case Pattern.ANY:
                return True
            case Pattern.PREFIXED:
                return asked.name.startswith(self.name)
            case _:
                return asked.name == self.name


class Need(NamedTuple):
    """What a request asks for: one of these actions on this resource."""

    resource: Resource
    actions: tuple[Action, ...]


def topic(name: str, *actions: Action) -> Need:
    """The need of a topic; of a retry topic that of its group, whoever names it."""
    if name.startswith(RETRY_PREFIX):
        return group(name, *actions)
    return Need(Resource(ResourceType.TOPIC, name), actions)


def group(name: str, *actions: Action) -> Need:
    """The need of a group, which may be named by its retry topic."""
    return Need(Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX)), actions)


def cluster(name: str, *actions: Action) -> Need:
    return Need(Resource(ResourceType.CLUSTER, name), actions)


def every(resource_type: ResourceType, *actions: Action) -> Need:
    """The need of whoever asks about all topics or all groups: only an entry about all of them covers it."""
    return Need(Resource(resource_type, _ANY), actions)


def distinct(needs: Iterable[Need]) -> list[Need]:
    """Each once, in order."""
    return list(dict.fromkeys(needs))
