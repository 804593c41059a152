"""Batches: made into records together they are, byte for byte, what they are message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.sending.batches import Batch, records_of
from rmqspark.broker.sending.drafting import Origin
from rmqspark.errors import RmqError
from rmqspark.protocol.buffers.spans import as_bytes
from rmqspark.protocol.records.batch import BatchElement, decode_batch, encode_batch
from rmqspark.protocol.records.batch_columns import batch_columns
from rmqspark.protocol.records.batch_tables import ElementTable
from rmqspark.protocol.records.record_batch import RecordBatch

ELEMENTS = st.builds(
    BatchElement,
    st.binary(max_size=40) | st.just(b"always the same length"),
    st.sampled_from([b"", b"TAGS\x01a\x02UNIQ_KEY\x010123456789abcdef\x02", b"KEYS\x01a b", b"a\x01b\x02"]),
    st.integers(-(2**31), 2**31 - 1),
)


def origin(port: int = 4711, queue_id: int = 3, **other: object) -> Origin:
    fields = {"sys_flag": 0x301, "born_timestamp_ms": 1_700_000_000_000 + port, "reconsume_times": 0} | other
    return Origin("orders", queue_id, born_host=bytes([10, 0, 0, 7]) + port.to_bytes(4, "big"), **fields)  # type: ignore[arg-type]


def batch(body: bytes, port: int = 4711, **other: object) -> Batch:
    return Batch(origin(port, **other), body, "", waits_for_flush=True)


@given(st.lists(st.lists(ELEMENTS, min_size=1, max_size=6), min_size=1, max_size=5))
def test_records_of_several_batches_are_those_of_each_message(requests: list[list[BatchElement]]) -> None:
    """Whether a broker is busy or idle, a batch leaves the same bytes in the log."""
    batches = [batch(encode_batch(elements), n, queue_id=n // 2) for n, elements in enumerate(requests)]
    found = records_of(batches)
    assert found is not None
    lengths = [len(elements) for elements in requests]
    assert found.counts == lengths
    pairs = [lengths[first : first + 2] for first in range(0, len(lengths), 2)]
    assert found.runs(batches) == [("orders", queue_id, sum(pair)) for queue_id, pair in enumerate(pairs)]
    one_by_one = b"".join(bytes(draft.record) for each in batches for draft in each.drafts())
    assert found.records.buffer.tobytes() == one_by_one


def alike(body_bytes: int, properties_bytes: int) -> st.SearchStrategy[list[BatchElement]]:
    """Messages of one size; what stands in their properties may be ones, or not."""
    element = st.builds(
        BatchElement,
        st.binary(min_size=body_bytes, max_size=body_bytes),
        st.text("a\x01\x02", min_size=properties_bytes, max_size=properties_bytes).map(str.encode)
        | st.just(b"TAGS\x01abcdefg\x02"[-properties_bytes:] if properties_bytes else b""),
        st.integers(-(2**31), 2**31 - 1),
    )
    return st.lists(element, min_size=1, max_size=4)


@given(st.data(), st.integers(0, 9), st.integers(0, 13), st.integers(1, 4))
def test_messages_of_one_size_are_those_of_each_message(
    data: st.DataObject, body_bytes: int, properties_bytes: int, count: int
) -> None:
    """The quick way for batches of a producer whose messages are alike leaves the same bytes, too."""
    requests = [data.draw(alike(body_bytes, properties_bytes)) for _ in range(count)]
    batches = [batch(encode_batch(elements), n, queue_id=n // 2) for n, elements in enumerate(requests)]
    found = records_of(batches)
    assert found is not None
    assert found.counts == [len(elements) for elements in requests]
    one_by_one = b"".join(bytes(draft.record) for each in batches for draft in each.drafts())
    assert found.records.buffer.tobytes() == one_by_one
    as_read = RecordBatch.scan(one_by_one)
    for name in (b"TAGS", b"a"):
        assert [spans.tolist() for spans in found.records.property_spans(name)] == [
            spans.tolist() for spans in as_read.property_spans(name)
        ]


def test_long_messages_of_one_size_are_not_remembered() -> None:
    """What a broker keeps of the batches it has seen does not grow with their messages."""
    elements = [BatchElement(bytes(1 << 20), b"a\x01b\x02")] * 2
    assert ElementTable.find(as_bytes(encode_batch(elements))) is None
    found = records_of([batch(encode_batch(elements))])
    assert found is not None
    assert found.records.bodies.lengths.tolist() == [1 << 20] * 2


def test_one_message_unlike_the_others_is_not_made_like_them() -> None:
    """Sizes that add up do not say that messages are alike."""
    one = [BatchElement(b"body", b"a\x01bb\x02"), BatchElement(b"bodies", b"a\x01\x02")]
    other = [BatchElement(b"body", b"a\x01bb\x02"), BatchElement(b"a body more", b"a\x01b\x02"[:1])]
    for elements in (one, other, [*one, *other], one[::-1]):
        found = records_of([batch(encode_batch(elements))])
        assert found is not None
        assert found.records.bodies.lengths.tolist() == [len(element.body) for element in elements]


SOUND = encode_batch([BatchElement(b"one"), BatchElement(b"two", b"TAGS\x01a\x02")])
UNUSUAL = [
    batch(b""),
    batch(SOUND[:-1]),
    batch(SOUND + bytes(3)),
    batch(encode_batch([BatchElement(b"late", b"DELAY\x013\x02")])),
    batch(encode_batch([BatchElement(b"half", b"TRAN_MSG\x01true\x02")])),
    batch(SOUND, reconsume_times=1),
    Batch(Origin("orders", 3, 0, bytes(20), 5, 0), SOUND, "", waits_for_flush=True),
]


@pytest.mark.parametrize("unusual", UNUSUAL)
@pytest.mark.parametrize("first", [True, False])
def test_a_batch_with_anything_unusual_is_looked_at_by_itself(unusual: Batch, first: bool) -> None:
    """What is wrong with one request is not blamed on another that came in the same moment."""
    sound = batch(SOUND)
    assert records_of([unusual, sound] if first else [sound, unusual]) is None


def test_two_halves_of_a_message_do_not_make_one() -> None:
    """A message never consists of the bytes of two requests."""
    assert records_of([batch(SOUND[:30]), batch(SOUND[30:])]) is None


@given(st.binary(max_size=120) | st.lists(ELEMENTS, max_size=3).map(encode_batch), st.data())
def test_columns_are_read_where_elements_are(body: bytes, data: st.DataObject) -> None:
    """The vectorised reading accepts what the reading one by one accepts, and finds the same."""
    if body and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(body) - 1))
        body = body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    try:
        elements = decode_batch(body)
    except RmqError:
        with pytest.raises(RmqError):
            batch_columns(as_bytes(body))
        return
    columns = batch_columns(as_bytes(body))
    assert columns.flags.tolist() == [element.flag for element in elements]
    for spans, values in (
        (columns.bodies, [bytes(element.body) for element in elements]),
        (columns.properties, [element.properties for element in elements]),
    ):
        found = [body[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
        assert found == values
