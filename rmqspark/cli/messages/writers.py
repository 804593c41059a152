"""Writing files of messages: JSON lines and Parquet, with the names of the Spark columns."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rmqspark.cli.messages.formats import as_object
from rmqspark.cli.messages.parquet_rows import arrow_and_parquet
from rmqspark.display import utc
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.model import ReceivedMessage

_ROWS = 4_096  # of a Parquet row group, and held in memory at a time
_ROW_BYTES = 32 << 20


class Writer(Protocol):
    """Takes messages one after the other."""

    def write(self, message: ReceivedMessage) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None:
        """Lets go of a file that is not wanted. Raises nothing: why it is not is known."""


def writing(file: Path) -> AbstractContextManager[Writer]:
    """A writer of F.jsonl or F.parquet. The file is there, in full, once the block has ended without an error; behind
    a link, too, where it leads to. InvalidArgument, before the block, where its name or its place allows no such file.
    """
    kinds: dict[str, Callable[[Path], Writer]] = {".jsonl": _Lines, ".ndjson": _Lines, ".parquet": _Rows}
    kind = kinds.get(file.suffix.lower())
    if kind is None:
        raise InvalidArgument(f"{file} is neither .jsonl nor .parquet.")
    if file.is_dir():
        raise InvalidArgument(f"{file} is a directory.", hint="Name a file in it.")
    if file.exists() and not file.is_file():
        raise InvalidArgument(f"{file} is no regular file.", hint="Into a pipe, messages go with: rmq consume --json.")
    target = Path(os.path.realpath(file)) if file.is_symlink() else file
    if not target.parent.is_dir():
        raise InvalidArgument(f"{target.parent} is not a directory.", hint="Make it first, or write somewhere else.")
    return _replacing(target, kind)


@contextmanager
def _replacing(file: Path, kind: Callable[[Path], Writer]) -> Iterator[Writer]:
    part = file.with_name(f".{file.name}.{os.getpid()}.part")  # its own: two may export to one file at once
    try:
        writer = kind(part)
        try:
            yield writer
            writer.close()
        except BaseException:  # of whoever writes, Ctrl-C too: nothing of the file stays open, and it rises
            writer.discard()
            raise
        part.replace(file)
    except OSError as error:
        error.filename = str(file) if error.filename == str(part) else error.filename
        raise
    finally:
        with suppress(OSError):  # of a file system that is read-only it was never there
            part.unlink(missing_ok=True)


class _Lines:
    """One JSON object a line, as `rmq consume --json` prints them."""

    def __init__(self, file: Path) -> None:
        self._stream = file.open("w", encoding="utf-8")

    def write(self, message: ReceivedMessage) -> None:
        self._stream.write(json.dumps(as_object(message), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._stream.close()

    def discard(self) -> None:
        with suppress(OSError):
            self._stream.close()


class _Rows:
    """Parquet with the columns of the Spark source, under their types."""

    def __init__(self, file: Path) -> None:
        self._arrow, parquet = arrow_and_parquet()
        file.touch()  # what the system refuses is told by Python: Arrow's own words name no file to people
        self._schema = _parquet_schema(self._arrow)
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def write(self, message: ReceivedMessage) -> None:
        self._rows.append(_row(message))
        self._bytes += len(message.body)
        if len(self._rows) >= _ROWS or self._bytes >= _ROW_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def discard(self) -> None:
        with suppress(OSError, self._arrow.ArrowInvalid):  # the latter where the disk refused something before
            self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_batch(self._arrow.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows, self._bytes = [], 0


def _row(message: ReceivedMessage) -> dict[str, Any]:
    return {
        **as_object(message),
        "body": message.body,
        "properties": list(message.properties.items()),
        "bornTimestamp": _microseconds(message.born_timestamp_ms),
        "storeTimestamp": _microseconds(message.store_timestamp_ms),
    }


def _microseconds(timestamp_ms: int) -> int | None:
    """None for what no calendar has: nobody could read such a file."""
    return None if utc(timestamp_ms) is None else timestamp_ms * 1_000


def _parquet_schema(pa: Any) -> Any:
    time = pa.timestamp("us", tz="UTC")
    texts = dict.fromkeys(("topic", "brokerName", "msgId", "tags", "keys"), pa.string())
    numbers = {"queueId": pa.int32(), "queueOffset": pa.int64(), "reconsumeTimes": pa.int32(), "flag": pa.int32()}
    times = {"bornTimestamp": time, "storeTimestamp": time}
    kinds = texts | numbers | times | {"body": pa.binary(), "properties": pa.map_(pa.string(), pa.string())}
    order = (
        *("topic", "brokerName", "queueId", "queueOffset", "msgId", "tags", "keys", "body", "properties"),
        *("bornTimestamp", "storeTimestamp", "reconsumeTimes", "flag"),
    )
    return pa.schema([(name, kinds[name]) for name in order])
