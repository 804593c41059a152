"""A function is called with each message; what it fails at comes again: `python examples/push_consumer.py`."""

import threading
from dataclasses import replace

from rmqspark import AdminClient, Message, Producer, PushConsumer
from rmqspark.testing import cluster
from rmqspark.testing.in_process import TEST_STORE

ORDERS = 8
billed = []
done = threading.Event()


def bill(message):
    if message.body == b"order 3" and message.reconsume_times == 0:
        raise RuntimeError("out of paper")
    billed.append(message)  # from several threads: a list can take it
    if len(billed) == ORDERS:
        done.set()


quick = replace(TEST_STORE, message_delay_level="1s " * 18)  # what failed comes again after a second instead of ten
with cluster(brokers=1, store_config=quick) as mq:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=4)

    with (
        PushConsumer(mq.namesrv, group="billing", listener=bill) as consumer,  # others of the group may run elsewhere
        Producer(mq.namesrv, group="orders-app") as producer,
    ):
        consumer.subscribe("orders")
        for n in range(ORDERS):
            producer.send(Message("orders", f"order {n}".encode()))
        done.wait()

again = [message.body.decode() for message in billed if message.reconsume_times]
print(f"{len(billed)} orders billed, {', '.join(again)} at the second try")
