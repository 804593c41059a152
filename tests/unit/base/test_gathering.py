"""Several of Spark's batches as one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.gathering import gathered

ROW_BYTES = 8


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"number": pa.array(range(first, first + rows), pa.int64())})


@given(sizes=st.lists(st.integers(0, 9), max_size=12), most_rows=st.integers(0, 20))
def test_rows_keep_their_order_in_as_few_batches_as_fit(sizes: list[int], most_rows: int) -> None:
    """Whatever Spark hands out, each row is there once and in its place, and what could be one batch is."""
    firsts = [sum(sizes[:at]) for at in range(len(sizes))]
    given_batches = [batch(first, rows) for first, rows in zip(firsts, sizes, strict=True)]
    found = list(gathered(given_batches, lambda _: most_rows * ROW_BYTES))
    assert [number for rows in found for number in rows["number"].to_pylist()] == list(range(sum(sizes)))
    assert [one.num_rows for one in found] == filled(sizes, most_rows)


def filled(sizes: list[int], most: int) -> list[int]:
    """What each batch holds when the next one is begun only where the rows do not fit into the one before."""
    sums: list[int] = []
    for size in sizes:
        if sums and sums[-1] + size <= most:
            sums[-1] += size
        else:
            sums.append(size)
    return sums


def test_a_batch_alone_is_handed_on_as_it_is() -> None:
    """Nothing is copied where nothing is joined, nor a batch cut that is larger than asked for."""
    large = batch(0, 100)
    assert list(gathered([large], lambda _: ROW_BYTES)) == [large]
    (found,) = gathered([large], lambda _: 10_000)
    assert found is large


def test_batches_come_as_soon_as_they_are_full() -> None:
    """A task holds no more of its input than it works on."""
    taken = 0

    def batches() -> pa.RecordBatch:
        nonlocal taken
        for first in range(0, 100, 10):
            taken += 1
            yield batch(first, 10)

    first = next(gathered(batches(), lambda _: 20 * ROW_BYTES))
    assert first.num_rows == 20
    assert taken == 3
