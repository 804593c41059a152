"""From a request to a draft: what is derived from a message is what a rebuild would derive from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.delays.asked_delays import AskedDelays
from rmqspark.broker.sending.batches import MAX_KEYS
from rmqspark.broker.sending.intake import Intake
from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.broker.state.topics import TopicTable
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidMessage, InvalidName, RmqError
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.message_id import UniqueIds
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.store.draft import Draft

PEER = ("10.0.0.7", 4711)
NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "MSG_REGION", "CLUSTER", "POP_CK", "a", "b"]
# What a hostile or careless client may put between separators: doubled names, empty values, lost separators.
PROPERTIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["\x01", "", "\x01\x01"]), st.text("xyz \x01ü", max_size=6)).map(
        "".join
    ),
    max_size=8,
).map("\x02".join) | st.text(max_size=40)


def intake(max_body_bytes: int = 1000) -> Intake:
    topics = TopicTable(max_topics=9, now_ms=0)
    topics.put(TopicConfig(topicName="orders"), 0)
    topics.put(TopicConfig(topicName="many", topicFilterType="MULTI_TAG"), 0)
    config, clock = BrokerConfig(), ManualClock()
    return Intake(
        config,
        topics,
        SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0),
        AskedDelays(config, clock, levels=18, require_room=lambda: None),
        max_body_bytes=max_body_bytes,
        unique_ids=UniqueIds(b"abcd", 1, "127.0.0.1"),
        clock=clock,
        entropy=SystemEntropy(1),
    )


def header(properties: str | None = None, *, topic: str = "orders", flags: int = 0) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2("p", topic, "TBW102", 4, 0, flags, 5, 0, properties)


def test_a_batch_of_keys_is_refused() -> None:
    """A batch that is nothing but keys cannot keep a broker busy for seconds and take half a gigabyte."""
    takes = intake(max_body_bytes=1 << 22)
    element = BatchElement(b"x", b"KEYS\x01" + b" ".join([b"k"] * 16_000) + b"\x02")
    fitting = MAX_KEYS // 16_000
    batch = takes.admit_batch(header(), memoryview(encode_batch([element] * fitting)), PEER)
    assert len(batch.drafts()) == fitting
    one_more = takes.admit_batch(header(), memoryview(encode_batch([element] * (fitting + 1))), PEER)
    with pytest.raises(InvalidMessage, match="keys"):
        one_more.drafts()


@pytest.mark.parametrize("properties", ["UNIQ_KEY\x01U\x02", "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01U\x02"])
def test_what_is_no_topic_name_is_refused_although_there_is_such_a_topic(properties: str) -> None:
    """A broker's own, which may be that of a host. A half message for it could never be committed."""
    takes = intake()
    takes._topics.add_system_topics([TopicConfig(topicName="broker.host")], 0)
    with pytest.raises(InvalidName):
        takes.admit(header(properties, topic="broker.host"), memoryview(b"body"), PEER)
    with pytest.raises(InvalidName):
        takes.admit_batch(header(topic="broker.host"), memoryview(encode_batch([BatchElement(b"x")])), PEER)


def check_derived(draft: Draft) -> None:
    properties = decode_record(draft.record).property_map()
    assert draft.tags_code == tags_code(properties.get("TAGS"))
    keys = [key for key in properties.get("KEYS", "").split(" ") if key]
    assert list(draft.index_keys) == [*filter(None, [properties.get("UNIQ_KEY")]), *keys]


@given(PROPERTIES)
def test_tags_and_keys_of_a_draft_are_those_of_its_record(properties: str) -> None:
    """Whatever a client sends as properties, queue and index say what recovery would make of the record."""
    admitted = intake().admit(header(properties), memoryview(b"body"), PEER)
    check_derived(admitted)
    stored = decode_record(admitted.record).property_map()
    assert stored["UNIQ_KEY"] == admitted.transaction_id
    assert (stored["CLUSTER"], stored["MSG_REGION"], stored["TRACE_ON"]) == ("DefaultCluster", "DefaultRegion", "true")
    assert "POP_CK" not in stored


@given(PROPERTIES, st.lists(PROPERTIES, min_size=1, max_size=3))
def test_tags_and_keys_of_a_batch_are_those_of_its_records(shared: str, own: list[str]) -> None:
    """Each message's own properties, then the request's: of two with one name the last counts, as for every reader."""
    body = encode_batch([BatchElement(b"x", text.encode("utf-8", "replace")) for text in own])
    for draft in intake().admit_batch(header(shared), memoryview(body), PEER).drafts():
        check_derived(draft)


@given(st.binary(max_size=200))
def test_any_bytes_as_a_batch_are_messages_or_an_error(body: bytes) -> None:
    """Never an exception that is a bug of ours."""
    try:
        for draft in intake().admit_batch(header(), memoryview(body), PEER).drafts():
            check_derived(draft)
    except RmqError:
        pass


@pytest.mark.parametrize(
    ("peer", "host", "flags"),
    [
        (("10.0.0.7", 4711), bytes([10, 0, 0, 7]) + (4711).to_bytes(4, "big"), 0),
        (("::1", 4711), bytes(15) + b"\x01" + (4711).to_bytes(4, "big"), SysFlag.BORN_HOST_V6),
    ],
)
def test_the_born_host_is_where_the_connection_came_from(peer, host, flags) -> None:
    """And the flag for its width is the broker's, whatever the sender claims."""
    record = decode_record(intake().admit(header(flags=SysFlag.HOSTS_MASK), memoryview(b"x"), peer).record)
    assert (record.born_host, record.sys_flag) == (host, flags)


def test_topics_of_many_tags_mark_their_messages() -> None:
    """Bit 2 of the sys flag, as RocketMQ sets it."""
    record = decode_record(intake().admit(header(topic="many", flags=1), memoryview(b"x"), PEER).record)
    assert record.sys_flag == SysFlag.COMPRESSED | SysFlag.MULTI_TAGS


@pytest.mark.parametrize(("text", "waits"), [(None, True), ("WAIT\x01true\x02", True), ("WAIT\x01false\x02", False)])
def test_a_message_waits_for_its_flush_unless_it_says_otherwise(text, waits) -> None:
    """Property WAIT."""
    assert intake().admit(header(text), memoryview(b"x"), PEER).waits_for_flush is waits
