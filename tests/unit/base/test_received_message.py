"""Messages as they are read: what a user holds, however their keys came."""

from __future__ import annotations

import copy
import gc
import pickle

import msgspec
import pytest

from rmqspark.model import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("t", "b", 0)


def message(keys: list[str] | tuple[str, ...], **other: object) -> ReceivedMessage:
    fields = {"tags": "paid", "properties": {"shop": "7"}, "msg_id": "ID", "queue": QUEUE, "queue_offset": 5, **other}
    return ReceivedMessage(topic="t", body=b"x", keys=keys, born_timestamp_ms=6, store_timestamp_ms=7, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [(), ("42",), ("1", "2")])
class TestKeysReceivedAsTuple:
    """A consumer makes messages with tuples for keys; nobody can tell."""

    def test_they_are_a_list_of_the_message_s_own(self, keys: tuple[str, ...]) -> None:
        """The same list every time, so that what is added to it stays, and nobody else's."""
        one, other = message(keys), message(keys)
        assert one.keys == list(keys)
        assert one.keys is one.keys
        one.keys.append("more")
        assert (one.keys, other.keys) == ([*keys, "more"], list(keys))

    def test_messages_are_equal_and_shown_alike(self, keys: tuple[str, ...]) -> None:
        """Equality and every way of showing a message know lists only."""
        listed = message(list(keys))
        assert message(keys) == listed
        assert listed == message(keys)
        assert message(keys) != message(["else"])
        assert repr(message(keys)) == repr(listed)
        assert list(message(keys).__rich_repr__()) == list(listed.__rich_repr__())
        assert msgspec.json.encode(message(keys)) == msgspec.json.encode(listed)

    def test_copies_are_equal(self, keys: tuple[str, ...]) -> None:
        """Copies, pickles and messages with one thing replaced have the same keys."""
        copies = (copy.copy(message(keys)), copy.deepcopy(message(keys)), pickle.loads(pickle.dumps(message(keys))))
        assert copies == (message(keys),) * 3
        assert [each.keys for each in copies] == [list(keys)] * 3
        assert msgspec.structs.replace(message(keys), flag=1).keys == list(keys)


def test_a_message_is_nothing_but_its_fields() -> None:
    """It equals no other thing, has no hash, cannot be changed, and can be matched by its fields."""
    one = message(["42"])
    assert one != 5
    assert one != message(["42"], msg_id="other")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    for name in ("topic", "keys"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(one, name, "else")
    match one:
        case ReceivedMessage(topic="t", keys=[key]):
            assert key == "42"
        case _:
            pytest.fail("not matched")


def test_messages_are_none_of_the_garbage_collector_s_business() -> None:
    """Many messages do not make its work longer, whether they have keys or not."""
    gc.collect()
    before = len(gc.get_objects())
    held = [message(tuple(f"{number} k".split())) for number in range(1_000)] + [message(()) for _ in range(1_000)]
    gc.collect()  # looks at the tuples once
    assert len(gc.get_objects()) - before < 100
    assert len(held) == 2_000
