"""Key-value configurations."""

from __future__ import annotations

import pytest

from rmqspark.errors import Busy
from rmqspark.namesrv.kv_table import KvTable


def test_put_get_delete() -> None:
    """What is put can be got until it is deleted; a namespace outlives its last key, as in RocketMQ."""
    table = KvTable(10)
    assert table.get("ns", "k") is None
    assert table.namespace("ns") is None
    table.put("ns", "k", "v")
    table.put("ns", "k", "w")
    assert table.get("ns", "k") == "w"
    assert table.namespace("ns") == {"k": "w"}
    table.delete("ns", "k")
    table.delete("nowhere", "k")
    assert table.namespace("ns") == {}


def test_bounds() -> None:
    """The table is bounded over all namespaces; what is there can still be changed."""
    table = KvTable(2)
    table.put("a", "1", "x")
    table.put("b", "1", "x")
    with pytest.raises(Busy):
        table.put("c", "1", "x")
    assert table.namespace("c") is None
    table.put("a", "1", "y")
    table.delete("a", "1")
    table.put("c", "1", "x")
