"""The store's settings, under RocketMQ's names (MessageStoreConfig) in snake_case; ours are marked so."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rmqspark.errors import InvalidArgument
from rmqspark.settings import check_bounds, setting

CONSUME_QUEUE_ENTRY_BYTES = 20
_INT32_MAX = 2**31 - 1  # index files number slots and entries by 32 bits
_SMALLEST_SEGMENT_BYTES = 256  # a record, its blank record and room to spare; tests use segments nearly this small


@dataclass(frozen=True)
class StoreConfig:
    """Everything a store can be told. It never sees the broker's settings."""

    mapped_file_size_commit_log: int = setting(
        1 << 30,
        "Length of a commit log file; may not change while a store has files.",
        unit="bytes",
        at_least=_SMALLEST_SEGMENT_BYTES,
    )
    mapped_file_size_consume_queue: int = setting(
        300_000 * CONSUME_QUEUE_ENTRY_BYTES,
        "Length of a consume queue file, rounded up to whole entries.",
        unit="bytes",
        at_least=CONSUME_QUEUE_ENTRY_BYTES,
    )
    flush_disk_type: str = setting(
        "ASYNC_FLUSH", "SYNC_FLUSH answers a send when it is on disk, ASYNC_FLUSH when it is in the page cache."
    )
    flush_interval_commit_log: int = setting(
        500, "Time between flushes of the commit log in ASYNC_FLUSH.", unit="ms", live=True
    )
    flush_interval_consume_queue: int = setting(
        1_000, "Time between flushes of consume queues, index and checkpoint.", unit="ms", live=True
    )
    sync_flush_timeout: int = setting(5_000, "How long a send may wait for its flush in SYNC_FLUSH.", unit="ms")
    max_message_size: int = setting(4 << 20, "Largest body of a message.", unit="bytes")
    check_crc_on_recover: bool = setting(True, "Whether recovery checks the bodies' checksums.")
    message_index_enable: bool = setting(True, "Whether messages can be queried by key and unique id.")
    max_hash_slot_num: int = setting(5_000_000, "Hash slots of an index file.", at_most=_INT32_MAX)
    max_index_num: int = setting(20_000_000, "Entries of an index file.", at_least=2, at_most=_INT32_MAX)
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "The delays of levels 1, 2, ... of messages."
    )
    access_message_in_memory_max_ratio: int = setting(
        40, "Share of the machine's memory within which a message counts as recent.", unit="percent", at_most=100
    )
    file_reserved_time: int = setting(72, "How long messages are kept.", unit="h", at_least=0, live=True)
    delete_when: str = setting(
        "04", "Hours of the machine's day, separated by ;, in which expired files are deleted.", live=True
    )
    disk_max_used_space_ratio: int = setting(
        75, "Above this, expired files are deleted at any hour.", unit="percent", at_most=100, live=True
    )
    disk_space_clean_forcibly_ratio: int = setting(
        85, "Above this, the oldest files are deleted even if not expired.", unit="percent", at_most=100, live=True
    )
    disk_space_warning_level_ratio: int = setting(
        90, "Above this, no message is taken.", unit="percent", at_most=100, live=True
    )
    clean_file_forcibly_enable: bool = setting(
        True, "Whether files may be deleted before they have expired.", live=True
    )
    delete_file_batch_max: int = setting(10, "Commit log files deleted in one go.", live=True)
    min_free_bytes: int = setting(
        0,
        "(ours) Bytes of the disk to keep free; where it is not 0 it replaces the ratios.",
        unit="bytes",
        at_least=0,
        live=True,
    )
    max_open_files: int = setting(256, "(ours) Files of a kind the store holds open; more are opened when needed.")
    max_unsynced_files: int = setting(
        8_192, "(ours) Queues with bytes that are not on disk; before there are more, the oldest is synced and closed."
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise InvalidArgument(f"flush_disk_type is ASYNC_FLUSH or SYNC_FLUSH, not {self.flush_disk_type!r}.")
        parse_delay_levels(self.message_delay_level)
        parse_hours(self.delete_when)

    @property
    def syncs_flush(self) -> bool:
        """Whether a message counts as stored, and may be read, once it is on disk only."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def consume_queue_segment_bytes(self) -> int:
        """The length of a consume queue file in whole entries, rounded up as RocketMQ does."""
        entries = -(-self.mapped_file_size_consume_queue // CONSUME_QUEUE_ENTRY_BYTES)
        return entries * CONSUME_QUEUE_ENTRY_BYTES


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """The delay of each level in ms, level 1 first, from RocketMQ's notation (`1s 5m 2h 1d`)."""
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    try:
        return tuple(int(word[:-1]) * units[word[-1]] for word in text.split())
    except (KeyError, ValueError):
        raise InvalidArgument(f"message_delay_level is a list like '1s 5m 2h', not {text!r}.") from None


def parse_hours(delete_when: str) -> frozenset[int]:
    """The hours in RocketMQ's notation (`04`, or `04;16`). Raises InvalidArgument."""
    words = [word.strip() for word in delete_when.split(";") if word.strip()]
    if not all(word.isdecimal() and len(word) <= 2 and int(word) < 24 for word in words):
        raise InvalidArgument(f"delete_when is a list of hours from 0 to 23 like '04;16', not {delete_when[:80]!r}.")
    return frozenset(map(int, words))


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
