"""Which files of the commit log go, and whether the disk counts as full. Pure: the caller looks, and deletes.

RocketMQ's rules (DefaultMessageStore.CleanCommitLogService; spec: storage, section 8): a file has expired when it was
last written `file_reserved_time` ago. Expired files go in the hours `delete_when`, or at any hour while the disk is
fuller than `disk_max_used_space_ratio`; above `disk_space_clean_forcibly_ratio` the oldest go although they have not
expired; above `disk_space_warning_level_ratio` no message is taken besides.

With `min_free_bytes` (ours) the ratios do not count: below that many free bytes no message is taken and expired files
go at any hour, but nothing goes before its time. A laptop's disk is often nine tenths full, and not of our messages.

Either way files go from the oldest on, in their order, and never the newest. A file whose time lies in the future, for
the clock was wrong when it was written, would keep all behind it (ours): it counts as old as the one that follows it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.store.config import StoreConfig, parse_hours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.files import DiskUsage

HOUR_MS: Final = 3_600_000
_WARNING_PERCENT_BOUNDS = (35, 90)
_FORCIBLY_PERCENT_BOUNDS = (30, 85)


class LogFile(NamedTuple):
    """A file of the commit log, by the physical offset it begins at."""

    base_offset: int
    modified_ms: int


class RetentionPlan(NamedTuple):
    """What is to be done now. `delete` is oldest first; `is_forced` says that they may not have expired."""

    delete: tuple[LogFile, ...]
    is_disk_full: bool
    is_forced: bool


class _Pressure(IntEnum):
    """How full a disk is, in what follows from it."""

    NONE = 0
    SPACE = 1  # expired files go at any hour
    FORCE = 2  # files go before they expire
    FULL = 3  # and no message is taken


def decide(
    now_ms: int,
    hour: int,
    log_files: Sequence[LogFile],
    disks: Sequence[DiskUsage],
    config: StoreConfig,
    *,
    was_disk_full: bool,
    at_any_hour: bool = False,
) -> RetentionPlan:
    """What to delete at `now_ms`, in the local hour `hour` (see `local_hour`), which does not count `at_any_hour`.

    `log_files` are oldest first. `disks` are the partitions of the commit log and, where it is another one, of the
    consume queues; the fullest decides.
    """
    if config.min_free_bytes:
        pressure, is_full = _by_free_bytes(disks, config.min_free_bytes)
    else:
        pressure, is_full = _by_ratios(disks, config, was_disk_full)
    is_forced = pressure >= _Pressure.FORCE and config.clean_file_forcibly_enable
    is_time = at_any_hour or pressure >= _Pressure.SPACE or hour in parse_hours(config.delete_when)
    expired_before_ms = now_ms - config.file_reserved_time * HOUR_MS
    chosen: list[LogFile] = []
    if is_time:
        written_ms = write_times_ms(now_ms, log_files)
        for file, file_ms in zip(log_files[:-1][: config.delete_file_batch_max], written_ms, strict=False):
            if not is_forced and file_ms > expired_before_ms:
                break
            chosen.append(file)
    return RetentionPlan(tuple(chosen), is_full, is_forced)


def fullest(disks: Sequence[DiskUsage], config: StoreConfig) -> DiskUsage:
    """The disk for whose sake no message is taken, where that is so."""
    if config.min_free_bytes:
        return min(disks, key=lambda disk: disk.free_bytes)
    return min(disks, key=lambda disk: disk.free_bytes / max(1, disk.total_bytes))


def full_disk_story(disk: DiskUsage, config: StoreConfig) -> str:
    """How full a disk is on which `decide` has no message taken, and which setting says so."""
    free = f"The disk is full: {disk.free_bytes >> 20:,} MiB of {disk.total_bytes >> 20:,} are free"
    if config.min_free_bytes:
        return f"{free}, and {config.min_free_bytes >> 20:,} MiB are to stay so (min_free_bytes)."
    percent = _clamp(config.disk_space_warning_level_ratio, _WARNING_PERCENT_BOUNDS)
    return f"{free}, and above {percent} percent no message is taken (disk_space_warning_level_ratio)."


def write_times_ms(now_ms: int, log_files: Sequence[LogFile]) -> list[int]:
    """When each of the files, oldest first, was last written, in milliseconds; never later than `now_ms`.

    The log is written file by file: one with a time from the future was last written no later than the one that follows
    it. A time that is past is believed although the next is older: nothing tells which of the two clocks was wrong, and
    a file that is kept for too long is the lesser harm.
    """
    times_ms: list[int] = []
    known_ms = now_ms
    for file in reversed(log_files):
        if file.modified_ms <= now_ms:
            known_ms = file.modified_ms
        times_ms.append(known_ms)
    return times_ms[::-1]


def local_hour(now_ms: int) -> int:
    """The hour of the day where this machine is."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().hour


def _by_free_bytes(disks: Sequence[DiskUsage], min_free_bytes: int) -> tuple[_Pressure, bool]:
    is_full = any(disk.free_bytes < min_free_bytes for disk in disks)
    return (_Pressure.SPACE if is_full else _Pressure.NONE), is_full


def _by_ratios(disks: Sequence[DiskUsage], config: StoreConfig, was_full: bool) -> tuple[_Pressure, bool]:
    """Between the forcible and the warning ratio a disk that was full stays full, so that it does not flap."""
    pressure = max((_pressure(disk, config) for disk in disks), default=_Pressure.NONE)
    return pressure, pressure == _Pressure.FULL or (was_full and pressure == _Pressure.FORCE)


def _pressure(disk: DiskUsage, config: StoreConfig) -> _Pressure:
    if disk.total_bytes <= 0:
        return _Pressure.SPACE  # unknown: RocketMQ deletes what has expired
    used = 100 * (disk.total_bytes - disk.free_bytes)
    if used > disk.total_bytes * _clamp(config.disk_space_warning_level_ratio, _WARNING_PERCENT_BOUNDS):
        return _Pressure.FULL
    if used > disk.total_bytes * _clamp(config.disk_space_clean_forcibly_ratio, _FORCIBLY_PERCENT_BOUNDS):
        return _Pressure.FORCE
    if used > disk.total_bytes * config.disk_max_used_space_ratio:
        return _Pressure.SPACE
    return _Pressure.NONE


def _clamp(percent: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(percent, bounds[1]))
