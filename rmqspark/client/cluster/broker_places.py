"""Where brokers are, as far as a client knows, and when that is to be asked again; `cluster_client` asks.

RocketMQ's MQClientInstance.brokerAddrTable. A broker is where its master is, else where the slave with the lowest id
is: that may lack what its master has, so its master is looked for as long as it is the one that is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.routes import HEADLESS_FRESH_MS
from rmqspark.protocol.names import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.clock import Clock

_MOST: Final = 10_000  # brokers; of more the first are forgotten, and asked for once more


class BrokerPlaces:
    """By broker name. Not locked: its owner is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addresses: dict[str, str] = {}
        self._suspects: set[str] = set()  # did not answer where they were
        self._looked_ms: dict[str, int] = {}  # monotonic, of those that only a slave is known of

    def address(self, broker_name: str) -> str | None:
        """The last one known; None for a broker that was never heard of."""
        return self._addresses.get(broker_name)

    def certain(self, broker_name: str) -> str | None:
        """The same, None also where the name servers are to be asked first."""
        looked_ms = self._looked_ms.get(broker_name)
        is_due = looked_ms is not None and self._clock.monotonic_ms() - looked_ms >= HEADLESS_FRESH_MS
        return None if is_due or broker_name in self._suspects else self._addresses.get(broker_name)

    def note(self, broker_name: str, addresses: Mapping[int, str]) -> None:
        """What a name server says: the addresses of its brokers by their ids."""
        if not addresses:
            return
        lowest_id = min(addresses)
        self._addresses[broker_name] = addresses[lowest_id]
        self._suspects.discard(broker_name)
        self._looked_ms.pop(broker_name, None)
        if lowest_id != MASTER_ID:
            self._looked_ms[broker_name] = self._clock.monotonic_ms()
        if len(self._addresses) > _MOST:
            self._forget(next(iter(self._addresses)))

    def is_headless(self, broker_name: str) -> bool:
        """Whether only a slave of it is known."""
        return broker_name in self._looked_ms

    def masters(self) -> dict[str, str]:
        """The addresses of those whose master is known."""
        return {name: address for name, address in self._addresses.items() if not self.is_headless(name)}

    def hear(self, masters: Mapping[str, str]) -> None:
        """What somebody else knows: it counts where nothing is known here, and the name servers, which are asked first,
        do not answer."""
        unknown = masters.keys() - self._addresses.keys()
        self._suspects |= unknown
        self._addresses.update({name: masters[name] for name in unknown})

    def suspect(self, broker_name: str, address: str) -> None:
        """It did not answer there."""
        if address == self._addresses.get(broker_name):
            self._suspects.add(broker_name)

    def unanswered(self, broker_name: str) -> None:
        """The name servers were asked in vain: what is known is used until it does not answer again."""
        self._suspects.discard(broker_name)
        self.looked(broker_name)

    def looked(self, broker_name: str) -> None:
        """They were asked for its master just now, whatever they said."""
        if broker_name in self._looked_ms:
            self._looked_ms[broker_name] = self._clock.monotonic_ms()

    def _forget(self, broker_name: str) -> None:
        """Brokers come and go, and whoever registers some may invent names."""
        del self._addresses[broker_name]
        self._suspects.discard(broker_name)
        self._looked_ms.pop(broker_name, None)
