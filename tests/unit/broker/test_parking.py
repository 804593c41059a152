"""Where delayed messages wait, and what they say of where they belong."""

from __future__ import annotations

import pytest

from rmqspark.broker.delays.parking import Place, delivered_draft, park, place_of, source_of
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.properties import decode_properties, encode_properties
from rmqspark.protocol.records.record import Record, decode_record, encode_record


def waiting(properties: dict[str, str]) -> Record:
    encoded = encode_properties(properties)
    return decode_record(encode_record(topic=SCHEDULE_TOPIC, body=b"x", properties=encoded, physical_offset=700))


@pytest.mark.parametrize("level", [1, 3, 18])
def test_what_waits_says_where_it_belongs(level: int) -> None:
    """And goes there as it is; what else its sender said stays as it was, in its order."""
    sent = encode_properties({"KEYS": "k", "DELAY": "7", "REAL_TOPIC": "a lie", "UNIQ_KEY": "U"})
    parked = park(Place("orders", 2), sent, level, 18)
    assert (parked.topic, parked.queue_id) == (SCHEDULE_TOPIC, level - 1)
    said = decode_properties(parked.properties)
    assert list(said.items())[:2] == [("KEYS", "k"), ("UNIQ_KEY", "U")]
    assert said == {"KEYS": "k", "UNIQ_KEY": "U", "DELAY": str(level), "REAL_TOPIC": "orders", "REAL_QID": "2"}
    record = waiting(said)
    assert place_of(record) == ("orders", 2)
    delivered = decode_record(bytes(delivered_draft(record, place_of(record)).record))
    assert (delivered.topic, delivered.queue_id, delivered.property_map()) == ("orders", 2, said)
    assert delivered.prepared_transaction_offset == source_of(700) == 701


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_QID": "2"},
        {"REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "two"},
        {"REAL_TOPIC": "orders", "REAL_QID": "2147483648"},
        {"REAL_TOPIC": "orders", "REAL_QID": "٣"},
        {"REAL_TOPIC": "../orders", "REAL_QID": "2"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
        {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
    ],
)
def test_a_record_that_says_it_wrongly_is_none(said: dict[str, str]) -> None:
    """A store may have been written by others: what cannot be delivered is refused, not tried."""
    with pytest.raises(InvalidArgument):
        place_of(waiting(said))
