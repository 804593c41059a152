"""GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25): a broker's settings.

RocketMQ lets 25 set everything but a deny list, which cost it CVE-2023-33246. Ours is an allow list, and
nothing is on it yet. No setting is a secret so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.errors import NoPermission
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import GetBrokerConfigResponseHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.settings import as_properties

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.whereabouts import Whereabouts
    from rmqspark.protocol.bodies.route import DataVersion
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.config import StoreConfig


class SettingsHandlers:
    """Shows the settings and refuses to change them."""

    def __init__(
        self, config: BrokerConfig, whereabouts: Whereabouts, store_config: StoreConfig, version: DataVersion
    ) -> None:
        self._config = config
        self._whereabouts = whereabouts
        self._store_config = store_config
        self._version = version

    def routes(self) -> Routes:
        return {
            RequestCode.GET_BROKER_CONFIG: Route(None, self.get),
            RequestCode.UPDATE_BROKER_CONFIG: Route(None, self.update),
        }

    def get(self, request: Request[NoFields]) -> Reply:
        """The settings as Java properties, named as RocketMQ names them."""
        del request
        header = GetBrokerConfigResponseHeader(self._version.encode().decode())
        return Reply(header, as_properties(self._in_force(), self._store_config).encode())

    def _in_force(self) -> BrokerConfig:
        """The settings, where they left a choice with what was chosen."""
        return replace(
            self._config,
            listen_port=self._whereabouts.port,
            broker_ip1=self._whereabouts.host,
            auto_create_topic_enable=self._config.auto_creates_topics,
        )

    def update(self, request: Request[NoFields]) -> Reply:
        raise NoPermission("No setting of a broker can be changed remotely.", hint="Restart it with the new settings.")
