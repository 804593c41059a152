"""The small files of a store: checkpoint, identity, and the tables under config/."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from rmqspark.errors import DamagedFile, DecodeError
from rmqspark.protocol import fastjson
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, SubscriptionGroupTable
from rmqspark.protocol.bodies.client import QueueLeaseTable
from rmqspark.protocol.bodies.route import TopicConfigTable
from rmqspark.store import checkpoint, deletions, identity
from rmqspark.store.checkpoint import CHECKPOINT_BYTES, Checkpoint
from rmqspark.store.files import read_whole
from rmqspark.store.inspection.findings import Finding, Findings, Kind
from rmqspark.store.json_table import JsonTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.store.files import FileSystem
    from rmqspark.store.inspection.findings import StoreReport

T = TypeVar("T")
CONFIG = "config"
_BACKUP = ".bak"
_KNOWN: dict[str, Callable[[bytes], object]] = {
    "topics.json": TopicConfigTable.decode,
    "subscriptionGroup.json": SubscriptionGroupTable.decode,
    "consumerOffset.json": ConsumerOffsetTable.decode,
    "lmqConsumerOffset.json": ConsumerOffsetTable.decode,  # the same of a broker with enableLmq
    "offsetResets.json": ConsumerOffsetTable.decode,
    "queueLeases.json": QueueLeaseTable.decode,
}


def read_checkpoint(files: FileSystem, findings: Findings, *, has_log: bool) -> Checkpoint:
    """The checkpoint; one that is missing or too short says nothing, and every start then reads more of the log."""
    data = b""
    if files.exists(checkpoint.PATH):
        with closing(files.open(checkpoint.PATH, read_only=True)) as file:
            data = file.pread(CHECKPOINT_BYTES, 0)
        if len(data) < CHECKPOINT_BYTES:
            detail = f"Has {len(data)} of {CHECKPOINT_BYTES} bytes."
            findings.add(Finding(Kind.BAD_CHECKPOINT, checkpoint.PATH, len(data), detail))
    elif has_log:
        findings.add(Finding(Kind.BAD_CHECKPOINT, checkpoint.PATH, -1, "Is not there."))
    return checkpoint.read_checkpoint(data)


def read_identity(files: FileSystem, report: StoreReport) -> None:
    """Store id and incarnation, where ours has ever opened the store."""
    stored = _read_table(files, identity.PATH, identity.parse, report.findings)
    if stored is not None:
        report.store_id, report.incarnation = stored.store_id, stored.incarnation


def check_tables(files: FileSystem, report: StoreReport) -> TopicConfigTable | None:
    """Reads the table of deleted topics and every one under config/, each with its copy; returns the table of topics,
    if it could be read."""
    topics = None
    _read_table(files, deletions.PATH, deletions.parse, report.findings)
    for name in files.listdir(CONFIG) if files.is_directory(CONFIG) else []:
        stem = name.removesuffix(_BACKUP)
        if not stem.endswith(".json") or (name != stem and files.exists(f"{CONFIG}/{stem}")):
            continue  # a copy is read with the table that it is of
        table = _read_table(files, f"{CONFIG}/{stem}", _parser(_KNOWN.get(stem, fastjson.loads)), report.findings)
        report.tables.append(stem)
        if isinstance(table, TopicConfigTable):
            topics = table
    return topics


def read_deletions(files: FileSystem, *, is_trusted: bool) -> dict[str, deletions.Deletion]:
    """The last deletion of each topic; none where the table cannot be read, which `check_tables` tells. `is_trusted`
    says that nobody but ours has written the store since it was last opened."""
    try:
        noted = JsonTable(files, deletions.PATH).load(deletions.parse) or {}
    except DamagedFile:
        return {}
    return {name: each._replace(only_ours_since=is_trusted and each.only_ours_since) for name, each in noted.items()}


def _read_table(files: FileSystem, path: str, parse: Callable[[str], T], findings: Findings) -> T | None:
    """What is in a table, as the broker would read it."""
    file = JsonTable(files, path)
    try:
        value = file.load(parse)
    except DamagedFile as error:
        findings.add(Finding(Kind.BAD_TABLE, path, -1, error.message))
        return None
    if file.warning:
        findings.add(Finding(Kind.BAD_TABLE, path, -1, file.warning))
    elif value is not None and files.exists(file.backup_path) and not _is_readable(files, file.backup_path, parse):
        detail = f"Cannot be read; {path}, whose copy it is, can."
        findings.add(Finding(Kind.BAD_COPY, file.backup_path, -1, detail, is_broken=False))
    return value


def _parser(decode: Callable[[bytes], object]) -> Callable[[str], object]:
    return lambda text: decode(text.encode())


def _is_readable(files: FileSystem, path: str, parse: Callable[[str], object]) -> bool:
    data = read_whole(files, path)
    try:
        parse(data.decode())
    except (ValueError, DecodeError):
        return False
    return True
