"""A broker's settings as they are now, and who goes by them.

Some can be changed while it runs, those that are declared `live`: each part that goes by one of them has been named
here, and adopts what is changed. All others are copied when the broker starts. RocketMQ takes any change but of a few
names, at once or at the next start, which nobody is told; and so could be made to run programs (CVE-2023-33246).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import NoPermission
from rmqspark.settings import changed, describe, requested, snake_case, unknown_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.store.config import StoreConfig

log = structlog.get_logger("rmqspark.broker")


class SettingsInForce:
    """Those of the broker and of its store."""

    def __init__(
        self, broker: BrokerConfig, store: StoreConfig, adopt: Callable[[BrokerConfig, StoreConfig], None]
    ) -> None:
        self.broker = broker
        self.store = store
        self._adopt = adopt

    def change(self, texts: Mapping[str, str]) -> None:
        """Puts these into force, all or none of them, until the broker is started again. Names are taken in RocketMQ's
        spelling and in ours. InvalidArgument for a name or value that is none, NoPermission for what cannot be changed.
        """
        values = {snake_case(name): text for name, text in texts.items()}
        known = {info.name: info for kind in (self.broker, self.store) for info in describe(type(kind))}
        for name in values:
            if name not in known:
                raise unknown_setting(name, known)
            requested(known[name], values[name])  # a hint to restart it with what it would not start with helps nobody
            if not known[name].live:
                raise NoPermission(
                    f"Setting {name} cannot be changed while the broker runs.", hint="Restart it with the new value."
                )
        broker, store = changed(self.broker, values), changed(self.store, values)
        self.broker, self.store = broker, store
        self._adopt(broker, store)
        log.info("settings changed until the next start", broker=broker.broker_name, **values)
