"""Properties read in a few cuts say what all their pairs say, or they are not read that way."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.broker.sending.drafting import NOT_AT_ONCE, waits_for_flush
from rmqspark.broker.sending.usual_properties import BROKERS_NAMES, read_usual
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import parse_properties
from rmqspark.store.draft import index_keys

PIECES = ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "XKEYS", "TRAN_MSG", "DELAY", "CLUSTER", "false", "a b", " ", "ü", "x"]
# Mostly pairs, some of them doubled, empty, without an end or with one name inside another's value.
TEXTS = st.lists(
    st.tuples(
        st.sampled_from(PIECES), st.sampled_from(["\x01", "\x01", "\x01", ""]), st.sampled_from([*PIECES, ""])
    ).map("".join),
    max_size=6,
).flatmap(lambda segments: st.sampled_from(["\x02".join(segments), "\x02".join([*segments, ""]), "".join(segments)]))


@given(TEXTS)
@example("UNIQ_KEY\x01aKEYS\x01b\x02KEYS\x01\x02")
@example("UNIQ_KEY\x01aKEYS\x01b\x02KEYS\x01c\x02")
@example("KEYS\x01aUNIQ_KEY\x01b\x02UNIQ_KEY\x01\x02")
@example("KEYS\x01aUNIQ_KEY\x01b\x02")
@example("XUNIQ_KEY\x01b\x02")
@example("a\x01UNIQ_KEY\x01b\x02")
@example("XKEYS\x01k\x02UNIQ_KEY\x01b\x02")
@example("UNIQ_KEY\x01b\x02UNIQ_KEY\x01c\x02")
@example("KEYS\x01k\x02KEYS\x01l\x02UNIQ_KEY\x01b\x02")
@example("UNIQ_KEY\x01b\x02TAGS\x01a")
@example("XUNIQ_KEY\x01b\x02UNIQ_KEY\x01\x02")
@example("XKEYS\x01k\x02KEYS\x01\x02UNIQ_KEY\x01b\x02")
def test_both_ways_of_reading_find_the_same(text: str) -> None:
    """However a client bends its properties, a message has the id, keys, tags and wishes that every reader finds."""
    usual = read_usual(text)
    if usual is not None:
        outline, keys = usual
        properties = parse_properties(text)
        assert keys[0] == properties["UNIQ_KEY"]
        assert keys == index_keys(properties)
        assert outline.tags_code == tags_code(properties.get("TAGS"))
        assert outline.waits_for_flush == waits_for_flush(properties)
        assert properties.keys().isdisjoint({*NOT_AT_ONCE, *BROKERS_NAMES})


@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x0117\x02WAIT\x01true\x02",
        "KEYS\x01order-17\x02UNIQ_KEY\x0117\x02WAIT\x01false\x02TAGS\x01paid\x02",
        "UNIQ_KEY\x0117\x02WAIT\x01true\x02KEYS\x01order-17 buyer-4\x02customer\x01Ada\x02",
        "WAIT\x01true\x02UNIQ_KEY\x0117",
    ],
)
def test_what_stock_clients_send_is_usual(text: str) -> None:
    """The quick way is the one taken."""
    assert read_usual(text) is not None


@pytest.mark.parametrize(
    "text", ["", "WAIT\x01true\x02", "UNIQ_KEY\x01ü\x02", "UNIQ_KEY\x0117\x02a\x01" + "x" * 600, "UNIQ_KEY\x01\x02"]
)
def test_what_is_not_usual_is_left_alone(text: str) -> None:
    """No id, other than ASCII, too long to be remembered."""
    assert read_usual(text) is None
