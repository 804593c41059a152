"""What `rmq up --brokers N` and the broker processes it starts say to each other, a line of JSON each way.

The order goes to the broker's standard input, which stays open as long as `rmq up` lives: its end is the word to stop,
and comes also when `rmq up` was killed. Standard output has a report when the broker serves, and one with the reason
when it cannot, or no longer.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Self

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers import BrokerSettings
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig


class BrokerOrder(NamedTuple):
    """A broker to run, and where its store is."""

    settings: BrokerSettings
    directory: Path

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


class Report(NamedTuple):
    """The address at which clients find the broker; or else what is wrong, and what to do about it."""

    address: str = ""
    problem: str = ""
    hint: str = ""

    def encode(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def decode(cls, line: bytes) -> Self:
        return cls(**json.loads(line))
