"""Orders into a topic, ten a second, and a group that reads them: `python -m rmqspark.cli.sample.traffic NAMESRV`."""

from __future__ import annotations

import json
import sys
import threading
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final

from rmqspark.cli.processes.ending import end_of_input
from rmqspark.cli.sample.names import A_SECOND, GROUP, TOPIC
from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import RmqError
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Callable

_QUEUES: Final = 4
_STATES: Final = ("placed", "paid", "shipped", "cancelled")
_ITEMS: Final = ("apples", "books", "chairs", "lamps", "pens")
_PAUSE_S: Final = 1.0  # before something that failed is tried again
_POLL_MS: Final = 500


def order(number: int, random: Random) -> Message:
    """One order as JSON, its state as tag, its number as key."""
    document = {"order": number, "item": random.choice(_ITEMS), "amount": random.randint(1, 1_000)}
    return Message(TOPIC, json.dumps(document).encode(), tags=random.choice(_STATES), keys=[str(number)])


def main() -> None:
    """Sends and reads until standard input ends."""
    (namesrv,) = sys.argv[1:]
    ended = end_of_input()
    _patiently(ended, lambda: _make_topic(namesrv))
    reader = threading.Thread(target=_patiently, args=(ended, lambda: _read(namesrv, ended)), name="demo reader")
    reader.start()
    _patiently(ended, lambda: _send(namesrv, ended))
    reader.join()


def _patiently(ended: threading.Event, work: Callable[[], None]) -> None:
    """Does `work` until it is done; again where it fails, since brokers come and go."""
    while not ended.is_set():
        try:
            return work()
        except RmqError as error:
            print(error, file=sys.stderr, flush=True)
            ended.wait(_PAUSE_S)
    return None


def _make_topic(namesrv: str) -> None:
    with AdminClient(namesrv) as admin:
        if TOPIC not in admin.topics():
            admin.create_topic(TOPIC, queues=_QUEUES)


def _send(namesrv: str, ended: threading.Event) -> None:
    random = Random()  # noqa: S311 - made-up orders
    with Producer(namesrv) as producer:
        for number in count(1):
            if ended.wait(1 / A_SECOND):
                return
            producer.send(order(number, random))


def _read(namesrv: str, ended: threading.Event) -> None:
    with PullConsumer(namesrv, group=GROUP) as consumer:
        while not ended.is_set():
            consumer.assign(consumer.queues(TOPIC))
            if consumer.poll(_POLL_MS):
                consumer.commit()


if __name__ == "__main__":
    main()
