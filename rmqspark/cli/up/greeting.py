"""What `rmq up` says to people once it serves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rmqspark.client.cluster.addresses import DEFAULT_NAMESRV


class Running(NamedTuple):
    """A broker that serves, as people and endpoints.json are told of it."""

    name: str
    address: str
    pid: int


def broker_name(number: int) -> str:
    """broker-a, broker-b, …: what the brokers are called, and their directories."""
    return f"broker-{chr(ord('a') + number)}"


def greet(namesrv: str, brokers: Sequence[Running], store: Path) -> None:
    print(f"name server  {namesrv}")
    for number, (name, address, pid) in enumerate(brokers):
        process = "" if pid == os.getpid() else f"process {pid}, "
        print(f"broker       {address}  ({name}, {process}files in {store / broker_name(number)})", flush=True)


def say_what_to_try(namesrv: str, console: str | None, going_on: Sequence[str]) -> None:
    elsewhere = "" if namesrv == DEFAULT_NAMESRV else f" --namesrv {namesrv}"
    if console is not None:
        print(f"console      {console}  (REST: {console}/docs, metrics: {console}/metrics)")
    for line in going_on:
        print(f"demo         {line}")
    tries = ("consume demo -f", "spark list", "group list") if going_on else ("send hello world", "consume hello")
    commands = "\n       ".join(f"rmq {words}{elsewhere}" for words in tries)
    print(
        f"\nTry:   {commands}\n"
        f"Spark: spark.read.format('rmq').option('namesrv', '{namesrv}').load('{'demo' if going_on else 'hello'}')\n\n"
        "Ctrl-C stops it.",
        flush=True,
    )
