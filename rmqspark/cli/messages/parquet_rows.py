"""Rows of Parquet files, as one has them from JSON: the maps in them are objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.cli.messages.formats import as_text
from rmqspark.errors import DecodeError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    Convert = Callable[[Any], Any]

_ROWS: Final = 4_096  # held in memory at a time, some times over
_ROW_BYTES: Final = 8 << 20
_BUFFER_BYTES: Final = 1 << 20
_HAS_NO_VALUE = (ValueError, OverflowError)  # what Python says of text that is no Unicode, and of a time in no year


def read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    """Row by row. Raises DecodeError where the file is none, or is damaged, and of a value that Python has none for."""
    pa, parquet = arrow_and_parquet()
    count = 0
    try:
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER_BYTES) as opened:  # else all of it is kept
            check_heading(opened.schema_arrow.names, file)
            with_objects = _with_objects(pa, pa.struct(opened.schema_arrow))
            for batch in opened.iter_batches(batch_size=_rows_at_a_time(opened.metadata)):
                for row in _rows(batch, file, count):
                    yield with_objects(row)
                count += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's; Arrow's own, of pages that are damaged, have none
            raise
        raise DecodeError(f"{file} is no Parquet file that can be read: {str(error).rstrip('.')}.") from None


def check_heading(names: Sequence[str], file: Path) -> None:
    """Of two columns of one name readers of tables take the last without a word."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DecodeError(f"{file} has two columns {twice!r}.", hint="Rename one of them, or drop it.")


def arrow_and_parquet() -> tuple[Any, Any]:
    """The two modules. Raises MissingExtra."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("pyarrow", "spark") from None
    return pyarrow, parquet


def _rows_at_a_time(metadata: Any) -> int:
    """So many rows of the file's mean size as there is room for."""
    whole = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    fitting: int = _ROW_BYTES * metadata.num_rows // max(1, whole)
    return max(1, min(_ROWS, fitting))


def _rows(batch: Any, file: Path, before: int) -> Iterable[dict[str, Any]]:
    """Those of a batch, which has so many before it in the file: up to one that has a value that cannot be read."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except _HAS_NO_VALUE:
        return (_row(batch, number, f"{file}, row {before + number + 1}") for number in range(batch.num_rows))
    return rows


def _row(batch: Any, number: int, place: str) -> dict[str, Any]:
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[number].as_py()
        except _HAS_NO_VALUE as error:
            raise DecodeError(f"{place}: column {name!r} cannot be read: {error}.") from None
    return row


def _with_objects(pa: Any, kind: Any) -> Convert:
    """What makes an object of each map in a value of this type: Arrow hands it out as a list of pairs."""
    return _conversion(pa, kind) or (lambda value: value)


def _conversion(pa: Any, kind: Any) -> Convert | None:
    """The same; None where there is no map."""
    if pa.types.is_map(kind):
        of_item = _with_objects(pa, kind.item_type)
        return _unless_null(lambda pairs: {as_text(name): of_item(value) for name, value in pairs})
    if pa.types.is_struct(kind):
        of_fields = {field.name: convert for field in kind if (convert := _conversion(pa, field.type))}
        if not of_fields:
            return None
        return _unless_null(lambda row: row | {name: convert(row[name]) for name, convert in of_fields.items()})
    if any(is_list(kind) for is_list in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)):
        of_value = _conversion(pa, kind.value_type)
        return of_value and _unless_null(lambda items: [*map(of_value, items)])
    return None


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
