"""What a broker is given: its settings, and where it meets the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.addresses import parse_addresses
from rmqspark.store.config import parse_delay_levels

if TYPE_CHECKING:
    import os

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.whereabouts import Whereabouts
    from rmqspark.clock import Clock, SteadyClock
    from rmqspark.entropy import Entropy
    from rmqspark.remoting.limits import Limits
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.files import FileSystem


class Given(NamedTuple):
    """What a broker is given: its settings, and where it meets the world."""

    config: BrokerConfig
    store_config: StoreConfig
    store_dir: str | os.PathLike[str]
    files: FileSystem
    """Of the store."""
    clock: Clock
    steady: SteadyClock
    """Queries that nobody reports time out by it."""
    entropy: Entropy
    limits: Limits | None
    whereabouts: Whereabouts

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """Of the levels of delayed messages, the first one first."""
        return parse_delay_levels(self.store_config.message_delay_level)

    @property
    def delay_levels(self) -> int:
        return len(self.delays_ms)

    @property
    def name_servers(self) -> tuple[str, ...]:
        return parse_addresses(self.config.namesrv_addr, "namesrv_addr") if self.config.namesrv_addr else ()
