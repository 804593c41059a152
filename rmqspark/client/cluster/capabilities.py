"""What brokers can do beyond RocketMQ's protocol, as they answer RMQ_CAPABILITIES."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import NotSupported, StoreReplaced
from rmqspark.protocol.bodies.client import CapabilitiesBody

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

_BULK_READ_WITH_SQL = 2  # the version of RMQ_BULK_READ that knows it
_BULK_SEND_WITH_PROPERTIES = 2  # the version of RMQ_BULK_SEND that knows them


class StoreLife(NamedTuple):
    """What a broker's offsets are of: a store, in one of its incarnations. Elsewhere they are other messages'; of a
    stock broker nobody knows."""

    store_id: str
    incarnation: int

    def is_another(self, now: StoreLife) -> bool:
        """Whether that is another store, and not perhaps this one: RocketMQ's broker, which may have taken our broker's
        place, or the other way round, does not say which it serves."""
        return self.store_id != now.store_id and bool(self.store_id) and bool(now.store_id)

    def require(self, now: StoreLife, broker_name: str) -> None:
        """Raises StoreReplaced where those of the broker are of something else by now."""
        if now.store_id != self.store_id:
            raise StoreReplaced(f"Broker {broker_name!r} serves another store than before.")
        if now != self:
            raise StoreReplaced(f"Broker {broker_name!r} may have lost the end of its store in a crash.")


class Capabilities(NamedTuple):
    """What a broker can do beyond RocketMQ's protocol. 0 is "not at all", else the version of the request it speaks."""

    product: str = "rocketmq"
    version: str = ""
    broker_name: str = ""  # "" where it does not say
    store_id: str = ""
    incarnation: int = 0
    bulk_send: int = 0
    bulk_read: int = 0
    transactions: int = 0
    measure: int = 0
    groups: int = 0
    topics_send: int = 0
    topics_read: int = 0
    queue_bounds: int = 0
    delays: int = 0  # of messages in bulks
    metrics: int = 0
    store_path: str = ""  # where its files are, on its own machine
    is_slave: bool = False  # what it takes down is lost: it is read from alone
    delay_levels: int = 0  # so many there are; 0 of this, and of the next, where it does not say
    max_delay_sec: int = 0  # how far ahead the deliver time of a message may be
    opening: str = ""  # of its store, drawn when that was opened; "" where it does not say

    @property
    def life(self) -> StoreLife:
        return StoreLife(self.store_id, self.incarnation)

    def is_of(self, broker_name: str) -> bool:
        """Whether it may be that broker who answers: addresses change hands, and stock brokers do not say."""
        return self.broker_name in (broker_name, "")

    @property
    def takes_properties_of_rows(self) -> bool:
        """Whether bulks may bring rows with tags and keys in columns."""
        return self.bulk_send >= _BULK_SEND_WITH_PROPERTIES

    def reads_in_bulk(self, sql: str | None) -> bool:
        """Whether bulk reads are there, and where they are to filter by SQL92, can."""
        return self.bulk_read >= (1 if sql is None else _BULK_READ_WITH_SQL)


def capabilities_of(response: Response) -> Capabilities:
    """What the answer to RMQ_CAPABILITIES says; nothing at all, from a stock broker."""
    try:
        response.raise_for_code()
    except NotSupported:
        return Capabilities()
    answer = CapabilitiesBody.decode(response.body)
    return Capabilities(
        answer.product,
        answer.version,
        answer.brokerName,
        answer.storeId,
        answer.incarnation,
        answer.capabilities.get("bulkSend", 0),
        answer.capabilities.get("bulkRead", 0),
        answer.capabilities.get("transactions", 0),
        answer.capabilities.get("measure", 0),
        answer.capabilities.get("groups", 0),
        answer.capabilities.get("topicsSend", 0),
        answer.capabilities.get("topicsRead", 0),
        answer.capabilities.get("queueBounds", 0),
        answer.capabilities.get("delays", 0),
        answer.capabilities.get("metrics", 0),
        answer.storePath,
        answer.slave,
        answer.delayLevels,
        answer.maxDelaySec,
        answer.opening,
    )
