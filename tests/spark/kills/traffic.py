"""What is copied from topic to topic, and the comparison of both."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.model import MessageQueue, ReceivedMessage

    from .victims import CopyDriver

KEYS = 40


def send(namesrv: str, numbers: range) -> None:
    """One message for each number, ordered by key."""
    with Producer(namesrv) as producer:
        keys = [f"key-{number % KEYS}" for number in numbers]
        answers = [
            producer.send_async(Message("source", f"{number}".encode(), keys=[key]), shard=key)
            for number, key in zip(numbers, keys, strict=True)
        ]
        for answer in answers:
            answer.result()


def stored(namesrv: str, topic: str) -> int:
    """Messages in a topic."""
    with AdminClient(namesrv) as admin:
        return sum(queue.max_offset for queue in admin.topic(topic).queues)


def copied(copy: CopyDriver) -> int:
    """Messages of the source that batches have been planned for, as Spark's offset log says."""
    newest, _ = copy.batches
    try:
        offsets = json.loads((copy.checkpoint / "offsets" / str(newest)).read_text().splitlines()[2])
    except (OSError, IndexError, ValueError):  # there is none, or it is being written
        return 0
    brokers = offsets["topics"].get("source", {"brokers": {}})["brokers"].values()
    return sum(sum(broker["offsets"].values()) for broker in brokers)


def assert_copied(namesrv: str) -> None:
    """Each key's messages are in the target as in the source: all of them, once, in their order; and nothing else.

    A key is in one queue of the source, which is fed while all brokers are there. What is written while one is away
    goes to the queues of the others, whoever writes it; within each queue it is in order all the same.
    """
    source, target = by_key(namesrv, "source"), by_key(namesrv, "target")
    assert target.keys() == source.keys()
    for key, queues in target.items():
        (sent,) = source[key].values()
        assert Counter(chain.from_iterable(queues.values())) == Counter(sent), key
        for queue, found in queues.items():
            assert is_in_order(found, sent), f"{key} in {queue}"


def by_key(namesrv: str, topic: str) -> dict[str, dict[MessageQueue, list[bytes]]]:
    """Bodies by key (sharding key in the target) and queue, in the order of the queue."""
    found: defaultdict[str, dict[MessageQueue, list[bytes]]] = defaultdict(dict)
    with AdminClient(namesrv) as admin, PullConsumer(namesrv) as consumer:
        for queue in admin.topic(topic).queues:
            for message in everything(consumer, queue.queue, queue.max_offset):
                key = message.keys[0] if message.keys else message.properties["__SHARDINGKEY"]
                found[key].setdefault(queue.queue, []).append(message.body)
    return dict(found)


def is_in_order(some: Iterable[bytes], everything: Iterable[bytes]) -> bool:
    """Whether they follow each other as they do among all, with or without others in between."""
    rest = iter(everything)
    return all(body in rest for body in some)


def everything(consumer: PullConsumer, queue: MessageQueue, end: int) -> list[ReceivedMessage]:
    consumer.assign([queue])
    consumer.seek(queue, 0)
    messages: list[ReceivedMessage] = []
    while consumer.position(queue) < end:
        messages += consumer.poll(timeout_ms=1_000)
    return messages
