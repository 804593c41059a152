"""What a broker process of `rmq up --brokers N` is told, as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Self

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.making import BrokerSettings
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig


class BrokerOrder(NamedTuple):
    """A broker to run, and where its store is."""

    settings: BrokerSettings
    directory: Path

    @property
    def kind(self) -> str:
        return "broker"

    @property
    def module(self) -> str:
        return "rmqspark.cli.up.child_broker"

    @property
    def name(self) -> str:
        return self.settings.broker.broker_name

    def on_port(self, port: int) -> Self:
        """The same broker, at this very port."""
        broker = replace(self.settings.broker, listen_port=port)
        return self._replace(settings=self.settings._replace(broker=broker))

    def encode(self) -> bytes:
        parts = {name: asdict(part) for name, part in self.settings._asdict().items()}
        return json.dumps({**parts, "directory": str(self.directory)}).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        parts = json.loads(line)
        settings = BrokerSettings(
            BrokerConfig(**parts["broker"]), StoreConfig(**parts["store"]), Limits(**parts["limits"])
        )
        return cls(settings, Path(parts["directory"]))
