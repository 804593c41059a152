"""What a broker says of itself when it registers, what is known of it while it lives, and what a slave is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rmqspark.errors import InvalidArgument, InvalidName
from rmqspark.namesrv.speaker import Speaker
from rmqspark.protocol.bodies.route import DataVersion, TopicConfigTable

DEFAULT_TIMEOUT_MS = 120_000
_MAX_NAME_LENGTH = 255
_MAX_ADDRESSES = 64  # filter servers included


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself. `acting_master` is None for brokers before 5.0; `all_topics` says that it has no
    topics but these."""

    cluster: str
    name: str
    broker_id: int
    address: str
    speaker: Speaker
    ha_address: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    acting_master: bool | None = None
    all_topics: bool = False
    topics: TopicConfigTable = field(default_factory=TopicConfigTable)
    filter_servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """One address under one broker name, last heard of at `seen_ms`."""

    cluster: str
    name: str
    address: str
    speaker: Speaker
    ha_address: str
    timeout_ms: int
    data_version: DataVersion
    seen_ms: int

    @property
    def connection_id(self) -> int:
        return self.speaker.connection_id


class Master(NamedTuple):
    """What a slave is told when it registers; empty while there is no master."""

    address: str | None = None
    ha_address: str | None = None


def check_names(registration: Registration) -> None:
    """Raises InvalidName or InvalidArgument for what no table should hold."""
    for name in (registration.cluster, registration.name, *registration.topics.topicConfigTable):
        check_name(name)
    addresses = (registration.address, registration.ha_address, *registration.filter_servers)
    if len(addresses) > _MAX_ADDRESSES or max(map(len, addresses)) > _MAX_NAME_LENGTH:
        raise InvalidArgument(
            f"A broker has at most {_MAX_ADDRESSES} addresses of at most {_MAX_NAME_LENGTH} characters."
        )


def check_name(name: str) -> None:
    """Brokers may be named after hosts, and have a topic of that name, so this is laxer than `names.check_topic`."""
    if not name or len(name) > _MAX_NAME_LENGTH or not name.isprintable() or " " in name:
        raise InvalidName(
            f"{name[:64]!r} cannot be the name of a topic, broker or cluster.",
            hint=f"Use 1 to {_MAX_NAME_LENGTH} printable characters without spaces.",
        )
