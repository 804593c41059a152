"""The broker filters by tag: what you do not want never crosses the network. `python examples/filter_by_tag.py`."""

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing import cluster

with cluster(brokers=1) as mq:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        queues = admin.queues("orders")

    with Producer(mq.namesrv, group="orders-app") as producer:
        producer.send_batch(
            [Message("orders", f"order {n}".encode(), tags="paid" if n % 3 == 0 else "open") for n in range(9)]
        )

    with PullConsumer(mq.namesrv, tags="paid || shipped") as consumer:
        consumer.assign(queues)
        paid = []
        while len(paid) < 3:
            paid += [message.body.decode() for message in consumer.poll(timeout_ms=1000)]

print("paid:", ", ".join(sorted(paid)))
