"""What users and rights are called, in RocketMQ's words. Raises InvalidArgument for what no server would take."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

USER_TYPES: Final = ("Super", "Normal")
ACTIONS: Final = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
DECISIONS: Final = ("Allow", "Deny")
POLICY_TYPES: Final = ("Custom", "Default")
_RESOURCE_TYPES: Final = ("Topic", "Group", "Cluster")


def subject_of(username: str) -> str:
    return f"User:{username}"


def as_spelt(words: Sequence[str], given: str, what: str) -> str:
    """As RocketMQ spells it."""
    found = next((word for word in words if word.lower() == given.lower()), None)
    if found is None:
        raise InvalidArgument(f"{given!r} is no {what}.", hint=f"There are: {', '.join(words)}.")
    return found


def check_resource(resource: str) -> str:
    kind, colon, name = resource.partition(":")
    is_one = resource == "*" or (colon and name and kind.lower() in [known.lower() for known in _RESOURCE_TYPES])
    if not is_one or "*" in name[:-1]:
        raise InvalidArgument(f"{resource!r} is no resource.", hint="Write Topic:orders, Group:bill*, Cluster:* or *.")
    return resource


def check_source(address: str) -> None:
    try:
        ipaddress.ip_network(address, strict=False)
    except ValueError:
        raise InvalidArgument(f"{address!r} is no address.", hint="Write 10.1.2.3, or 10.0.0.0/8.") from None
