"""The options of the sink, read once into a `SinkOptions` that travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqspark.client.addresses import resolve_namesrv
from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.options import Option, OptionTable, boolean, choice, integer, size_bytes, text
from rmqspark.protocol.names import check_sendable
from rmqspark.sink.kafka_names import KAFKA_NAMES
from rmqspark.sink.transaction_options import TRANSACTION_OPTIONS, TransactionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATER_ACCESS = "This version talks to brokers without access control; leave it out."
DEFAULT_BATCH_BYTES = 1 << 20
DEFAULT_QUEUES = 8

SINK_OPTIONS = OptionTable(
    owner="sink",
    options=(
        Option(
            "namesrv",
            "`$RMQ_NAMESRV`, `$NAMESRV_ADDR`, `127.0.0.1:9876`",
            "name servers, `host:port;host:port`",
            text,
            aliases=("nameServer", "namesrvAddr"),
        ),
        Option(
            "topic",
            "the column",
            'topic to write to; `save("t")` is the same',
            lambda value: check_sendable(value),
            aliases=("path",),
        ),
        *TRANSACTION_OPTIONS,
        Option(
            "partitioner",
            "`hash` with a shardingKey column, else `roundRobin`",
            "which queue a row goes to: `hash` of shardingKey, `roundRobin`, or `column`: queueId",
            choice("hash", "roundRobin", "column"),
        ),
        Option(
            "compression",
            "`none`",
            "bodies of 4 KiB and more: `none`, `zlib`, `lz4`, `zstd`",
            choice("none", "zlib", "lz4", "zstd"),
        ),
        Option("batchBytes", "`1m`", "size of one send", size_bytes(at_least=64 << 10, at_most=8 << 20)),
        Option("autoCreateTopic", "`false`", "create a topic that does not exist", boolean),
        Option("queues", "`8`", "queues of a topic that is created", integer(at_least=1)),
    ),
    foreign=KAFKA_NAMES,
    later={
        "accessKey": _LATER_ACCESS,
        "secretKey": _LATER_ACCESS,
    },
    ignored=frozenset({"checkpointlocation", "queryname"}),
)


@dataclass(frozen=True)
class SinkOptions:
    """What the user asked the sink for, checked. Plain data: it is pickled into every task.

    `namesrv` is what the driver goes by: a task on another machine does not see the driver's environment.
    """

    namesrv: str | None = None
    topic: str | None = None
    partitioner: str | None = None
    compression: str = "none"
    batch_bytes: int = DEFAULT_BATCH_BYTES
    auto_create_topic: bool = False
    queues: int = DEFAULT_QUEUES
    transaction: TransactionOptions | None = None  # None: at least once

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        """Reads Spark's options. Raises InvalidArgument or NotSupported naming the option and what to write instead."""
        for name in given:
            if name.lower().startswith("tls"):
                raise NotSupported(f"Option {name!r} is not there yet in this version.", hint=_LATER_ACCESS)
        values = SINK_OPTIONS.read(given)
        _check(values)
        return cls(
            namesrv=resolve_namesrv(values.get("namesrv")),
            topic=values.get("topic"),
            partitioner=values.get("partitioner"),
            compression=values.get("compression", "none"),
            batch_bytes=values.get("batchBytes", DEFAULT_BATCH_BYTES),
            auto_create_topic=values.get("autoCreateTopic", False),
            queues=values.get("queues", DEFAULT_QUEUES),
            transaction=TransactionOptions.of(values, streaming=streaming),
        )


def _check(values: Mapping[str, Any]) -> None:
    if "queues" in values and not values.get("autoCreateTopic"):
        raise InvalidArgument("Option 'queues' has no meaning without autoCreateTopic=true.")
