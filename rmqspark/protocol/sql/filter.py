"""SQL92 expressions that choose messages: read once, then asked about one message or about thousands."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import InvalidFilter, RecordError
from rmqspark.protocol.filters import MAX_SQL_BYTES
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.sql.compiled import Row, compile_tree
from rmqspark.protocol.sql.syntax import MAX_DEPTH, parse, too_deep
from rmqspark.protocol.sql.tree import Property, children
from rmqspark.protocol.sql.values import NotComparable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Spans
    from rmqspark.protocol.sql.compiled import Evaluation
    from rmqspark.protocol.sql.tree import Node

# Expressions that are kept, with the functions made of them: those take a hundred times as much memory as the text.
_SHORT_BYTES: Final = 512
_KEPT_SHORT: Final = 256
_KEPT_LONG: Final = 32


class SqlFilter:
    """An expression, ready to be asked. `names` are the properties it looks at; `cost`, how many steps it has."""

    def __init__(self, expression: str, tree: Node) -> None:
        self.expression: Final = expression
        nodes = list(_nodes(tree))
        self.cost: Final = len(nodes)
        self.names: Final = tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, Property)))
        self._evaluate: Final[Evaluation] = compile_tree(tree, {name: at for at, name in enumerate(self.names)})

    @classmethod
    def parse(cls, expression: str | None, *, whole: bool = False) -> SqlFilter:
        """Reads an expression. Raises InvalidFilter, which names the place of the mistake or the limit passed.

        RocketMQ ignores what follows a whole expression. That is an error with `whole`, for whoever has just typed it.
        Limits: 4 KiB, 512 values in a list, and 64 levels of NOT, brackets and comparisons of comparisons.
        """
        if expression is None or not expression.strip():
            raise InvalidFilter("The SQL92 expression is empty.", hint="For example: price > 10 AND region = 'EU'")
        size = len(expression.encode("utf-8", "surrogatepass"))
        if size > MAX_SQL_BYTES:
            raise InvalidFilter(f"A SQL92 expression of {size} bytes is over the limit of {MAX_SQL_BYTES}.")
        return (_parsed if size <= _SHORT_BYTES else _parsed_long)(expression, whole)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """What the expression says of a message with these properties. Raises NotComparable."""
        verdict: bool | None = self._evaluate([properties.get(name) for name in self.names])
        return verdict

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether such a message is wanted: null is no, and so is what cannot be compared."""
        return self._accepts([properties.get(name) for name in self.names])

    def matching(self, records: RecordBatch) -> NDArray[np.bool_]:
        """Which of the records are wanted. What cannot be read as a record is not.

        Properties are found in all records at once, and each combination of values is evaluated once.
        """
        try:
            return self._matching(records)
        except RecordError:  # one at least is damaged
            if len(records) == 1:
                return np.zeros(1, np.bool_)
            return np.concatenate([self.matching(half) for half in _halves(records)])

    def _matching(self, records: RecordBatch) -> NDArray[np.bool_]:
        if not self.names:
            return np.full(len(records), self._accepts(()))
        if not len(records):
            return np.empty(0, np.bool_)
        raw = records.buffer.tobytes()
        columns = [_values(raw, records.property_spans(name.encode())) for name in self.names]
        if len(columns) == 1:
            verdicts = {value: self._accepts((_text(value),)) for value in set(columns[0])}
            return np.fromiter(map(verdicts.__getitem__, columns[0]), np.bool_, len(records))
        rows = list(zip(*columns, strict=True))
        verdict_of = {row: self._accepts([_text(value) for value in row]) for row in set(rows)}
        return np.fromiter(map(verdict_of.__getitem__, rows), np.bool_, len(records))

    def _accepts(self, row: Row) -> bool:
        try:
            return self._evaluate(row) is True
        except NotComparable:
            return False


def _read(expression: str, whole: bool) -> SqlFilter:
    return SqlFilter(expression, parse(expression, whole=whole))


_parsed = lru_cache(maxsize=_KEPT_SHORT)(_read)
_parsed_long = lru_cache(maxsize=_KEPT_LONG)(_read)


def _nodes(tree: Node) -> Iterator[Node]:
    """All nodes, without a call for each level: how many there are is only known afterwards."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise too_deep(node.at)
        yield node
        waiting += [(child, depth + 1) for child in children(node)]


def _halves(records: RecordBatch) -> Iterator[RecordBatch]:
    """Two or more records as two batches, each with its own part of the buffer."""
    middle = len(records) // 2
    for rows in (slice(middle), slice(middle, None)):
        positions, sizes = records.positions[rows], records.sizes[rows]
        begin, end = int(positions.min()), int((positions + sizes).max())
        yield RecordBatch(records.buffer[begin:end], positions - begin, sizes)


def _values(raw: bytes, spans: Spans) -> list[bytes | None]:
    """The pieces of a buffer; None where there is none."""
    places = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return [raw[start:end] if end >= start else None for start, end in places]


def _text(value: bytes | None) -> str | None:
    return None if value is None else str(value, "utf-8", "replace")
