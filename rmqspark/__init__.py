"""RocketMQ protocol message queue made for Spark. What people import is here, loaded when first touched."""

from __future__ import annotations

import builtins
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.client.admin import AdminClient
    from rmqspark.client.producer import Producer
    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.client.push_consumer import PushConsumer
    from rmqspark.client.sending.transaction_listener import TransactionListener
    from rmqspark.client.transaction_producer import TransactionProducer
    from rmqspark.errors import RmqError
    from rmqspark.model import (
        Message,
        MessageQueue,
        PreparedMessage,
        ReceivedMessage,
        SendReceipt,
        TransactionReceipt,
        TransactionState,
    )
    from rmqspark.notebook import load_ipython_extension, peek
    from rmqspark.remoting.access import Access, Credentials, Tls

__version__ = "0.1.0"

_HOMES = {
    "Access": "rmqspark.remoting.access",
    "AdminClient": "rmqspark.client.admin",
    "Credentials": "rmqspark.remoting.access",
    "Message": "rmqspark.model",
    "MessageQueue": "rmqspark.model",
    "PreparedMessage": "rmqspark.model",
    "Producer": "rmqspark.client.producer",
    "PullConsumer": "rmqspark.client.pull_consumer",
    "PushConsumer": "rmqspark.client.push_consumer",
    "ReceivedMessage": "rmqspark.model",
    "RmqError": "rmqspark.errors",
    "SendReceipt": "rmqspark.model",
    "Tls": "rmqspark.remoting.access",
    "TransactionListener": "rmqspark.client.sending.transaction_listener",
    "TransactionProducer": "rmqspark.client.transaction_producer",
    "TransactionReceipt": "rmqspark.model",
    "TransactionState": "rmqspark.model",
    "load_ipython_extension": "rmqspark.notebook",
    "peek": "rmqspark.notebook",
}

_MODULES = frozenset({"spark"})
"""People write `rmqspark.spark.register(...)`, and have imported `rmqspark`."""

__all__ = [
    "Access",
    "AdminClient",
    "Credentials",
    "Message",
    "MessageQueue",
    "PreparedMessage",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "ReceivedMessage",
    "RmqError",
    "SendReceipt",
    "Tls",
    "TransactionListener",
    "TransactionProducer",
    "TransactionReceipt",
    "TransactionState",
    "__version__",
    "load_ipython_extension",
    "peek",
]


def __getattr__(name: str) -> object:
    """Loads a public name from its module at first use, so that `import rmqspark` costs next to nothing."""
    if name in _MODULES:
        return import_module(f"rmqspark.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rmqspark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _show_queries_in_notebooks() -> None:
    """A query is Spark's, and cannot display itself: IPython is told how, where this is imported in it."""
    get_ipython = getattr(builtins, "get_ipython", None)  # there while a cell runs
    shell = get_ipython() if get_ipython is not None else None
    if getattr(shell, "display_formatter", None) is not None:
        import_module("rmqspark.notebook").load_ipython_extension(shell)


_show_queries_in_notebooks()
