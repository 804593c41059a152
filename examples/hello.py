"""Send three messages and read them back: `python examples/hello.py`. Starts a queue of its own."""

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing import cluster

with cluster(brokers=1) as mq:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=4)
        queues = admin.queues("orders")

    with Producer(mq.namesrv, group="orders-app") as producer:
        for number in range(3):
            receipt = producer.send(Message("orders", f"order {number}".encode(), tags="paid", keys=[str(number)]))
            print(f"sent  {receipt.msg_id} to {receipt.queue}, offset {receipt.queue_offset}")

    with PullConsumer(mq.namesrv) as consumer:
        consumer.assign(queues)
        seen = 0
        while seen < 3:
            for message in consumer.poll(timeout_ms=1000):
                print(f"read  {message.msg_id} from {message.queue}: {message.body.decode()}")
                seen += 1
