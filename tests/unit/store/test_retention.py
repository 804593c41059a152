"""Which files expire: RocketMQ's rules, and ours for disks that are full of other things."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.store.config import StoreConfig, parse_hours
from rmqspark.store.files import DiskUsage
from rmqspark.store.retention import LogFile, RetentionPlan, decide, local_hour, write_times_ms

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def plan(
    ages_h: list[float],
    *,
    used: float = 10,
    hour: int = 12,
    was_disk_full: bool = False,
    at_any_hour: bool = False,
    **settings: Any,
) -> RetentionPlan:
    """The plan for files of these ages, oldest first, on a disk of 1,000,000 bytes."""
    files = [LogFile(number * 100, NOW_MS - round(age * HOUR_MS)) for number, age in enumerate(ages_h)]
    disk = DiskUsage(1_000_000, round(1_000_000 - used * 10_000))
    config = replace(StoreConfig(), **settings)
    return decide(NOW_MS, hour, files, [disk], config, was_disk_full=was_disk_full, at_any_hour=at_any_hour)


@pytest.mark.parametrize(
    ("ages_h", "situation", "deleted"),
    [
        pytest.param([100, 90, 1], {"hour": 4}, 2, id="expired files go at four"),
        pytest.param([100, 90, 1], {"hour": 5}, 0, id="and at no other hour"),
        pytest.param([100, 90, 1], {"hour": 16, "delete_when": "04;16"}, 2, id="unless it is named too"),
        pytest.param([100, 90, 1], {"hour": 5, "at_any_hour": True}, 2, id="or an operator wants it"),
        pytest.param([71, 1], {"hour": 5, "at_any_hour": True}, 0, id="who cannot make files older"),
        pytest.param([72, 71.9, 1], {"hour": 4}, 1, id="expired is exactly 72 hours"),
        pytest.param([5, 3, 1], {"hour": 4, "file_reserved_time": 4}, 1, id="or what is configured"),
        pytest.param([71, 90, 90, 1], {"hour": 4}, 0, id="an older file that stays keeps the ones behind it"),
        pytest.param([-9000, 90, 80, 1], {"hour": 4}, 3, id="unless its time is in the future"),
        pytest.param([-9000, 71, 1], {"hour": 4}, 0, id="then it is as old as the one behind it"),
        pytest.param([100], {"hour": 4}, 0, id="never the newest file"),
        pytest.param([100, 100], {"hour": 4}, 1, id="never the newest file, though it has expired"),
        pytest.param([], {"hour": 4}, 0, id="nothing to do without files"),
        pytest.param([100] * 30, {"hour": 4}, 10, id="ten at a time"),
        pytest.param([100, 1], {"used": 75}, 0, id="at three quarters the hour still counts"),
        pytest.param([100, 50, 1], {"used": 75.1}, 1, id="above it expired files go at any hour"),
        pytest.param([5, 4, 1], {"used": 85}, 0, id="at 85 percent nothing goes early"),
        pytest.param([5, 4, 1], {"used": 85.1}, 2, id="above it the oldest go although they have not expired"),
        pytest.param([5] * 30, {"used": 99}, 10, id="ten at a time then, too"),
        pytest.param([5], {"used": 99}, 0, id="and never the newest"),
        pytest.param([5, 4, 1], {"used": 99, "clean_file_forcibly_enable": False}, 0, id="unless that is forbidden"),
        pytest.param([100, 4, 1], {"used": 99, "clean_file_forcibly_enable": False}, 1, id="expired ones still go"),
        pytest.param([5, 1], {"used": 86, "disk_space_clean_forcibly_ratio": 99}, 1, id="85 is the most one can set"),
        pytest.param([5, 1], {"used": 31, "disk_space_clean_forcibly_ratio": 5}, 1, id="and 30 the least"),
        pytest.param(
            [5, 1], {"used": 99, "min_free_bytes": 20_000}, 0, id="with bytes to keep free nothing goes early"
        ),
        pytest.param([100, 1], {"used": 99, "min_free_bytes": 20_000}, 1, id="expired files go at any hour"),
        pytest.param([100, 1], {"used": 97, "min_free_bytes": 20_000}, 0, id="only while there are too few of them"),
        pytest.param([100, 1], {"used": 97, "min_free_bytes": 20_000, "hour": 4}, 1, id="and in their hour"),
    ],
)
def test_what_is_deleted(ages_h: list[float], situation: dict[str, Any], deleted: int) -> None:
    """The oldest files go, in order, as many as the situation asks for."""
    chosen = plan(ages_h, **situation).delete
    assert [file.base_offset for file in chosen] == [number * 100 for number in range(deleted)]


@pytest.mark.parametrize(
    ("situation", "full"),
    [
        ({"used": 90}, False),
        ({"used": 90.1}, True),
        ({"used": 88}, False),
        ({"used": 88, "was_disk_full": True}, True),
        ({"used": 85, "was_disk_full": True}, False),
        ({"used": 36, "disk_space_warning_level_ratio": 1}, True),
        ({"used": 99, "min_free_bytes": 5_000}, False),
        ({"used": 99, "min_free_bytes": 10_000}, False),
        ({"used": 99, "min_free_bytes": 10_001}, True),
        ({"used": 97, "min_free_bytes": 10_001, "was_disk_full": True}, False),
    ],
)
def test_when_the_disk_is_full(situation: dict[str, Any], full: bool) -> None:
    """Above the warning level no message is taken, until the disk is below the forcible one again."""
    assert plan([1], **situation).is_disk_full is full


def test_the_fullest_disk_decides() -> None:
    """Log and queues may lie on two disks; either can fill up."""
    disks = [DiskUsage(100, 90), DiskUsage(100, 5)]
    for order in (disks, disks[::-1]):
        chosen = decide(NOW_MS, 12, [LogFile(0, NOW_MS), LogFile(1, NOW_MS)], order, StoreConfig(), was_disk_full=False)
        assert chosen == RetentionPlan((LogFile(0, NOW_MS),), is_disk_full=True, is_forced=True)


def test_an_unknown_disk_keeps_what_has_not_expired() -> None:
    """Where the system does not say how large a disk is, expired files go at any hour and nothing else."""
    files = [LogFile(0, NOW_MS - 100 * HOUR_MS), LogFile(1, NOW_MS - HOUR_MS), LogFile(2, NOW_MS)]
    chosen = decide(NOW_MS, 12, files, [DiskUsage(0, 0)], StoreConfig(), was_disk_full=False)
    assert chosen == RetentionPlan((files[0],), is_disk_full=False, is_forced=False)


@pytest.mark.parametrize(
    ("ages_h", "taken_for_h"),
    [
        pytest.param([], [], id="no files"),
        pytest.param([9, 5, 1], [9, 5, 1], id="times in order are believed"),
        pytest.param([9, 0], [9, 0], id="now is not the future"),
        pytest.param([9, -7, 1], [9, 1, 1], id="a file from the future is as old as the next"),
        pytest.param([-8, -7, 1], [1, 1, 1], id="several are as old as the next that is not"),
        pytest.param([9, -7], [9, 0], id="the newest was written now"),
        pytest.param([-8, -7], [0, 0], id="and so were all before it where no time is known"),
        pytest.param([5, 900, 1], [5, 900, 1], id="a time long past says nothing of the file before it"),
    ],
)
def test_times_from_the_future_are_not_believed(ages_h: list[int], taken_for_h: list[int]) -> None:
    """A clock that was ahead while one file was written keeps no file longer than those behind it."""
    files = [LogFile(number, NOW_MS - age_h * HOUR_MS) for number, age_h in enumerate(ages_h)]
    assert write_times_ms(NOW_MS, files) == [NOW_MS - age_h * HOUR_MS for age_h in taken_for_h]


def test_hours() -> None:
    """delete_when is read as RocketMQ writes it."""
    assert parse_hours("04") == {4}
    assert parse_hours("04;16; 23;") == {4, 16, 23}
    assert 0 <= local_hour(NOW_MS) < 24
    for wrong in ("9" * 5_000, "24", "-1", "x"):
        with pytest.raises(InvalidArgument, match="delete_when"):
            parse_hours(wrong)
        with pytest.raises(InvalidArgument, match="delete_when"):
            StoreConfig(delete_when=wrong)
