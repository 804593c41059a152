"""Tags, keys and sharding keys that travel beside bodies: less on the way, the same properties in the log."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import AS_ROWS_WITH_PROPERTIES, BulkRows, records_of_rows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.message_id import unique_id
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.unique_keys import IdRange

PREFIX = "7F0000011F9018B4AAC2"
AHEAD = 52 + 2 * 4  # of the properties of two rows with bodies of one length
Row = tuple[bytes, str, str, str]  # body, tags, keys, sharding key
words = st.text("abä ", max_size=9) | st.just("same")
rows_strategy = st.lists(st.tuples(st.binary(min_size=1, max_size=30), words, words, words), min_size=1, max_size=12)


def column(values: list[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))


def bulk_of(rows: list[Row], first: int = 7) -> BulkRows:
    bodies, *others = (
        column([v.encode() if isinstance(v, str) else v for v in each]) for each in zip(*rows, strict=True)
    )
    crcs = body_crcs(bodies.values, bodies.spans())
    return BulkRows(9, bytes(8), 0, IdRange(PREFIX, first), crcs, bodies, RowProperties.of(len(rows), *others))


def encoded(rows: BulkRows) -> bytes:
    return b"".join(part.tobytes() for part in rows.encode())


def one_by_one(rows: list[Row], first: int = 7, **fields: int) -> list[bytes]:
    """What a sender of single messages would have stored."""
    return [
        bytes(
            encode_record(
                topic="orders",
                body=body,
                queue_id=3,
                properties=encode_properties(
                    {
                        name: value
                        for name, value in {
                            "TAGS": tags,
                            "KEYS": keys,
                            "UNIQ_KEY": unique_id(PREFIX, number),
                            "__SHARDINGKEY": sharding_key,
                        }.items()
                        if value
                    }
                ),
                born_timestamp_ms=9,
                **fields,
            )
        )
        for number, (body, tags, keys, sharding_key) in enumerate(rows, first)
    ]


@pytest.mark.property
@given(rows_strategy, st.sampled_from([(), (1,), (2,), (3,), (1, 2, 3)]), st.booleans())
def test_what_arrives_stands_for_the_same_records(rows: list[Row], alike: tuple[int, ...], even: bool) -> None:
    """Whatever rows have or have not, of one length or of several: the records that one by one would have given."""
    rows = [tuple(rows[0][at] if at in alike else value for at, value in enumerate(row)) for row in rows]  # type: ignore[misc]
    if even:
        rows = [(body.ljust(30, b"."), *others) for body, *others in rows]
    arrived = BulkRows.decode(memoryview(encoded(bulk_of(rows))), len(rows), AS_ROWS_WITH_PROPERTIES)
    expected = one_by_one(rows)
    records = arrived.records("orders", 3)
    assert records.buffer.tobytes() == b"".join(expected)
    assert records.sizes.tolist() == [len(record) for record in expected]
    assert arrived.records_bytes("orders") == len(records.buffer)
    assert arrived.properties is not None
    assert arrived.properties.have_tags == any(tags for _, tags, _, _ in rows)
    assert (arrived.properties.most_encoded_bytes() >= arrived.properties.encoded_bytes()).all()
    assert len(encoded(arrived)) <= 52 + 12 + sum(
        len(body) + 8 + sent
        for (body, *_), sent in zip(rows, arrived.properties.most_sent_bytes().tolist(), strict=True)
    )
    rest = arrived.skip(len(rows) // 2)
    assert rest.records("orders", 3).buffer.tobytes() == b"".join(expected[len(rows) // 2 :])


@given(rows_strategy, rows_strategy)
def test_bulks_become_records_together(rows: list[Row], others: list[Row]) -> None:
    """Rows of several senders, with and without properties, as messages of committed half batches."""
    bare = bulk_of(others, 3)._replace(properties=None)
    bulks = [bulk_of(rows), bare, bulk_of(others, 99).skip(len(others) // 2)]
    together = records_of_rows("orders", [3, 3, 3], bulks, half_offsets=[5, 6, 7])
    committed = {"sys_flag": int(SysFlag.COMMITTED)}
    expected = [
        *one_by_one(rows, prepared_transaction_offset=5, **committed),
        *one_by_one([(body, "", "", "") for body, *_ in others], 3, prepared_transaction_offset=6, **committed),
        *one_by_one(others, 99, prepared_transaction_offset=7, **committed)[len(others) // 2 :],
    ]
    assert together.buffer.tobytes() == b"".join(expected)


def test_values_go_out_from_where_they_lie() -> None:
    """Nothing of a value is copied to send it."""
    rows = bulk_of([(b"aa", "t", "k", "s"), (b"bb", "t", "k2", "s")])
    assert rows.properties is not None
    *_, tags, keys, sharding_keys, bodies = rows.encode()
    assert np.shares_memory(bodies, rows.bodies.values)
    for part, pieces in zip((tags, keys, sharding_keys), rows.properties, strict=True):
        assert np.shares_memory(part, pieces.values)


@pytest.mark.parametrize(
    ("values", "plain"),
    [(b"tag", True), (b"a\x01b", False), (b"a\x02b", False), (b"\x00\x03\xff", True), (b"k" * 32_000, True),
     (b"k" * 32_767, False)],
)  # fmt: skip
def test_values_that_do_not_travel_in_columns(values: bytes, plain: bool) -> None:
    """Separators would forge properties, and a record has room for so much only."""
    assert RowProperties.of(2, keys=column([b"", values])).are_plain() == plain


def changed(at: int, new: bytes, rows: list[Row]) -> bytes:
    raw = bytearray(encoded(bulk_of(rows)))
    raw[AHEAD + at : AHEAD + at + len(new)] = new
    return bytes(raw)


EVEN: list[Row] = [(b"aaa", "t1", "k", "s"), (b"bbb", "t2", "k", "s")]
UNEVEN: list[Row] = [(b"aaa", "t1", "k", "s"), (b"bbb", "t", "kk", "s")]


@pytest.mark.parametrize(
    ("raw", "story"),
    [
        (encoded(bulk_of(EVEN))[: AHEAD + 11], "widths are missing"),
        (encoded(bulk_of(EVEN))[: AHEAD + 12], "values are missing"),
        (encoded(bulk_of(UNEVEN))[: AHEAD + 15], "lengths are missing"),
        (encoded(bulk_of(UNEVEN))[: AHEAD + 19], "lengths are missing"),
        (encoded(bulk_of(EVEN))[:-1], "do not fill"),
        (encoded(bulk_of(EVEN)) + b"?", "do not fill"),
        (changed(0, struct.pack(">i", -2), EVEN), "values of -2 bytes"),
        (changed(4, struct.pack(">i", 32_768), EVEN), "values of 32768 bytes"),
        (changed(4, struct.pack(">i", 32_767), EVEN), "values are missing"),
        (changed(12, struct.pack(">H", 65_535), UNEVEN), "values are missing"),
        (changed(12, b"\x01", EVEN), "a separator"),
        (changed(15, b"\x02", EVEN), "a separator"),
        (changed(12, struct.pack(">H", 1), UNEVEN), "do not fill"),
        (encoded(bulk_of([(b"aaa", "t" * 16_000, "k" * 16_800, "s"), (b"bbb", "", "", "")])), "no room"),
        (encoded(bulk_of(EVEN)._replace(properties=None)), "widths are missing|values of"),
    ],
)
def test_what_are_no_properties(raw: bytes, story: str) -> None:
    """Widths, lengths and values that cannot be are named, whatever they would ask for in memory."""
    with pytest.raises(RecordError, match=story):
        BulkRows.decode(memoryview(raw), 2, AS_ROWS_WITH_PROPERTIES)


@given(st.binary(max_size=80), st.integers(1, 4))
def test_any_bytes(raw: bytes, count: int) -> None:
    """Any bytes are properties, or a RecordError."""
    try:
        found, rest = RowProperties.decode(memoryview(raw), count)
    except RecordError:
        return
    assert len(found.encoded_bytes()) == count
    assert len(rest) < len(raw)
