"""What an inspection says: findings, and figures of what is there. All of it plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

MOST_PER_KIND: Final = 100  # of one kind; what exceeds it is counted


class Kind(StrEnum):
    """What can be wrong. The names are for scripts."""

    MISSING_FILE = "missing-file"
    WRONG_LENGTH = "wrong-length"
    INVALID_RECORDS = "invalid-records"  # they were on disk once, or are all there
    TORN_TAIL = "torn-tail"  # above it: what a crash leaves
    STALE_TAIL = "stale-tail"  # bytes behind the end of a log that was closed in order
    REPEATED_OFFSET = "repeated-offset"
    WRONG_ENTRIES = "wrong-entries"
    MISSING_ENTRIES = "missing-entries"
    EXTRA_ENTRIES = "extra-entries"
    LOST_MESSAGES = "lost-messages"
    MISSING_QUEUE = "missing-queue"
    INDEX_HEADER = "index-header"
    INDEX_CHAIN = "index-chain"
    INDEX_SLOTS = "index-slots"
    INDEX_ENTRIES = "index-entries"
    BAD_TABLE = "bad-table"
    BAD_COPY = "bad-copy"
    BAD_CHECKPOINT = "bad-checkpoint"


class Finding(NamedTuple):
    """Something that is not as it should be.

    `path` is relative to the store and `offset` a byte of that file, -1 where it is about the file as a whole. What is
    not `is_broken` needs nobody's attention: the next start of a broker puts it right, or it has been reported before.
    """

    kind: Kind
    path: str
    offset: int
    detail: str
    is_broken: bool = True


class Findings:
    """Findings in the order in which they were made, a bounded number of each kind; `counts` has all of them."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[Kind] = Counter()
        self.is_broken = False

    def add(self, finding: Finding) -> None:
        self.counts[finding.kind] += 1
        self.is_broken = self.is_broken or finding.is_broken
        if self.counts[finding.kind] <= MOST_PER_KIND:
            self.kept.append(finding)


@dataclass(slots=True)
class QueueFigures:
    """One queue: readable offsets [min_offset, max_offset), and the records of it that the log has."""

    topic: str
    queue_id: int
    min_offset: int = 0
    max_offset: int = 0
    records: int = 0
    first_timestamp_ms: int = -1  # when its oldest and newest record were stored; -1 if there is none
    last_timestamp_ms: int = -1


@dataclass(slots=True)
class IndexFigures:
    """One index file."""

    path: str
    entries: int
    used_slots: int


@dataclass(slots=True)
class StoreReport:
    """A store, as far as it could be read."""

    path: str
    is_open: bool = False  # another process has it: the tail may have moved while we looked
    was_closed: bool = True
    written_by: str = "rmqspark"  # who wrote its checkpoint last: rmqspark or rocketmq
    store_id: str = ""
    incarnation: int = 0
    start: int = 0  # physical offsets of the log: its begin, its end, and how far it is known to be on disk
    end: int = 0
    watermark: int = 0
    segments: int = 0
    records: int = 0
    unqueued: int = 0  # records that belong in no queue: half messages, and those of topics that were deleted
    first_timestamp_ms: int = -1
    last_timestamp_ms: int = -1
    queues: list[QueueFigures] = field(default_factory=list)
    index: list[IndexFigures] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    cut_files: int = 0  # what was cut off the log while it was a slave's, and is kept for a while
    cut_bytes: int = 0
    findings: Findings = field(default_factory=Findings)

    @property
    def is_broken(self) -> bool:
        return self.findings.is_broken
