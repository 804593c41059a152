"""Who is connected, by language and version. RocketMQ: BrokerMetricsManager.initConnectionMetrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.families import CONSUMERS, PRODUCERS
from rmqspark.broker.metrics.figures import word
from rmqspark.protocol.codes import Language
from rmqspark.protocol.names import is_system_group

if TYPE_CHECKING:
    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.broker.online_groups import Member

_PROTOCOL: Final = "remoting"
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_FIRST_V4: Final = 212  # from 4.0.0 on each version has a snapshot before it, each minor ten versions, each major ten
_OF_A_VERSION, _OF_A_MINOR, _OF_A_MAJOR = 2, 20, 200
_LAST_MAJOR: Final = 5


def tell_clients(figures: Figures, clients: ClientRegistry) -> None:
    producers = Counter(_of(member) for _, members in clients.producer_groups() for member in members)
    for labels, count in producers.items():
        figures.add(PRODUCERS, (*labels, _PROTOCOL), count)
    for group in clients.consumer_groups():
        mode, is_system = _MODES.get(group.consume_type, ""), word(is_system_group(group.name))
        for labels, count in Counter(map(_of, group.members.values())).items():
            figures.add(CONSUMERS, (group.name, *labels, mode, _PROTOCOL, is_system), count)


def version_name(number: int) -> str:
    """What RocketMQ calls the version that a client announces (MQVersion's ordinal), in lower case; before 4.0 only
    `v3`."""
    if number < _FIRST_V4:
        return "v3"
    major, rest = divmod(number - _FIRST_V4, _OF_A_MAJOR)
    if major + 4 > _LAST_MAJOR:
        return "higher_version"
    minor, rest = divmod(rest, _OF_A_MINOR)
    patch, is_release = divmod(rest, _OF_A_VERSION)
    return f"v{major + 4}_{minor}_{patch}" + ("" if is_release else "_snapshot")


def _of(member: Member) -> tuple[str, str]:
    return Language.named(member.language).name.lower(), version_name(member.version)
