"""What a run of `make bench` is asked for: sizes, and how often."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from spark_paths import filled_page_cache

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from contextlib import AbstractContextManager

SMALL, LARGE = 100, 1024  # bytes of a body
LARGE_SHARE = 4  # large bodies are this many times fewer


@dataclass(frozen=True)
class Given:
    """The same for every part; each takes what it needs."""

    rows: int = 3_000_000  # of 100 bytes; a quarter of it of 1 KiB
    repeat: int = 5  # turns that count, after one that warms up
    queues: int = 8  # of each topic, ours and Kafka's partitions
    seconds: int = 15  # of each run at a rate (latency) and of a stock client
    latency_queues: int = 2  # as many as cores: every queue is a task of every micro-batch
    timeout: int = 600  # seconds, of each run
    memory_rows: int = 20_000_000  # of the batch that must not grow memory
    store_messages: int = 50_000_000  # of the store whose messages must cost what those of a small one do
    topics: int = 1_000  # of the many topics
    fresh_memory: bool = False  # do not fill the page cache first

    def rows_of(self, body_bytes: int) -> int:
        return self.rows if body_bytes == SMALL else self.rows // LARGE_SHARE

    def memory(self) -> AbstractContextManager[None]:
        """The page cache as it is on a machine that has worked for a while, unless memory is to stay as it is."""
        return contextlib.nullcontext() if self.fresh_memory else filled_page_cache()

    @classmethod
    def add_options(cls, parser: ArgumentParser) -> None:
        for option in fields(cls):
            name = f"--{option.name.replace('_', '-')}"
            if option.default is False:
                parser.add_argument(name, action="store_true", help="do not fill the page cache first")
            else:
                parser.add_argument(name, type=int, default=option.default, help=f"default {option.default:,}")

    @classmethod
    def of(cls, arguments: Namespace) -> Given:
        return cls(**{option.name: getattr(arguments, option.name) for option in fields(cls)})

    def as_options(self) -> list[str]:
        """The words of a command line that give the same."""
        words = []
        for option in fields(self):
            value, name = getattr(self, option.name), f"--{option.name.replace('_', '-')}"
            words += ([name] if value else []) if option.default is False else [name, str(value)]
        return words
