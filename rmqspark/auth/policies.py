"""What a user may do, and whether that covers a need. Pure.

RocketMQ's Acl, Policy, PolicyEntry and AclAuthorizationHandler. Of the entries that are about the resource, name one of
the actions and come from the right address, the nearest decides: Custom before Default, a name before a prefix, a
longer prefix before a shorter one, `Topic:*` after both, `*` last. Without one it is refused. Of one resource a policy
has one entry, so that no two are equally near.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.auth.resources import Action, Decision, Pattern, PolicyType, Resource, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.auth.resources import Need

NO_MATCH = "no matched policies."
DENIED = "the decision is deny."


class Entry(NamedTuple):
    """What is decided of a resource. No source addresses: from wherever it comes."""

    resource: Resource
    actions: tuple[Action, ...]
    source_ips: tuple[str, ...]
    decision: Decision

    def fits(self, need: Need, source_ip: str) -> bool:
        """Whether it says anything about that."""
        return (
            self.resource.covers(need.resource)
            and (Action.ALL in self.actions or not set(self.actions).isdisjoint(need.actions))
            and (not self.source_ips or any(_is_within(source_ip, allowed) for allowed in self.source_ips))
        )

    @property
    def distance(self) -> tuple[bool, Pattern, int]:
        """Least of the nearest."""
        return self.resource.type is ResourceType.ANY, self.resource.pattern, -len(self.resource.name)


class Acl(NamedTuple):
    """What one subject may do: entries by kind and resource, in the order in which they came."""

    policies: Mapping[PolicyType, Mapping[Resource, Entry]]

    @classmethod
    def of(cls, kinds: Iterable[tuple[PolicyType, Iterable[Entry]]]) -> Self:
        policies: dict[PolicyType, dict[Resource, Entry]] = {}
        for kind, entries in kinds:
            policies.setdefault(kind, {}).update({entry.resource: entry for entry in entries})
        return cls(policies)

    def updated(self, other: Acl) -> Acl:
        """With the other's entries, in the place of those of the same kind and resource."""
        kinds = [*self.policies.items(), *other.policies.items()]
        return Acl.of((kind, entries.values()) for kind, entries in kinds)

    def without(self, kind: PolicyType, resource: Resource) -> Acl:
        """Without what it says of this resource; a kind without entries goes."""
        return Acl.of(
            (of, kept)
            for of, entries in self.policies.items()
            if (kept := [entry for entry in entries.values() if (of, entry.resource) != (kind, resource)])
        )

    def refusal(self, need: Need, source_ip: str) -> str:
        """Why the need is not covered, in RocketMQ's words; "" where it is."""
        for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT):
            fitting = [entry for entry in self.policies.get(kind, {}).values() if entry.fits(need, source_ip)]
            if fitting:
                nearest = min(fitting, key=lambda entry: entry.distance)
                return DENIED if nearest.decision is Decision.DENY else ""
        return NO_MATCH


NOTHING = Acl({})


def is_address(text: str) -> bool:
    """Whether this is an address, or a range of them such as 10.0.0.0/8."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_within(address: str, allowed: str) -> bool:
    try:
        source = ipaddress.ip_address(address)
        plain = getattr(source, "ipv4_mapped", None) or source
        return plain in ipaddress.ip_network(allowed, strict=False)
    except ValueError:
        return False
