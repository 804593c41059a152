"""A process of its own that sends messages at a steady rate, and says when it sent how many.

    python benchmarks/feed.py SIDE ADDRESS TOPIC RATE SECONDS QUEUES

Every tick sends what is due since the last one. Bodies are 100 bytes; queues take turns, tick by tick. At the end one
line of JSON: `[seconds since the epoch, messages so far]` of every tick, as of before its send; and how long the
longest send took, by which one sees whether the feed kept up.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka import client_gateway

from rmqspark import Message, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    Send = Callable[[int, int], None]  # that many messages, to that queue

BODY = b"x" * 100
TICK_S = 0.005


def ours(stack: ExitStack, address: str, topic: str) -> Send:
    producer = stack.enter_context(Producer(address, group="feed"))
    message = Message(topic, BODY)
    return lambda count, queue: _batch(producer, [message] * count, queue)


def _batch(producer: Producer, messages: list[Message], queue: int) -> None:
    producer.send_batch(messages, queue=queue)


def theirs(stack: ExitStack, address: str, topic: str) -> Send:
    """Kafka's Java producer with its defaults. The loop over a tick's records runs in Java: Python calls it once."""
    gateway = stack.enter_context(client_gateway())
    java: Any = gateway.jvm
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    names = {"bootstrap.servers": address, "key.serializer": serializer, "value.serializer": serializer}
    properties = java.java.util.Properties()
    for name, value in names.items():
        properties.setProperty(name, value)
    producer = java.org.apache.kafka.clients.producer.KafkaProducer(properties)
    stack.callback(producer.close)
    send = _as_consumer(gateway, producer)

    def tick(count: int, queue: int) -> None:
        record = java.org.apache.kafka.clients.producer.ProducerRecord(topic, queue, None, bytearray(BODY))
        java.java.util.ArrayList(java.java.util.Collections.nCopies(count, record)).forEach(send)

    return tick


def _as_consumer(gateway: Any, producer: Any) -> Any:
    """`producer::send` as a java.util.function.Consumer."""
    java, invoke = gateway.jvm, gateway.jvm.java.lang.invoke
    record = java.java.lang.Class.forName("org.apache.kafka.clients.producer.ProducerRecord")
    future = java.java.lang.Class.forName("java.util.concurrent.Future")
    handle = invoke.MethodHandles.publicLookup().bind(producer, "send", invoke.MethodType.methodType(future, record))
    consumer = java.java.lang.Class.forName("java.util.function.Consumer")
    return invoke.MethodHandleProxies.asInterfaceInstance(consumer, handle)


def run(send: Send, rate: int, seconds: float, queues: int, clock: Any = time) -> dict[str, Any]:
    """Sends for that long. The first message also connects: it is sent, and then the clock begins."""
    send(1, 0)
    begun = clock.time()
    ticks: list[tuple[float, int]] = [(begun, 1)]
    number, longest = 0, 0.0
    while (now := clock.time()) - begun < seconds:
        due = 1 + int((now - begun) * rate) - ticks[-1][1]
        if due > 0:
            ticks.append((now, ticks[-1][1] + due))
            send(due, number % queues)
            number += 1
            longest = max(longest, clock.time() - now)
        clock.sleep(max(0.0, now + TICK_S - clock.time()))
    return {"ticks": ticks, "longest_send_ms": round(longest * 1000)}


def main(side: str, address: str, topic: str, rate: str, seconds: str, queues: str) -> None:
    with ExitStack() as stack:
        send = (ours if side == "rmqspark" else theirs)(stack, address, topic)
        told = run(send, int(rate), float(seconds), int(queues))
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
