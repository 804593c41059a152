"""The options of the sink, read once into a `SinkOptions` that travels with the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.cluster.addresses import resolve_namesrv
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import OPEN, Access
from rmqspark.sink.patience import BEGINNING, UNDER_WAY
from rmqspark.sink.transaction_options import TransactionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.client.cluster.patience import Patience

_BATCH_BYTES = 1 << 20
_GROWN = 4  # times as large are the sends of a task that has much to write
DEFAULT_QUEUES = 8


class SinkOptions(NamedTuple):
    """What the user asked the sink for, checked. Plain data: it is pickled into every task.

    `namesrv` and `access` are what the driver goes by: a task on another machine does not see its environment.
    """

    namesrv: str | None = None
    topic: str | None = None
    partitioner: str | None = None
    compression: str = "none"
    batch_bytes: int | None = None  # None: `first_send_bytes`, then `grown_send_bytes`
    auto_create_topic: bool = False
    queues: int = DEFAULT_QUEUES
    transaction: TransactionOptions | None = None  # None: at least once
    access: Access = OPEN
    streaming: bool = False

    @property
    def first_send_bytes(self) -> int:
        """How large a send may be, until a task has written so much for each queue."""
        return self.batch_bytes or _BATCH_BYTES

    @property
    def grown_send_bytes(self) -> int:
        """How large a send may be from then on: what little there is has been spread, and large sends cost less."""
        return self.batch_bytes or _GROWN * _BATCH_BYTES

    @property
    def patience(self) -> Patience:
        """With which a task begins."""
        return UNDER_WAY if self.streaming else BEGINNING

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        """Reads Spark's options. Raises InvalidArgument or NotSupported naming the option and what to write instead."""
        from rmqspark.client.cluster_options import access_of
        from rmqspark.sink.option_table import SINK_OPTIONS  # tasks have no use for these

        values = SINK_OPTIONS.read(given)
        _check(values)
        return cls(
            namesrv=resolve_namesrv(values.get("namesrv")),
            topic=values.get("topic"),
            partitioner=values.get("partitioner"),
            compression=values.get("compression", "none"),
            batch_bytes=values.get("batchBytes"),
            auto_create_topic=values.get("autoCreateTopic", False),
            queues=values.get("queues", DEFAULT_QUEUES),
            transaction=TransactionOptions.of(values, streaming=streaming),
            access=access_of(values),
            streaming=streaming,
        )


def _check(values: Mapping[str, Any]) -> None:
    if "queues" in values and not values.get("autoCreateTopic"):
        raise InvalidArgument("Option 'queues' has no meaning without autoCreateTopic=true.")
