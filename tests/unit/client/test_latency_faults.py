"""Which brokers producers leave alone, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.sending.latency_faults import LatencyFaults, not_available_ms
from rmqspark.model import MessageQueue

QUEUES = tuple(MessageQueue("t", broker, queue_id) for broker in ("a", "b", "c") for queue_id in range(2))


def brokers(faults: LatencyFaults, now_ms: int, avoid: str | None = None) -> set[str]:
    return {queue.broker_name for queue in faults.preferred(QUEUES, now_ms, avoid)}


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (0, 0),
        (49, 0),
        (50, 0),
        (100, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (10_000, 10_000),  # what a failure counts as
        (15_000, 30_000),
        (3_600_000, 30_000),
    ],
)
def test_slowness_is_weighed_as_rocketmq_does(latency_ms: int, pause_ms: int) -> None:
    """The tables are those of RocketMQ 5's MQFaultStrategy."""
    assert not_available_ms(latency_ms) == pause_ms


def test_a_broker_that_failed_is_left_alone_for_ten_seconds() -> None:
    """Then it is used again, without anybody having to say so."""
    faults = LatencyFaults(avoid_slow=False)
    faults.failed("a", 1_000)
    assert brokers(faults, 1_000) == brokers(faults, 10_999) == {"b", "c"}
    assert brokers(faults, 11_000) == {"a", "b", "c"}


def test_a_broker_that_answers_is_back_at_once() -> None:
    """A message that had to go there and arrived proves that it is well."""
    faults = LatencyFaults(avoid_slow=False)
    faults.failed("a", 0)
    faults.answered("a", 700, 5)
    assert brokers(faults, 5) == {"a", "b", "c"}


def test_slow_brokers_are_left_alone_only_where_asked_for() -> None:
    """sendLatencyFaultEnable is off by default, as in RocketMQ."""
    for avoid_slow, left in ((False, {"a", "b", "c"}), (True, {"b", "c"})):
        faults = LatencyFaults(avoid_slow=avoid_slow)
        faults.answered("a", 600, 0)
        assert brokers(faults, 1_999) == left
        assert brokers(faults, 2_000) == {"a", "b", "c"}


def test_the_broker_of_the_try_before_is_the_last_resort() -> None:
    """A second try goes to another broker even if that one failed some time ago; with one broker there is no choice."""
    faults = LatencyFaults(avoid_slow=False)
    for broker in ("a", "b", "c"):
        faults.failed(broker, 0)
    assert brokers(faults, 1, avoid="a") == {"b", "c"}
    assert brokers(faults, 1) == {"a", "b", "c"}
    assert faults.preferred(QUEUES[:2], 1, "a") == QUEUES[:2]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 20_000)), max_size=30), st.booleans())
def test_there_is_always_a_queue(events: list[tuple[str, bool, int]], avoid_slow: bool) -> None:
    """Whatever went wrong before, a message has somewhere to go, and after half a minute every broker is back."""
    faults = LatencyFaults(avoid_slow=avoid_slow)
    now_ms = 0
    for broker, well, took_ms in events:
        now_ms += took_ms
        if well:
            faults.answered(broker, took_ms, now_ms)
        else:
            faults.failed(broker, now_ms)
        assert brokers(faults, now_ms, avoid=broker) - {broker}
    assert brokers(faults, now_ms + 30_000) == {"a", "b", "c"}


def test_brokers_that_never_answer_again_are_forgotten() -> None:
    """They may come under a new name each time."""
    faults = LatencyFaults(avoid_slow=False)
    for number in range(100):
        faults.failed(f"broker-{number}", number * 5_000)
    assert list(faults._until_ms) == ["broker-98", "broker-99"]
