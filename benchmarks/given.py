"""What a run of `make bench` is asked for: sizes, and how often."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from spark_paths import filled_page_cache

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from contextlib import AbstractContextManager

SMALL, LARGE = 100, 1024  # bytes of a body
LARGE_SHARE = 4  # large bodies are this many times fewer


def _asked(default: int | bool, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class Given:
    """The same for every part; each takes what it needs. The fields are the options of the command line."""

    rows: int = _asked(3_000_000, "rows of 100 bytes of a run; of 1 KiB a quarter as many")
    repeat: int = _asked(5, "turns that count, after one that warms up")
    queues: int = _asked(8, "queues of each topic, ours and Kafka's partitions")
    seconds: int = _asked(10, "of each run at a rate (latency) and of a stock client")
    latency_queues: int = _asked(2, "queues where latency is measured: each is a task of every micro-batch")
    timeout: int = _asked(600, "seconds that a run may take")
    memory_rows: int = _asked(20_000_000, "rows of the batch that must not grow memory")
    store_messages: int = _asked(50_000_000, "messages of the largest store")
    topics: int = _asked(1_000, "topics, where they are many")
    fresh_memory: bool = _asked(False, "do not fill the page cache first")

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
                parser.add_argument(name, action="store_true", help=option.metadata["help"])
            else:
                told = f"{option.metadata['help']}; default {option.default:,}"
                parser.add_argument(name, type=int, default=option.default, help=told)

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
