"""What becomes of messages that consumers send back."""

from __future__ import annotations

import pytest

from rmqspark.broker.delays.parking import place_of
from rmqspark.broker.redelivery import Redelivery, Returned
from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.broker.state.topics import TopicTable
from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, encode_properties
from rmqspark.protocol.records.record import Record, decode_record
from rmqspark.testing.manual_clock import ManualClock


class Bench:
    """A broker's tables, and one group that sends messages back."""

    def __init__(self, *, retry_queues: int = 1, topic_queues: int | None = None) -> None:
        self.topics = TopicTable(max_topics=9, now_ms=0)
        self.topics.put(TopicConfig(topicName="orders"), 0)
        groups = SubscriptionGroups(auto_create=True, max_groups=99, now_ms=0)
        groups.put(SubscriptionGroupConfig(groupName="g", retryQueueNums=retry_queues, retryMaxTimes=2), 0)
        if topic_queues is not None:
            self.topics.ensure_retry("g", topic_queues, 0)
        self.redelivery = Redelivery(self.topics, groups, ManualClock(), SystemEntropy(1), delay_levels=18)

    def send_back(
        self, times: int = 0, *, level: int = 0, max_times: int | None = None, properties: bytes = b""
    ) -> Returned:
        group = self.redelivery.group("g")
        assert group is not None
        record = Record(topic="orders", body=b"one", physical_offset=700, reconsume_times=times, properties=properties)
        return self.redelivery.of(record, group, level, max_times)


def stored(returned: Returned) -> Record:
    return decode_record(returned.draft.record)


@pytest.mark.parametrize(("times", "asked", "waits_at"), [(0, 0, 3), (1, 0, 4), (1, 9, 9)])
def test_a_message_waits_longer_each_time(times: int, asked: int, waits_at: int) -> None:
    """Unless its consumer asks for a level. It is for the group's retry topic then, and was consumed once more."""
    returned = Bench().send_back(times, level=asked)
    record = stored(returned)
    assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", waits_at - 1)
    assert place_of(record) == ("%RETRY%g", 0)
    assert record.reconsume_times == times + 1
    assert not returned.is_dead_letter


@pytest.mark.parametrize(("times", "level", "max_times"), [(2, 0, None), (1, 0, 1), (0, -1, None)])
def test_a_message_is_given_up(times: int, level: int, max_times: int | None) -> None:
    """After as many times as its group allows, or its consumer; or because that one says so."""
    bench = Bench()
    returned = bench.send_back(times, level=level, max_times=max_times)
    assert returned.is_dead_letter
    assert stored(returned).topic == "%DLQ%g"
    assert bench.topics.get("%DLQ%g") is not None


@pytest.mark.parametrize(("said", "waits_at"), [(-1, 3), (-3, 3), (-(2**31), 3), (2**31 - 1, 18)])
def test_how_often_it_was_consumed_may_be_anything(said: int, waits_at: int) -> None:
    """Whoever sent it said so: it waits as one that was never consumed, or as long as any, and is not refused, which
    would keep its group where it is. After as many times as a record can say it is a dead letter, too."""
    waits = stored(Bench().send_back(said, max_times=2**31)) if said > 0 else stored(Bench().send_back(said))
    assert (waits.topic, waits.queue_id) == ("SCHEDULE_TOPIC_XXXX", waits_at - 1)
    assert waits.reconsume_times == (1 if said < 0 else 2**31 - 1)
    assert stored(Bench().send_back(said, level=-1)).topic == "%DLQ%g"


@pytest.mark.parametrize(
    ("room_bytes", "is_told"),
    [(200, ["DELAY", "ORIGIN_MESSAGE_ID", "RETRY_TOPIC", "WAIT"]), (30, ["RETRY_TOPIC"]), (0, [])],
)
def test_a_dead_letter_says_what_it_has_room_for(room_bytes: int, is_told: list[str]) -> None:
    """Of where it came from; one that could not be given up would come again for ever."""
    properties = encode_properties({"p": "v" * (MAX_PROPERTIES_BYTES - 3 - room_bytes)})
    told = stored(Bench().send_back(level=-1, properties=properties)).property_map()
    assert len(told.pop("p")) == MAX_PROPERTIES_BYTES - 3 - room_bytes
    assert sorted(told) == is_told
    assert told.get("RETRY_TOPIC", "orders") == "orders"


@pytest.mark.parametrize("level", [0, -1])
def test_the_topic_is_made_once(level: int) -> None:
    """Only the first message that goes there has to wait until it is there to stay."""
    bench = Bench()
    assert [bench.send_back(level=level).is_topic_new for _ in range(2)] == [True, False]


def test_a_message_goes_to_a_queue_that_is_read() -> None:
    """Its group was given more queues for retries than the topic has, which was made before."""
    bench = Bench(retry_queues=8, topic_queues=2)
    assert {place_of(stored(bench.send_back())).queue_id for _ in range(32)} == {0, 1}


def test_a_group_without_queues_for_retries_wants_none() -> None:
    """As in RocketMQ what it sends back is dropped."""
    assert Bench(retry_queues=0).redelivery.group("g") is None


def test_a_message_is_counted_for_the_topic_it_was_sent_to() -> None:
    """Also when it comes back from the retry topic; not for one that is not there, which anybody can make up."""
    bench = Bench()
    names = {"RETRY_TOPIC\x01orders\x02": "orders", "RETRY_TOPIC\x01nowhere\x02": "%RETRY%g", "": "%RETRY%g"}
    for properties, origin in names.items():
        record = Record(topic="%RETRY%g", body=b"", properties=properties.encode())
        assert bench.redelivery.origin(record) == origin
