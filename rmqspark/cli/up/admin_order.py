"""What the admin process of `rmq up` is told, as one line of JSON: tokens among it, so it is on no command line."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import NamedTuple, Self

from rmqspark.admin.config import AdminConfig


class AdminOrder(NamedTuple):
    """REST and console to run, for the cluster of these name servers."""

    config: AdminConfig
    namesrv: str

    @property
    def kind(self) -> str:
        return "admin"

    @property
    def module(self) -> str:
        return "rmqspark.cli.up.child_admin"

    @property
    def name(self) -> str:
        return "admin"

    def on_port(self, port: int) -> Self:
        """The same, at this very port."""
        return self._replace(config=replace(self.config, admin_port=port))

    def encode(self) -> bytes:
        return json.dumps({"config": asdict(self.config), "namesrv": self.namesrv}).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        parts = json.loads(line)
        return cls(AdminConfig(**parts["config"]), parts["namesrv"])
