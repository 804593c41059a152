"""GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25): a broker's settings.

RocketMQ lets 25 set everything but a deny list, which cost it CVE-2023-33246. Ours is an allow list: the settings that
are declared `live`, until the broker is started again. RocketMQ writes what is set into its settings file. No setting
is a secret so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import GetBrokerConfigResponseHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.settings import as_properties

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.settings_in_force import SettingsInForce
    from rmqspark.broker.whereabouts import Whereabouts
    from rmqspark.protocol.bodies.route import DataVersion
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class SettingsHandlers:
    """Shows the settings, and changes those that can be changed while the broker runs."""

    def __init__(self, settings: SettingsInForce, whereabouts: Whereabouts, version: DataVersion) -> None:
        self._settings = settings
        self._whereabouts = whereabouts
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
        return Reply(header, as_properties(self._in_force(), self._settings.store).encode())

    def _in_force(self) -> BrokerConfig:
        """The settings, where they left a choice with what was chosen."""
        config = self._settings.broker
        return replace(
            config,
            listen_port=self._whereabouts.port,
            broker_ip1=self._whereabouts.host,
            auto_create_topic_enable=config.auto_creates_topics,
        )

    def update(self, request: Request[NoFields]) -> Reply:
        """The body is Java properties, as GET_BROKER_CONFIG answers them; all are set, or none."""
        self._settings.change(_parse(str(request.body, "utf-8", "replace")))
        return Reply()


def _parse(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    if not pairs or not all(separator and name.strip() for name, separator, _ in pairs):
        raise InvalidArgument("Settings are lines of name=value.", hint="At least one is to be changed.")
    return {name.strip(): value.strip() for name, _, value in pairs}
