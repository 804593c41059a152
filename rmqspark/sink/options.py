"""The options of the sink, read once into a `SinkOptions` that travels with the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.options import Option, OptionTable, boolean, choice, integer, size_bytes, text
from rmqspark.protocol.names import check_sendable

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATER_TRANSACTION = "It belongs to deliveryGuarantee=exactly-once; until then write at-least-once."
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
        Option(
            "deliveryGuarantee",
            "`at-least-once`",
            "what a task that is run again may do: write its rows again",
            choice("at-least-once", "exactly-once"),
        ),
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
    foreign={"kafka.bootstrap.servers": 'Use option("namesrv", "host:9876").'},
    later={
        "transactionalId": _LATER_TRANSACTION,
        "transactionVersion": _LATER_TRANSACTION,
        "txnAppId": _LATER_TRANSACTION,
        "txnVersion": _LATER_TRANSACTION,
        "onStaleVersion": _LATER_TRANSACTION,
        "onReplayMismatch": _LATER_TRANSACTION,
        "accessKey": _LATER_ACCESS,
        "secretKey": _LATER_ACCESS,
    },
    ignored=frozenset({"checkpointlocation", "queryname"}),
)


@dataclass(frozen=True)
class SinkOptions:
    """What the user asked the sink for, checked. Plain data: it is pickled into every task."""

    namesrv: str | None = None
    topic: str | None = None
    partitioner: str | None = None
    compression: str = "none"
    batch_bytes: int = DEFAULT_BATCH_BYTES
    auto_create_topic: bool = False
    queues: int = DEFAULT_QUEUES

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Reads Spark's options. Raises InvalidArgument or NotSupported naming the option and what to write instead."""
        for name in given:
            if name.lower().startswith("tls"):
                raise NotSupported(f"Option {name!r} is not there yet in this version.", hint=_LATER_ACCESS)
        values = SINK_OPTIONS.read(given)
        _check(values)
        return cls(
            namesrv=values.get("namesrv"),
            topic=values.get("topic"),
            partitioner=values.get("partitioner"),
            compression=values.get("compression", "none"),
            batch_bytes=values.get("batchBytes", DEFAULT_BATCH_BYTES),
            auto_create_topic=values.get("autoCreateTopic", False),
            queues=values.get("queues", DEFAULT_QUEUES),
        )


def _check(values: Mapping[str, Any]) -> None:
    if values.get("deliveryGuarantee") == "exactly-once":
        raise NotSupported(
            "deliveryGuarantee=exactly-once is not there yet in this version.",
            hint="Write deliveryGuarantee=at-least-once: a task or batch that is run again may write its rows again.",
        )
    if "queues" in values and not values.get("autoCreateTopic"):
        raise InvalidArgument("Option 'queues' has no meaning without autoCreateTopic=true.")
