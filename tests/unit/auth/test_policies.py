"""Which of several entries decides: RocketMQ's AclAuthorizationHandler, case by case."""

from __future__ import annotations

import pytest

from rmqspark.auth.policies import DENIED, NO_MATCH, Acl, Entry, is_address
from rmqspark.auth.resources import Action, Decision, Pattern, PolicyType, Resource, ResourceType, cluster, group, topic

ALLOW, DENY = Decision.ALLOW, Decision.DENY
PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET
CUSTOM, DEFAULT = PolicyType.CUSTOM, PolicyType.DEFAULT
HERE = "10.1.2.3"


def entry(resource: str, actions: str = "Pub", decision: Decision = ALLOW, *source_ips: str) -> Entry:
    parsed = Resource.parse(resource)
    assert parsed is not None
    return Entry(parsed, tuple(Action(word) for word in actions.split(",")), source_ips, decision)


ORDERS = topic("orders", PUB)
CASES = [
    ("nothing is said", [], ORDERS, NO_MATCH),
    ("by name", [entry("Topic:orders")], ORDERS, ""),
    ("another name", [entry("Topic:orders2"), entry("Topic:order")], ORDERS, NO_MATCH),
    ("by prefix", [entry("Topic:ord*")], ORDERS, ""),
    ("by kind", [entry("Topic:*")], ORDERS, ""),
    ("everything", [entry("*")], ORDERS, ""),
    ("another kind", [entry("Group:*"), entry("Group:orders"), entry("Cluster:*")], ORDERS, NO_MATCH),
    ("another action", [entry("Topic:orders", "Sub")], ORDERS, NO_MATCH),
    ("one of the actions", [entry("Topic:orders", "Get")], topic("orders", SUB, GET), ""),
    ("all actions", [entry("Topic:orders", "All")], ORDERS, ""),
    ("denied", [entry("Topic:orders", "Pub", DENY)], ORDERS, DENIED),
    ("a name before a prefix", [entry("Topic:ord*", "Pub", DENY), entry("Topic:orders")], ORDERS, ""),
    ("a prefix before the kind", [entry("Topic:*"), entry("Topic:ord*", "Pub", DENY)], ORDERS, DENIED),
    ("a longer prefix before a shorter", [entry("Topic:o*", "Pub", DENY), entry("Topic:orde*")], ORDERS, ""),
    ("the kind before everything", [entry("*"), entry("Topic:*", "Pub", DENY)], ORDERS, DENIED),
    ("the nearest that has the action", [entry("Topic:orders", "Sub", DENY), entry("Topic:*")], ORDERS, ""),
    ("from there", [entry("Topic:orders", "Pub", ALLOW, "10.1.0.0/16")], ORDERS, ""),
    ("from that address", [entry("Topic:orders", "Pub", ALLOW, "192.168.0.1", HERE)], ORDERS, ""),
    ("from elsewhere", [entry("Topic:orders", "Pub", ALLOW, "10.2.0.0/16")], ORDERS, NO_MATCH),
    ("the nearest from there", [entry("Topic:orders", "Pub", DENY, "10.2.0.1"), entry("Topic:*")], ORDERS, ""),
    ("a retry topic is its group's", [entry("Topic:*"), entry("*", "Sub")], topic("%RETRY%g", PUB), NO_MATCH),
    ("and is asked of the group", [entry("Group:g", "Sub")], topic("%RETRY%g", SUB), ""),
    ("a group by its retry topic", [entry("Group:g", "Sub")], group("%RETRY%g", SUB), ""),
    ("a cluster", [entry("Cluster:c1", "Get")], cluster("c1", GET), ""),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "need", "refusal"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("kind", [CUSTOM, DEFAULT])
def test_the_nearest_entry_decides(kind, entries, need, refusal) -> None:
    """Whatever the order in which they were given."""
    for given in (entries, entries[::-1]):
        assert Acl.of([(kind, given)]).refusal(need, HERE) == refusal


def test_default_entries_count_where_no_custom_one_fits() -> None:
    """However near they are."""
    both = Acl.of([(DEFAULT, [entry("Topic:orders", "Pub", DENY)]), (CUSTOM, [entry("*")])])
    assert both.refusal(ORDERS, HERE) == ""
    other = Acl.of([(DEFAULT, [entry("Topic:orders", "Pub", DENY)]), (CUSTOM, [entry("Group:*")])])
    assert other.refusal(ORDERS, HERE) == DENIED


def test_what_is_said_later_of_a_resource_counts() -> None:
    """In one request and in a later one; the others stay."""
    first = Acl.of([(CUSTOM, [entry("Topic:a"), entry("Topic:a", "Sub"), entry("Topic:b")])])
    assert [each.actions for each in first.policies[CUSTOM].values()] == [(SUB,), (PUB,)]
    second = first.updated(Acl.of([(CUSTOM, [entry("Topic:b", "Get")]), (DEFAULT, [entry("Topic:a")])]))
    assert [each.actions for each in second.policies[CUSTOM].values()] == [(SUB,), (GET,)]
    third = second.without(CUSTOM, Resource(ResourceType.TOPIC, "a")).without(
        DEFAULT, Resource(ResourceType.TOPIC, "a")
    )
    assert {kind: list(of) for kind, of in third.policies.items()} == {CUSTOM: [Resource(ResourceType.TOPIC, "b")]}


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("Topic:orders", Resource(ResourceType.TOPIC, "orders")),
        ("topic:ord*", Resource(ResourceType.TOPIC, "ord", Pattern.PREFIXED)),
        ("GROUP:*", Resource(ResourceType.GROUP, "", Pattern.ANY)),
        ("*", Resource(ResourceType.ANY, "", Pattern.ANY)),
        ("Cluster:a:b", Resource(ResourceType.CLUSTER, "a:b")),
        ("", None),
        ("  ", None),
        (None, None),
        ("orders", None),
        ("Queue:orders", None),
    ],
)
def test_resources_are_read_as_rocketmq_reads_them(text, resource) -> None:
    """Kinds in any case; what is none is none."""
    assert Resource.parse(text) == resource
    if resource is not None:
        assert Resource.parse(resource.key) == resource


@pytest.mark.parametrize(
    ("source", "allowed", "fits"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.0/24", True),
        ("10.1.2.3", "10.1.2.9/24", True),
        ("10.1.3.3", "10.1.2.0/24", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("fe80::1", "fe80::/10", True),
        ("::ffff:10.1.2.3", "10.1.2.0/24", True),
        ("fe80::1", "10.1.2.0/24", False),
        ("", "10.1.2.0/24", False),
    ],
)
def test_addresses_are_compared_as_addresses(source, allowed, fits) -> None:
    """Not as they happen to be written."""
    assert Acl.of([(CUSTOM, [entry("*", "Pub", ALLOW, allowed)])]).refusal(ORDERS, source) == ("" if fits else NO_MATCH)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("10.0.0.1", True), ("10.0.0.0/8", True), ("::1", True), ("host", False), ("10.0.0.0/33", False)],
)
def test_what_is_an_address(text, is_one) -> None:
    """Names are none: nobody asks a name server who they are."""
    assert is_address(text) is is_one
