"""How a dead letter is sent again: what of it stays, and what was only of its first way."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.client.dead_letter_resends import ResendPlan, resend_header
from rmqspark.client.dead_letters import dead_letter
from rmqspark.errors import Conflict
from rmqspark.protocol.records.properties import encode_properties, parse_properties
from rmqspark.protocol.records.record import Record, SysFlag

DEAD = {
    "TAGS": "paid",
    "KEYS": "k1 k2",
    "UNIQ_KEY": "7F0000010A3B18B4AAC25E0BE0F50007",
    "RETRY_TOPIC": "orders",
    "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000000000",
    "DELAY": "0",
    "WAIT": "false",
    "REAL_TOPIC": "%RETRY%billing",
    "REAL_QID": "0",
    "TRAN_MSG": "true",
    "TIMER_DELIVER_MS": "1700000000000",
    "price": "12",
}


def record(properties: dict[str, str] = DEAD, **fields: Any) -> Record:
    return Record(topic="%DLQ%billing", body=b"x", properties=encode_properties(properties), **fields)


def test_a_letter_is_a_message_that_was_never_consumed() -> None:
    """No delay, no transaction, no deliver time of its own comes along, and the answer waits for the flush."""
    header = resend_header(record(reconsume_times=17, flag=7, born_timestamp_ms=5), ResendPlan("billing", (), {}), "b")
    assert (header.b, header.e, header.g, header.h, header.j, header.l) == ("%RETRY%billing", -1, 5, 7, 0, None)
    kept = ("TAGS", "KEYS", "UNIQ_KEY", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "price")
    assert parse_properties(header.i or "") == {name: DEAD[name] for name in kept}


def test_a_compressed_body_stays_as_it_is() -> None:
    """So its flags go along; those of transactions and addresses do not."""
    compressed = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    letter = record(sys_flag=compressed | SysFlag.COMMITTED | SysFlag.BORN_HOST_V6)
    assert resend_header(letter, ResendPlan("billing", (), {}), "b").f == compressed


def test_to_the_original_topic() -> None:
    """As any message of it; where nothing names the topic, that is said."""
    plan = ResendPlan("billing", (), {}, to_topic=True)
    header = resend_header(record(), plan, "b")
    assert header.b == "orders"
    assert {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID"}.isdisjoint(parse_properties(header.i or ""))
    assert resend_header(record({"DLQ_ORIGIN_TOPIC": "from-a-proxy"}), plan, "b").b == "from-a-proxy"
    with pytest.raises(Conflict, match="Nothing says in which topic dead letter 3 of broker b was"):
        resend_header(record({"TAGS": "paid"}, queue_offset=3), plan, "b")
    assert resend_header(record({"TAGS": "paid"}), ResendPlan("billing", (), {}), "b").i == "TAGS\x01paid\x02"


@pytest.mark.parametrize(("times", "reason"), [(17, "all retries used up"), (16, "given up by its consumer")])
def test_why_a_letter_is_dead(times: int, reason: str) -> None:
    """As far as the broker wrote it down: by how often it was tried."""
    letter = dead_letter(record(reconsume_times=times), "b", 16, is_resent=False)
    assert (letter.reason, letter.topic, letter.tries) == (reason, "orders", times)
