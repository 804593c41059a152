"""The page on the storage format quotes the layouts; they are those of the code."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from rmqspark.protocol.records import record
from rmqspark.store import checkpoint, deletions, identity
from rmqspark.store.index import index_file
from rmqspark.store.queues import consume_queue
from rmqspark.store.recovery import run_marker

PAGE = Path(__file__).parents[3] / "docs" / "storage-format.md"


def test_quoted_layouts_are_the_code_s() -> None:
    """A reader can paste the structs from the page and read a store with them."""
    quoted: list[tuple[str, str]] = []
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        names: dict[str, struct.Struct] = {}
        exec(block, {"struct": struct}, names)  # our own page
        quoted += [(name, layout.format) for name, layout in names.items()]
    assert quoted == [
        ("HEAD", record._HEADS[0].format),
        ("ENTRY", consume_queue.ENTRY.format),
        ("HEADER", index_file.HEADER.format),
        ("ENTRY", index_file.ENTRY.format),
    ]


def test_every_file_is_described() -> None:
    """No file of a store goes without a word."""
    page = PAGE.read_text()
    for path in (
        checkpoint.PATH,
        run_marker.PATH,
        identity.PATH,
        deletions.PATH,
        "lock",
        "commitlog",
        "consumequeue",
        "index",
        "config",
    ):
        assert f"`{path}" in page
