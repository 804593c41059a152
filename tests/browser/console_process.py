"""A console in a process of its own, for NiceGUI has one a process: a real cluster, REST and console over it.

`python console_process.py filled|empty [slave|lost] [--tokens] [--base-path /rmq]` prints one JSON line with the
addresses, then takes orders from its standard input, one a line, and answers each with `ok`: `stop` and `start` the
broker, `stop slave` and `start slave`. With `slave` its master's sends wait for it, with `lost` it finds no master.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.admin.app import make_app
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.server import serving
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.settings import describe
from rmqspark.store.config import StoreConfig
from rmqspark.testing import LocalCluster, cluster
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Callable

ADMIN, READ = "admin-token-of-the-tests", "read-token-of-the-tests"


def main(words: list[str]) -> None:
    from seeding import fill

    with cluster(brokers=1, broker_config=broker_config(words)) as mq:
        if {"slave", "lost"} & set(words):
            mq.start_slave()
        if "filled" in words:
            with Rmq(mq) as rmq:
                fill(rmq)
        asyncio.run(serve(mq, words))


def broker_config(words: list[str]) -> BrokerConfig:
    config = BrokerConfig(enable_property_filter=True, ha_send_heartbeat_interval=200, slave_sync_interval=200)
    if "slave" in words:
        return replace(config, broker_role="SYNC_MASTER", ha_send_whole_log=True)
    return replace(config, ha_master_address="127.0.0.1:1") if "lost" in words else config


async def serve(mq: LocalCluster, words: list[str]) -> None:
    known = {info.name: info for kind in (BrokerConfig, StoreConfig) for info in describe(kind)}
    tokens = {"admin_token": ADMIN, "read_token": READ} if "--tokens" in words else {}
    base_path = words[words.index("--base-path") + 1] if "--base-path" in words else ""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "actions.jsonl"
        config = AdminConfig(admin_port=0, action_log=str(log), base_path=base_path, **tokens)
        async with serving(make_app(config, mq.namesrv, SystemClock(), known), config) as url:
            answer({"url": url, "namesrv": mq.namesrv})
            while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
                await asyncio.to_thread(obey, mq, order)
                answer("ok")


def obey(mq: LocalCluster, order: str) -> None:
    orders: dict[str, Callable[[], object]] = {
        "stop": lambda: mq.stop_broker("broker-a"),
        "start": lambda: mq.start_broker("broker-a"),
        "stop slave": mq.stop_slave,
        "start slave": mq.start_slave,
    }
    orders[order]()


def answer(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
