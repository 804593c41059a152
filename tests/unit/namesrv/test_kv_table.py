"""Key-value configurations."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rmqspark.errors import Busy, InvalidArgument
from rmqspark.namesrv.kv_table import MAX_ENTRY_BYTES, ORDER_TOPIC_CONFIG, KvTable
from rmqspark.protocol.bodies.route import KVTable
from rmqspark.protocol.commands.frame import MAX_ANSWER_BYTES


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


def test_long_entries_are_refused() -> None:
    """Ten thousand entries are bounded memory only if each is short, in bytes and not in characters."""
    table = KvTable(10_000)
    table.put("n", "k", "v" * (MAX_ENTRY_BYTES - 2))
    for entry in (("n", "k", "v" * (MAX_ENTRY_BYTES - 1)), ("n" * 5000, "k", "v"), ("n", "k", "€" * 2000)):
        with pytest.raises(InvalidArgument, match="4096 are allowed"):
            table.put(*entry)
    assert table.get("n", "k") == "v" * (MAX_ENTRY_BYTES - 2)


@pytest.mark.parametrize("letter", ["v", "\1", "€"])
def test_all_of_a_namespace_fits_into_an_answer(letter: str) -> None:
    """Brokers are answered all order configurations when they register: longer than a frame, none could."""
    table = KvTable(20_000)
    with suppress(Busy):
        for number in range(10_000):
            table.put(ORDER_TOPIC_CONFIG, str(number), letter * 1_300)
    orders = table.namespace(ORDER_TOPIC_CONFIG)
    assert orders is not None
    assert len(KVTable(dict(orders)).encode()) < MAX_ANSWER_BYTES
    table.put(ORDER_TOPIC_CONFIG, "0", letter)
    table.put("other", "0", letter * 1_300)


def test_empty_namespaces_do_not_pile_up() -> None:
    """Namespaces put and emptied again and again take no more room than the table has."""
    table = KvTable(2)
    for number in range(10):
        table.put(str(number), "k", "v")
        table.delete(str(number), "k")
    assert [number for number in range(10) if table.namespace(str(number)) is not None] == [8, 9]
