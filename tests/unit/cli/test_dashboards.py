"""Grafana dashboards and Prometheus rules: only names that brokers have on the wire, in shapes that both tools take."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, get_args

import pytest
import yaml
from typer.testing import CliRunner

from rmqspark.broker.metrics.families import FAMILIES, WRITABLE
from rmqspark.cli.dashboards.grafana import dashboard_json
from rmqspark.cli.dashboards.overview import OVERVIEW
from rmqspark.cli.dashboards.rules import RULES, rules_yaml
from rmqspark.cli.dashboards.spark import SPARK
from rmqspark.cli.dashboards.topics import TOPICS
from rmqspark.cli.verbs import LoadedVerbs, app
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.request import Result

if TYPE_CHECKING:
    from pathlib import Path

DASHBOARDS = (OVERVIEW, TOPICS, SPARK)
NODE = "cluster node_type node_id"
STORAGE = f"{NODE} storage_type storage_medium"

# As RocketMQ 5.1.4 and newer have them on the wire, with their labels beside those of every sample; ours at the end.
GAUGES = {
    "rocketmq_processor_watermark": "processor",
    **dict.fromkeys(("rocketmq_broker_permission", "rocketmq_topic_number", "rocketmq_consumer_group_number"), ""),
    "rocketmq_producer_connections": "language version protocol_type",
    "rocketmq_consumer_connections": "consumer_group language version consume_mode protocol_type is_system",
    **dict.fromkeys(
        (
            "rocketmq_consumer_lag_messages",
            "rocketmq_consumer_inflight_messages",
            "rocketmq_consumer_ready_messages",
            "rocketmq_consumer_lag_latency_milliseconds",
            "rocketmq_consumer_queueing_latency_milliseconds",
        ),
        "consumer_group topic is_retry is_system",
    ),
    "rocketmq_half_messages": "topic",
    **dict.fromkeys(
        (
            "rocketmq_storage_size_bytes",
            "rocketmq_storage_flush_behind_bytes",
            "rocketmq_storage_dispatch_behind_bytes",
            "rocketmq_storage_message_reserve_time_milliseconds",
            "rocketmq_timer_enqueue_lag",
            "rocketmq_timer_enqueue_latency_milliseconds",
            "rocketmq_timer_dequeue_lag",
            "rocketmq_timer_dequeue_latency_milliseconds",
        ),
        STORAGE,
    ),
    "rocketmq_timing_messages": f"topic {STORAGE}",
    "rocketmq_timer_message_snapshot": "timer_bound_s",
    **dict.fromkeys(("rmqspark_slaves", "rmqspark_slaves_in_sync", "rmqspark_slaves_wanted"), ""),
    "rmqspark_slave_behind_bytes": "slave",
    "rmqspark_transactions": "state",
    "rmqspark_query_offsets_behind": "query source",
    "rmqspark_query_seconds_behind": "query",
    "rmqspark_query_batch_duration_seconds": "query",
    "rmqspark_store_writable": "",
}
COUNTERS = {
    **dict.fromkeys(("rocketmq_messages_in_total", "rocketmq_throughput_in_total"), "topic message_type is_system"),
    **dict.fromkeys(("rocketmq_messages_out_total", "rocketmq_throughput_out_total"), "topic consumer_group is_system"),
    "rocketmq_send_to_dlq_messages_total": "consumer_group topic is_system",
    **dict.fromkeys(("rocketmq_commit_messages_total", "rocketmq_rollback_messages_total"), "topic"),
    **dict.fromkeys(("rocketmq_timer_enqueue_total", "rocketmq_timer_dequeue_total"), f"topic {STORAGE}"),
    "rmqspark_undelivered_messages_total": "",
}
HISTOGRAMS = {
    "rocketmq_message_size": "topic message_type is_system",
    "rocketmq_topic_create_execution_time_milliseconds": "invocation_status is_system",
    "rocketmq_consumer_group_create_execution_time_milliseconds": "invocation_status",
    "rocketmq_finish_message_latency_milliseconds": "topic",
    "rocketmq_delay_message_latency_seconds": f"topic {STORAGE}",
    "rocketmq_rpc_latency_milliseconds": "protocol_type request_code response_code is_long_polling result",
}
ACCUMULATED = COUNTERS | {
    f"{name}_{part}": f"{labels} le" if part == "bucket" else labels
    for name, labels in HISTOGRAMS.items()
    for part in ("bucket", "sum", "count")
}
LABELS = {name: {*NODE.split(), "instance", *labels.split()} for name, labels in (GAUGES | ACCUMULATED).items()}

_METRIC = re.compile(r"\b(?:rocketmq|rmqspark)_\w+")
_SELECTED = re.compile(r"((?:rocketmq|rmqspark)_\w+)\{([^}]*)\}")
_ONCE = re.compile(r"max by \(cluster, node_id, consumer_group, [^)]*\) ")
_BY = re.compile(r"\b(?:by|on) \(([^)]*)\)")

EXPRESSIONS = {
    **{
        f"{board.title}: {panel.title}: {number}": series.expression
        for board in DASHBOARDS
        for _, panels in board.rows
        for panel in panels
        for number, series in enumerate(panel.series)
    },
    **{rule.alert: rule.expression for rules in RULES.values() for rule in rules},
}
LEGENDS = [
    (series.expression, series.legend)
    for board in DASHBOARDS
    for _, panels in board.rows
    for panel in panels
    for series in panel.series
]
ALL_RULES = [rule for rules in RULES.values() for rule in rules]


def labels_left(expression: str) -> set[str]:
    """Those that the series have which it gives."""
    return {label for labels in _BY.findall(_ONCE.sub("", expression)) for label in labels.split(", ")} - {"le"}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_name_is_on_the_wire(expression: str) -> None:
    """Each metric, and each label that it is chosen or summed by. What only grows is asked for its growth, and a gauge
    never is."""
    names = _METRIC.findall(expression)
    assert names
    assert [name for name in names if name not in LABELS] == []
    for name, selectors in _SELECTED.findall(expression):
        assert {each.partition("=")[0].rstrip("!") for each in selectors.split(",")} <= LABELS[name]
    for labels in _BY.findall(expression):
        assert all(set(labels.split(", ")) <= LABELS[name] for name in names)
    for name in names:
        grows = re.search(rf"\b(?:rate|increase)\({name}\b", expression) is not None
        assert grows == (name in ACCUMULATED)


def test_what_became_of_requests_is_asked_in_the_words_that_tell_it() -> None:
    """A rule about a word that no broker says would never fire."""
    asked = {word for expression in EXPRESSIONS.values() for word in re.findall(r'\bresult="(\w+)"', expression)}
    assert asked
    assert asked <= set(get_args(Result))


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_expression_is_whole(expression: str) -> None:
    """Each bracket that opens is closed by its own kind, outside of texts."""
    opened = []
    for sign in re.sub(r'"[^"]*"', "", expression):
        if sign in "([{":
            opened.append(sign)
        elif sign in ")]}":
            assert opened
            assert opened.pop() + sign in ("()", "[]", "{}")
    assert opened == []


@pytest.mark.parametrize(("expression", "legend"), LEGENDS)
def test_a_legend_names_what_the_expression_leaves(expression: str, legend: str) -> None:
    """Lines would else be called alike."""
    left = labels_left(expression)
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) == left


def test_times_are_told_in_the_unit_that_they_have() -> None:
    """Which of two metrics is not the one in its name: RocketMQ's milliseconds, which are seconds."""
    in_seconds = {family.name for family in FAMILIES if "_seconds" in family.name or family.meaning[:7] == "Seconds"}
    in_ms = {family.name for family in FAMILIES if "_milliseconds" in family.name} - in_seconds
    told = [(panel.unit, panel.series[0].expression) for board in DASHBOARDS for _, row in board.rows for panel in row]
    for unit, expression in told:
        (name,) = {each.removesuffix("_bucket") for each in _METRIC.findall(expression)}
        assert (unit == "s", unit == "ms") == (name in in_seconds, name in in_ms), expression
    for rule in ALL_RULES:
        if not in_seconds.isdisjoint(_METRIC.findall(rule.expression)):
            assert "{{ $value | humanizeDuration }}" in rule.summary
            assert " ms" not in rule.summary


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda board: board.uid)
def test_a_dashboard_is_one_that_grafana_imports(dashboard: Any) -> None:
    """Panels with ids of their own that do not lie on each other, each with its data source; variables that are used
    are there."""
    made = json.loads(json.dumps(dashboard_json(dashboard, "Prom")))
    assert (made["schemaVersion"], made["uid"], made["title"]) == (39, dashboard.uid, dashboard.title)
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(_x(panel) >= 0 and _x(panel) + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert [(a["title"], b["title"]) for a, b in combinations(panels, 2) if _overlap(a["gridPos"], b["gridPos"])] == []
    assert {panel["type"] for panel in panels} <= {"row", "stat", "timeseries"}
    drawn = [panel for panel in panels if panel["type"] != "row"]
    assert all(panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"} for panel in drawn)
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in drawn)
    assert all(len({t["refId"] for t in panel["targets"]}) == len(panel["targets"]) for panel in drawn)
    variables = {each["name"]: each for each in made["templating"]["list"]}
    assert variables["datasource"]["current"]["value"] == "Prom"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(made))) - {"__rate_interval", "__all"}
    assert used == set(variables) | {"datasource"}
    for each in made["templating"]["list"][1:]:
        metric, selectors, label = re.fullmatch(
            r"label_values\((\w+)(?:\{(.*)\})?, (\w+)\)", each["query"]["query"]
        ).groups()
        assert label in LABELS[metric]
        assert all(selector.partition("=")[0] in LABELS[metric] for selector in (selectors or "cluster").split(","))


