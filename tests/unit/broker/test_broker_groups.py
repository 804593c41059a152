"""The group table: which groups exist, which are made by use."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.errors import GroupNotFound, InvalidName, NoPermission
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupTable


def table_of(*, auto_create: bool = True, max_groups: int = 100) -> SubscriptionGroups:
    return SubscriptionGroups(auto_create=auto_create, max_groups=max_groups, now_ms=0)


def test_a_group_exists_from_its_first_use() -> None:
    """With RocketMQ's defaults: 16 retries, one retry queue."""
    groups = table_of()
    assert groups.get("billing") is None
    config = groups.find_or_create("billing", 5)
    assert (config.retryMaxTimes, config.retryQueueNums) == (16, 1)
    assert groups.require("billing") == config
    assert groups.version.counter == 1


@pytest.mark.parametrize("group", ["TOOLS_CONSUMER", "CID_RMQ_SYS_REVIVE_GROUP"])
def test_system_groups_need_no_permission_to_exist(group: str) -> None:
    """Even a broker that makes no groups by use has RocketMQ's own."""
    assert table_of(auto_create=False).find_or_create(group, 0).groupName == group


def test_groups_are_not_made_by_use_where_that_is_off() -> None:
    """The error says that an operator has to."""
    with pytest.raises(GroupNotFound, match="operator"):
        table_of(auto_create=False).find_or_create("billing", 0)


def test_a_broker_has_a_bounded_number_of_groups() -> None:
    """The one too many is refused."""
    groups = table_of(max_groups=len(table_of()) + 1)
    groups.find_or_create("a", 0)
    with pytest.raises(NoPermission):
        groups.find_or_create("b", 0)


def test_names_no_group_may_have_are_refused() -> None:
    """In requests. In a table, as that of a RocketMQ broker may have them, they are left out, and named in the log."""
    groups = table_of()
    with pytest.raises(InvalidName):
        groups.find_or_create("../x", 0)
    told = SubscriptionGroupTable({name: SubscriptionGroupConfig() for name in ("a/b", "g" * 121, "billing")})
    with capture_logs() as logs:
        groups.load(told)
    assert [groups.get(name) for name in ("a/b", "g" * 121)] == [None, None]
    assert groups.require("billing").groupName == "billing"
    assert ["a/b" in logs[0]["reason"], "121 characters" in logs[1]["reason"]] == [True, True]


def test_the_table_survives_in_rocketmqs_form() -> None:
    """Written and read again, the groups are the same, and RocketMQ's own are still there."""
    groups = table_of()
    groups.put(SubscriptionGroupConfig(groupName="billing", consumeEnable=False, retryMaxTimes=3), 0)
    again = table_of()
    again.load(SubscriptionGroupTable.decode(groups.table().encode()))
    assert list(again) == list(groups)
    assert again.require("billing").consumeEnable is False


def test_what_is_forbidden_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives its topics, and there may be ever new ones. What is taken back makes room."""
    monkeypatch.setattr("rmqspark.broker.state.groups._MOST_FORBIDDEN", 3)
    groups = table_of()
    for topic in ("a", "b", "c", "a"):
        groups.forbid_pulls("billing", topic, 0, forbidden=True)
    for group in ("billing", "shipping"):
        with pytest.raises(NoPermission, match="Take some back"):
            groups.forbid_pulls(group, "d", 0, forbidden=True)
        groups.forbid_pulls(group, "d", 0, forbidden=False)
    assert groups.table().forbiddenTable == {"billing": dict.fromkeys("abc", 4)}
    groups.forbid_pulls("billing", "a", 0, forbidden=False)
    groups.forbid_pulls("shipping", "d", 0, forbidden=True)
    assert (groups.may_pull("shipping", "d"), groups.may_pull("billing", "a")) == (False, True)
