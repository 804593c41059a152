"""Records of every kind, for hypothesis: both versions, all widths of hosts, whatever a field may hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rmqspark.protocol.records.record import encode_record

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)

# Short texts of few letters, separators among them, make malformed, repeated and misleading pairs likely.
loose_properties = st.lists(
    st.sampled_from(
        ["TAGS", "KEYS", "UNIQ_KEY", "XTAGS", "a", "b", "é", "\x01", "\x02", "=", "TAGS\x01x\x02", "\x01TAGS\x01"]
    ),
    max_size=14,
).map(lambda parts: "".join(parts).encode())

record_fields: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["T", "TopicTest", "x" * 127, "x" * 128, "%RETRY%" + "g" * 240, "主题"]),
        "body": st.binary(max_size=40),
        "properties": loose_properties | st.binary(max_size=30),
        "queue_id": int32s,
        "flag": int32s,
        "sys_flag": st.sampled_from([0, 1, 0x301, 0x4, 0x8, 0xC, 0x40]),
        "queue_offset": int64s,
        "physical_offset": int64s,
        "born_timestamp_ms": int64s,
        "born_host": hosts,
        "store_timestamp_ms": int64s,
        "store_host": hosts,
        "reconsume_times": int32s,
        "prepared_transaction_offset": int64s,
    }
)

encoded_records = record_fields.map(lambda fields: bytes(encode_record(**fields)))