def _x(panel: dict[str, Any]) -> int:
    return panel["gridPos"]["x"]


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    apart = (
        one["x"] + one["w"] <= other["x"]
        or other["x"] + other["w"] <= one["x"]
        or one["y"] + one["h"] <= other["y"]
        or other["y"] + other["h"] <= one["y"]
    )
    return not apart


def test_panels_are_called_apart() -> None:
    """Within a dashboard each title is there once; each dashboard has its own uid."""
    for dashboard in DASHBOARDS:
        titles = [panel.title for _, panels in dashboard.rows for panel in panels]
        assert len(set(titles)) == len(titles)
    assert len({dashboard.uid for dashboard in DASHBOARDS}) == len(DASHBOARDS)


def test_grafana_chooses_its_default_where_none_is_named() -> None:
    assert "current" not in dashboard_json(OVERVIEW, None)["templating"]["list"][0]


def test_rules_are_ones_that_prometheus_reads() -> None:
    """What is written is what the table says, quoted so that YAML reads it back."""
    document = yaml.safe_load(rules_yaml())
    assert list(document) == ["groups"]
    assert [group["name"] for group in document["groups"]] == list(RULES)
    for group, rules in zip(document["groups"], RULES.values(), strict=True):
        assert set(group) == {"name", "rules"}
        assert [
            (r["alert"], r["expr"], r["for"], r["labels"], r["annotations"]["summary"], r["annotations"]["description"])
            for r in group["rules"]
        ] == [(r.alert, r.expression, r.lasting, {"severity": r.severity}, r.summary, r.description) for r in rules]
    assert len({rule.alert for rule in ALL_RULES}) == len(ALL_RULES)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.alert)
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: Any) -> None:
    """A summary of one sentence, a description with a command that is there; labels that the expression leaves."""
    assert re.fullmatch(r"[0-9]+[smh]", rule.lasting)
    assert rule.severity in ("warning", "critical")
    assert rule.summary.endswith(".")
    assert re.fullmatch(r"[A-Z]\w+", rule.alert)
    named = [words.split() for words in re.findall(r"rmq ([a-z]+(?: [a-z]+)?)", rule.description)]
    assert named
    for words in named:
        verb = LoadedVerbs()[words[0]]
        assert words[1:] == [] or not hasattr(verb, "commands") or words[1] in verb.commands, words
    left = labels_left(rule.expression)
    assert set(re.findall(r"\$labels\.(\w+)", rule.summary + rule.description)) <= left


