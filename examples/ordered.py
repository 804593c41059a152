"""Messages that share a shard word stay in order, whatever else is sent: `python examples/ordered.py`."""

from collections import defaultdict

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing import cluster

CUSTOMERS = ["ada", "grace", "edsger"]
STEPS = ["created", "paid", "shipped"]

with cluster(brokers=1) as mq:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=8)
        queues = admin.queues("orders")

    with Producer(mq.namesrv, group="orders-app") as producer:
        for step in STEPS:
            for customer in CUSTOMERS:
                producer.send(Message("orders", step.encode(), keys=[customer]), shard=customer)

    history = defaultdict(list)
    with PullConsumer(mq.namesrv) as consumer:
        consumer.assign(queues)
        while sum(map(len, history.values())) < len(STEPS) * len(CUSTOMERS):
            for message in consumer.poll(timeout_ms=1000):
                history[message.keys[0]].append(message.body.decode())

for customer in CUSTOMERS:
    print(f"{customer}: {' -> '.join(history[customer])}")
