"""Texts of several brokers as one: Prometheus reads it, each metric is there once, and who is down is told."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from rmqspark.admin.metrics import exposition

IN = """# HELP rocketmq_messages_in_total Messages stored.
# TYPE rocketmq_messages_in_total counter
rocketmq_messages_in_total{{node_id="{name}",topic="orders"}} {count}
"""
SIZES = """# HELP rocketmq_message_size Bytes.
# TYPE rocketmq_message_size histogram
rocketmq_message_size_bucket{{le="1024.0",node_id="{name}"}} 1.0
rocketmq_message_size_bucket{{le="+Inf",node_id="{name}"}} 2.0
rocketmq_message_size_count{{node_id="{name}"}} 2.0
rocketmq_message_size_sum{{node_id="{name}"}} 3000.0
"""


def told(name: str, count: int) -> str:
    return IN.format(name=name, count=count) + SIZES.format(name=name)


def test_brokers_are_told_side_by_side() -> None:
    """HELP and TYPE once, all samples behind them, metrics by name."""
    text = exposition({"broker-a": told("broker-a", 3), "broker-b": told("broker-b", 4)}).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counts = {sample.labels["node_id"]: sample.value for sample in families["rocketmq_messages_in"].samples}
    assert counts == {"broker-a": 3, "broker-b": 4}
    assert families["rocketmq_message_size"].type == "histogram"
    assert len(families["rocketmq_message_size"].samples) == 8
    for keyword in ("HELP", "TYPE"):
        names = [line.split(" ")[2] for line in text.splitlines() if line.startswith(f"# {keyword}")]
        assert names == sorted(set(names))
        assert len(names) == 3


def test_who_did_not_answer_is_down() -> None:
    """And the others are up."""
    text = exposition({"broker-a": told("broker-a", 3), "broker-b": ""}).decode()
    (up,) = (family for family in text_string_to_metric_families(text) if family.name == "rmqspark_broker_up")
    assert {sample.labels["node_id"]: sample.value for sample in up.samples} == {"broker-a": 1, "broker-b": 0}


def test_no_brokers_are_an_exposition_too() -> None:
    """An empty one."""
    assert exposition({}) == b""


def test_what_one_broker_has_and_another_has_not_is_kept() -> None:
    """A cluster may have brokers of several versions."""
    new = told("broker-b", 4) + '# HELP new_gauge It.\n# TYPE new_gauge gauge\nnew_gauge{node_id="broker-b"} 1.0\n'
    names = [
        family.name
        for family in text_string_to_metric_families(
            exposition({"broker-a": told("broker-a", 3), "broker-b": new}).decode()
        )
    ]
    assert names == ["new_gauge", "rmqspark_broker_up", "rocketmq_message_size", "rocketmq_messages_in"]


def test_names_cannot_break_out_of_their_labels() -> None:
    """Nor what stands in the labels of others: only a line feed, which is escaped there, ends a line."""
    evil = 'b"} 1\nfake_metric 7\\'
    strange = IN.format(name="broker-a", count=3).replace("orders", "a\u2028b\x0bc\x85d")
    text = exposition({"broker-a": strange, evil: ""}).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {"rocketmq_messages_in", "rmqspark_broker_up"}
    assert evil in {sample.labels["node_id"] for sample in families["rmqspark_broker_up"].samples}
    assert families["rocketmq_messages_in"].samples[0].labels["topic"] == "a\u2028b\x0bc\x85d"