def test_what_slaves_tell_too_is_added_up_once() -> None:
    """They have the lags of their master's groups, and its name."""
    sums = [each for each in EXPRESSIONS.values() if "sum" in each and re.search(r"_consumer_\w+_messages", each)]
    assert len(sums) == 5
    for expression in sums:
        assert _ONCE.search(expression)


def test_a_broker_that_takes_nothing_raises_an_alarm() -> None:
    """Its permission stays what it is while its disk is full: another metric says so, and a rule goes by that."""
    (rule,) = (each for each in ALL_RULES if WRITABLE.name in each.expression)
    assert (rule.severity, rule.expression[-4:]) == ("critical", "== 0")


def _exported(*words: str) -> Any:
    return CliRunner().invoke(app, ["dashboards", "export", *words], prog_name="rmq")


def test_files_are_written_and_the_next_step_is_said(tmp_path: Path) -> None:
    """In a directory that is made for them; once more changes nothing."""
    into = tmp_path / "a" / "b"
    for _ in range(2):
        outcome = _exported("-o", str(into), "--datasource", "Prom")
        assert outcome.exit_code == 0
    names = {path.name for path in into.iterdir()}
    assert names == {*(f"{board.uid}.json" for board in DASHBOARDS), "rmqspark-rules.yml"}
    assert all(str(into / name) in outcome.stdout for name in names)
    assert f'rule_files: ["{into / "rmqspark-rules.yml"}"]' in outcome.stdout
    assert json.loads((into / "rmqspark-overview.json").read_text())["uid"] == "rmqspark-overview"
    assert yaml.safe_load((into / "rmqspark-rules.yml").read_text())["groups"]


