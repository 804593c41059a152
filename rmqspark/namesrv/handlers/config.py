"""The name server's own configuration: GET_NAMESRV_CONFIG (319), UPDATE_NAMESRV_CONFIG (318).

RocketMQ lets 318 set everything but a deny list, which cost it CVE-2023-37582. Ours is an allow list, and
nothing is on it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.errors import NoPermission
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.router import Reply, Request, Route, Routes
from rmqspark.settings import as_properties

if TYPE_CHECKING:
    from rmqspark.namesrv.config import NamesrvConfig


class ConfigHandlers:
    """Shows the settings and refuses to change them."""

    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config

    def routes(self) -> Routes:
        return {
            RequestCode.GET_NAMESRV_CONFIG: Route(None, self.get),
            RequestCode.UPDATE_NAMESRV_CONFIG: Route(None, self.update),
        }

    def get(self, request: Request[Any]) -> Reply:
        """The settings as Java properties, named as RocketMQ names them."""
        return Reply(body=as_properties(self._config).encode())

    def update(self, request: Request[Any]) -> Reply:
        raise NoPermission(
            "No setting of the name server can be changed remotely.", hint="Restart it with the new settings."
        )
