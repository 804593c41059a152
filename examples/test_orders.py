"""How a test of your own looks. The fixture `rmq` comes with the package.

In a clone: `make setup`, then `.venv/bin/pytest examples/test_orders.py`. Anywhere else: `pytest test_orders.py`.
"""


def charge(order: bytes) -> bytes:
    """What you would test."""
    return order.upper()


def test_charges_every_order(rmq):
    """Each order comes out charged, in order."""
    rmq.send("orders", b"first", b"second")
    rmq.send("charged", *[charge(message.body) for message in rmq.messages("orders")])
    assert [message.body for message in rmq.messages("charged")] == [b"FIRST", b"SECOND"]
