"""Which REST and console `rmq up` is to have beside its brokers."""

from __future__ import annotations

import socket
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rmqspark.admin.config import USUAL_PORT, AdminConfig
from rmqspark.cli.machine.admin_libraries import check_installed
from rmqspark.cli.servers.setting_flags import Sources
from rmqspark.errors import MissingExtra


def wanted(sources: Sources, store: Path) -> AdminConfig | None:
    """Where REST and console listen: with the brokers. None, said aloud, where what they are made with is missing."""
    config = sources.settings(AdminConfig)
    try:
        check_installed()
    except MissingExtra as missing:
        print(f"There are no REST and console: {missing}", file=sys.stderr)
        return None
    port = _free_port(config.bind_address) if config.admin_port is None else config.admin_port
    log = config.action_log or str((store / "admin" / "actions.jsonl").absolute())
    return replace(config, admin_port=port, action_log=log)


def _free_port(host: str) -> int:
    """The usual port where it is free; else 0, for any: who did not ask for one is not kept from starting by it."""
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, USUAL_PORT))
        except OSError:
            return 0
        return USUAL_PORT
