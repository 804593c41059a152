"""How a dead letter is sent again: what of it stays, and what was only of its first way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.administration.dead_letter_plan import LetterRange, ResendPlan
from rmqspark.client.administration.dead_letter_resends import resend, resend_header
from rmqspark.client.administration.dead_letters import dead_letter
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import Conflict, InvalidMessage, NoPermission
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.records.properties import encode_properties, parse_properties
from rmqspark.protocol.records.record import Record, SysFlag, encode_record
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close

if TYPE_CHECKING:
    from rmqspark.testing.scripted_peer import Step

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


BOUNDS = {"minOffset": "0", "maxOffset": "9", "suggestWhichBrokerId": "0"}
DLQ = MessageQueue("%DLQ%billing", "broker-0", 0)
PULL, SEND, COMMIT = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.UPDATE_CONSUMER_OFFSET
STORED = answer(msgId="OFFSET-ID", queueId="0", queueOffset="41")


def found(*offsets: int) -> Step:
    """A pull that brings the letters at these offsets."""
    records = b"".join(
        encode_record(topic=DLQ.topic, body=b"x", properties=encode_properties({"RETRY_TOPIC": "t"}), queue_offset=at)
        for at in offsets
    )
    return answer(body=records, nextBeginOffset=str(offsets[-1] + 1), **BOUNDS)


def moved(to: int, code: int = ResponseCode.PULL_OFFSET_MOVED) -> Step:
    return answer(code, nextBeginOffset=str(to), **BOUNDS)


def resent(start: int, end: int, *steps: Step) -> tuple[list[int], list[int]]:
    """Of [start, end), nothing of which was sent so far: the letters that were sent, and what was committed, of a
    broker that is asked and answers so."""
    names = [expect(RequestCode.GET_BROKER_CLUSTER_INFO)]
    plan = ResendPlan("billing", (LetterRange(DLQ, start, end),), {DLQ: start}, to_topic=True)
    with ScriptedPeer([*steps, wait_for_close()]) as broker:
        brokers = {DLQ.broker_name: BrokerData("c", DLQ.broker_name, {0: broker.address})}
        names.append(answer(body=ClusterInfo(brokers, {"c": [DLQ.broker_name]}).encode(standard=True)))
        with (
            ScriptedPeer([*names, wait_for_close()]) as namesrv,
            ClusterClient(namesrv.address, clock=ManualClock()) as client,
        ):
            letters = list(resend(client, plan))
    committed = [int(each.fields["commitOffset"]) for each in broker.requests if each.command.code == COMMIT]
    return [letter.message.queue_offset for letter in letters], committed


def test_letters_that_have_expired_meanwhile_leave_no_gap() -> None:
    """What is behind them counts as sent all the same, or all of it came again with the next resend."""
    first = (expect(PULL), moved(2), expect(PULL), found(2, 3, 5), expect(SEND), STORED, expect(COMMIT), answer())
    others = (expect(SEND), STORED, expect(SEND), STORED, expect(COMMIT), answer())
    assert resent(0, 6, *first, *others) == ([2, 3, 5], [3, 6])


def test_letters_behind_several_places_where_there_are_none() -> None:
    """A broker tells of one such place at a time; what is behind them all is sent."""
    none = (expect(PULL), moved(2, ResponseCode.PULL_RETRY_IMMEDIATELY), expect(PULL), moved(4))
    assert resent(0, 5, *none, expect(PULL), found(4), expect(SEND), STORED, expect(COMMIT), answer()) == ([4], [5])


def test_a_letter_that_is_refused_once_is_tried_again() -> None:
    """Of those that are sent together only that one: the others have arrived."""
    first = (expect(PULL), found(0, 1, 2), expect(SEND), STORED, expect(COMMIT), answer())
    busy = (expect(SEND), answer(ResponseCode.SYSTEM_BUSY), expect(SEND), STORED)
    assert resent(0, 3, *first, *busy, expect(SEND), STORED, expect(COMMIT), answer()) == ([0, 1, 2], [1, 3])


def test_a_resend_that_breaks_off_says_how_far_it_was() -> None:
    """How many were sent, how many of those come again, and why it was."""
    first = (expect(PULL), found(0, 1, 2, 3), expect(SEND), STORED, expect(COMMIT), answer())
    second = (expect(SEND), STORED, expect(SEND), answer(ResponseCode.MESSAGE_ILLEGAL, remark="Too long"))
    with pytest.raises(InvalidMessage) as failed:
        resent(0, 4, *first, *second, expect(SEND), STORED, expect(COMMIT), answer())
    assert failed.value.message == (
        "Too long. 2 of 4 dead letters were sent again; up to 1 behind the one that was not come again with it."
    )


def test_how_far_it_is_is_noted_patiently() -> None:
    """A broker that is started anew between the two has the letters, and the next resend sent them all again."""
    busy = (expect(COMMIT), answer(ResponseCode.SYSTEM_BUSY), expect(COMMIT), answer())
    first, second = (expect(PULL), found(0, 1), expect(SEND), STORED), (expect(SEND), STORED)
    assert resent(0, 2, *first, *busy, *second, expect(COMMIT), answer()) == ([0, 1], [1, 1, 2])


def test_a_resend_that_cannot_note_how_far_it_is_says_what_comes_again() -> None:
    """The broker has these letters all the same."""
    first = (expect(PULL), found(0, 1, 2), expect(SEND), STORED, expect(COMMIT), answer())
    others = (expect(SEND), STORED, expect(SEND), STORED)
    with pytest.raises(NoPermission) as failed:
        resent(0, 3, *first, *others, expect(COMMIT), answer(ResponseCode.NO_PERMISSION, remark="Not yours."))
    assert failed.value.message == (
        "Not yours. 3 of 3 dead letters were sent again; the last 2 come again, for how far that is cannot be noted."
    )


def test_letters_are_read_patiently() -> None:
    """As they are sent: while a broker is started anew, it breaks off neither."""
    first = (expect(PULL), answer(ResponseCode.SYSTEM_BUSY), expect(PULL), found(0))
    steps = (*first, expect(SEND), STORED, expect(COMMIT), answer())
    second = (expect(PULL), answer(ResponseCode.SYSTEM_BUSY), expect(PULL), found(1))
    assert resent(0, 2, *steps, *second, expect(SEND), STORED, expect(COMMIT), answer()) == ([0, 1], [1, 2])


def test_a_resend_that_can_read_no_more_says_how_far_it_was() -> None:
    """Whoever reads why it broke off need not count."""
    first = (expect(PULL), found(0), expect(SEND), STORED, expect(COMMIT), answer())
    with pytest.raises(NoPermission) as failed:
        resent(0, 2, *first, expect(PULL), answer(ResponseCode.NO_PERMISSION, remark="Not yours."))
    assert failed.value.message == "Not yours. 1 of 2 dead letters were sent again."