def test_what_was_changed_by_hand_is_replaced_only_with_leave(tmp_path: Path) -> None:
    """Thresholds are made to be changed; without a terminal there is nobody to ask. Nothing is written then."""
    assert _exported("-o", str(tmp_path)).exit_code == 0
    rules, overview = tmp_path / "rmqspark-rules.yml", tmp_path / "rmqspark-overview.json"
    rules.write_text("mine")
    overview.unlink()
    refused = _exported("-o", str(tmp_path)).exception
    assert isinstance(refused, InvalidArgument)
    assert "has rmqspark-rules.yml with other contents" in str(refused)
    assert (rules.read_text(), overview.exists()) == ("mine", False)
    assert _exported("-o", str(tmp_path), "--yes").exit_code == 0
    assert rules.read_text() == rules_yaml()


def test_files_have_a_place_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _exported().exit_code == 0
    assert (tmp_path / "rmq-dashboards" / "rmqspark-rules.yml").is_file()


@pytest.mark.parametrize("words", [("-o", ""), ("--datasource", "")])
def test_nothing_is_named_by_an_empty_word(words: tuple[str, ...]) -> None:
    assert isinstance(_exported(*words).exception, InvalidArgument)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    outcome = _exported("-o", str(tmp_path / "file"))
    assert isinstance(outcome.exception, InvalidArgument)
    assert (tmp_path / "file").read_text() == "mine"


def test_what_studio_shows_is_shown() -> None:
    """RocketMQ's own console has these panels."""
    shown = {name for expression in EXPRESSIONS.values() for name in _METRIC.findall(expression)}
    assert shown >= {
        "rocketmq_messages_in_total",
        "rocketmq_messages_out_total",
        "rocketmq_throughput_in_total",
        "rocketmq_throughput_out_total",
        "rocketmq_consumer_lag_messages",
        "rocketmq_consumer_lag_latency_milliseconds",
        "rocketmq_topic_number",
        "rocketmq_consumer_group_number",
    }
