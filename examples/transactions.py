"""An order and the message about it, both or neither: `python examples/transactions.py`."""

import sqlite3

from rmqspark import Message, PullConsumer, TransactionProducer, TransactionState
from rmqspark.broker.config import BrokerConfig
from rmqspark.testing import cluster

database = sqlite3.connect("file:orders?mode=memory&cache=shared", uri=True, check_same_thread=False)
database.execute("CREATE TABLE orders (id TEXT, item TEXT)")


class Orders:
    """Puts orders into the database, and finds out whether one is in it."""

    def execute(self, message, arg):
        if arg == "bicycle":
            return TransactionState.ROLLBACK  # sold out
        database.execute("INSERT INTO orders VALUES (?, ?)", (message.msg_id, arg))
        database.commit()
        if arg == "kettle":
            return TransactionState.UNKNOWN  # as if the word of it were lost on the way
        return TransactionState.COMMIT

    def check(self, message):
        found = database.execute("SELECT 1 FROM orders WHERE id = ?", (message.msg_id,)).fetchone()
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK


quick = BrokerConfig(transaction_time_out=500)  # ask after half a second instead of six
with (
    cluster(brokers=1, broker_config=quick) as mq,
    TransactionProducer(mq.namesrv, group="shop", listener=Orders()) as producer,
    PullConsumer(mq.namesrv) as consumer,
):
    for item in ["lamp", "bicycle", "kettle"]:
        sent = producer.send(Message("orders", item.encode()), arg=item)
        print(f"{item}: {sent.state.name}")
    consumer.assign(consumer.queues("orders"))
    arrived = []
    while len(arrived) < 2:  # the lamp at once, the kettle after the broker has asked
        arrived += [message.body.decode() for message in consumer.poll(timeout_ms=1000)]

stored = sorted(item for (item,) in database.execute("SELECT item FROM orders"))
print(f"in the database: {', '.join(stored)}; messages: {', '.join(sorted(arrived))}")
