"""What Prometheus is to raise an alarm for: one row a rule, and their YAML. Pure.

Thresholds are where something is wrong in most clusters; edit the file where yours is different. Each description says
what to do next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqspark.cli.dashboards.panels import once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Rule:
    """`lasting` is how long the expression has to give something, as Prometheus writes times; `severity` is warning or
    critical."""

    alert: str
    expression: str
    lasting: str
    severity: str
    summary: str
    description: str


_LAG: Final = f"sum by (cluster, consumer_group, topic) ({once('rocketmq_consumer_lag_messages')})"

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "rmqspark-brokers": (
        Rule(
            "RmqBrokerGone",
            "max by (cluster, node_id, instance) (last_over_time(rocketmq_broker_permission[6h])) "
            "unless on (cluster, node_id, instance) rocketmq_broker_permission",  # slaves have the name of their master
            "2m",
            "critical",
            "Broker {{ $labels.node_id }} of {{ $labels.cluster }}, at {{ $labels.instance }}, tells nothing any more.",
            "Prometheus has heard of it in the last six hours, and does not now. See what the others say:"
            " rmq cluster health. Then start it again, or look at its log. Its messages are away until "
            "then. If it was taken away on purpose, this ends by itself.",
        ),
        Rule(
            "RmqBrokerRefusesMessages",
            "min by (cluster, node_id) (rocketmq_broker_permission) < 6",
            "1m",
            "critical",
            "Broker {{ $labels.node_id }} may not be written to, or not be read.",
            "Its permission is {{ $value }}; 6 is both. Somebody has set it so, or took its write "
            "permission away for maintenance: rmq config get --broker {{ $labels.node_id }}",
        ),
        Rule(
            "RmqStoreTakesNothing",
            "min by (cluster, node_id) (rmqspark_store_writable) == 0",
            "1m",
            "critical",
            "The store of broker {{ $labels.node_id }} takes no messages.",
            "Its disk is full, or has failed: rmq cluster health. A full one takes messages again when there is room; "
            "after a failure, which the broker's log has, start the broker again once the disk is mended.",
        ),
        Rule(
            "RmqSendsAreSlow",
            "histogram_quantile(0.99, sum by (le, cluster, node_id) "
            '(rate(rocketmq_rpc_latency_milliseconds_bucket{request_code=~"send_.*"}[5m]))) > 1000',
            "5m",
            "warning",
            "One in a hundred sends takes {{ $value | humanize }} ms in {{ $labels.node_id }}.",
            "A disk that is slow to flush is the usual cause where flushDiskType is SYNC_FLUSH: rmq "
            "cluster info. Else there is more traffic than one broker can take, which is one process on "
            "one core: rmq top. More brokers share it.",
        ),
        Rule(
            "RmqRequestsFail",
            "sum by (cluster, node_id, request_code) "
            '(rate(rocketmq_rpc_latency_milliseconds_count{result="process_request_failed"}[5m])) > 0',
            "5m",
            "warning",
            "Broker {{ $labels.node_id }} fails at {{ $labels.request_code }}.",
            "It is a fault of the broker, not of who asks. Its log has what went wrong; rmq cluster "
            "health says whether its disk is full.",
        ),
        Rule(
            "RmqQueuesBehindTheLog",
            "max by (cluster, node_id) (rocketmq_storage_dispatch_behind_bytes) > 67108864",
            "5m",
            "warning",
            "{{ $value | humanize1024 }}B in {{ $labels.node_id }} are stored and cannot be read yet.",
            "Its disk refuses what is written to queues, or cannot keep up: rmq cluster health, and the broker's log.",
        ),
        Rule(
            "RmqFlushBehind",
            "max by (cluster, node_id) (rocketmq_storage_flush_behind_bytes) > 268435456",
            "5m",
            "warning",
            "{{ $value | humanize1024 }}B in {{ $labels.node_id }} are not on disk yet.",
            "A power loss now would take them. The disk cannot keep up, or fails: rmq cluster health, and the "
            "broker's log. What must survive is sent to a broker with flushDiskType SYNC_FLUSH.",
        ),
        Rule(
            "RmqDeliveriesAreLate",
            "max by (cluster, node_id) (rocketmq_timer_dequeue_latency_milliseconds) > 60",  # seconds, whatever it says
            "5m",
            "warning",
            "Messages with a deliver time come {{ $value | humanizeDuration }} late from {{ $labels.node_id }}.",
            "More are due than the broker can deliver, or its disk is full: rmq top, rmq cluster health. "
            "Nothing is lost; all are delivered, later.",
        ),
        Rule(
            "RmqMessagesUndelivered",
            "sum by (cluster, node_id) (increase(rmqspark_undelivered_messages_total[1h])) > 0",
            "0m",
            "warning",
            "{{ $value | humanize }} messages in {{ $labels.node_id }} whose time came can be delivered nowhere.",
            "They are larger than a file of the broker's log is now (rmq config get mapped_file_size_commit_log), and "
            "stay where they waited. The broker's log names each: send them again where they fit.",
        ),
        Rule(
            "RmqSlavesMissing",
            "max by (cluster, node_id) (rmqspark_slaves_wanted) > max by (cluster, node_id) (rmqspark_slaves_in_sync)",
            "2m",
            "warning",
            "Sends to {{ $labels.node_id }} wait for {{ $value }} slaves, and fewer are in sync.",
            "Senders are told that no slave has their messages, and Spark's exactly-once writes fail. Which slave is "
            "away or behind: rmq cluster health.",
        ),
        Rule(
            "RmqSlaveBehind",
            "max by (cluster, node_id, slave) (rmqspark_slave_behind_bytes) > 268435456",
            "5m",
            "warning",
            "The slave of {{ $labels.node_id }} at {{ $labels.slave }} is {{ $value | humanize1024 }}B behind.",
            "What it has not confirmed would be lost with its master. Its disk or network cannot keep up, or it has "
            "just been started: rmq cluster info.",
        ),
    ),
    "rmqspark-consumers": (
        Rule(
            "RmqGroupBehind",
            "max by (cluster, consumer_group, topic) "
            '(rocketmq_consumer_lag_latency_milliseconds{is_system="false"}) > 300000',
            "5m",
            "warning",
            "{{ $labels.consumer_group }} is {{ $value | humanize }} ms behind in {{ $labels.topic }}.",
            "How far in which queue, and when it will have caught up: rmq group describe {{ "
            "$labels.consumer_group }}. If nobody is connected for it, start its consumers; if it is no "
            "longer wanted: rmq group delete.",
        ),
        Rule(
            "RmqGroupFarBehind",
            "max by (cluster, consumer_group, topic) "
            '(rocketmq_consumer_lag_latency_milliseconds{is_system="false"}) > 3600000',
            "5m",
            "critical",
            "{{ $labels.consumer_group }} is more than an hour behind in {{ $labels.topic }}.",
            "Messages expire after fileReservedTime, read or not: rmq config get file_reserved_time. See "
            "rmq group describe {{ $labels.consumer_group }}; add consumers (as many as queues help), or "
            "skip: rmq group reset, with --dry-run first.",
        ),
        Rule(
            "RmqGroupDoesNotCatchUp",
            f"{_LAG} > 10000 and deriv({_LAG}[15m:1m]) > 0",
            "15m",
            "warning",
            "{{ $labels.consumer_group }} falls further behind in {{ $labels.topic }}: {{ $value | "
            "humanize }} messages.",
            "More comes in than it consumes: rmq top. Add consumers, up to one for each queue, and queues: rmq topic "
            "update {{ $labels.topic }} --queues N.",
        ),
        Rule(
            "RmqDeadLetters",
            "sum by (cluster, consumer_group) (increase(rocketmq_send_to_dlq_messages_total[10m])) > 0",
            "0m",
            "warning",
            "{{ $labels.consumer_group }} has given up {{ $value | humanize }} messages in ten minutes.",
            "Which, and why: rmq dlq list {{ $labels.consumer_group }}. Once their consumer is mended: "
            "rmq dlq resend {{ $labels.consumer_group }} --dry-run.",
        ),
        Rule(
            "RmqHalfMessagesWait",
            "min_over_time(sum by (cluster, topic) (rocketmq_half_messages)[30m:1m]) > 100",
            "0m",
            "warning",
            "{{ $value | humanize }} transactions for {{ $labels.topic }} have not been decided for half an hour.",
            "Their producers do not answer when the broker asks: are they connected? What nobody decides "
            "is set aside in TRANS_CHECK_MAX_TIME_TOPIC after some checks. One message's way: rmq message"
            " journey ID.",
        ),
    ),
    "rmqspark-spark": (
        Rule(
            "RmqQueryBehind",
            "max by (query) (rmqspark_query_seconds_behind) > 300",
            "5m",
            "warning",
            "Spark query {{ $labels.query }} is {{ $value | humanizeDuration }} behind.",
            "Why it is slow and which option to change: rmq spark diagnose {{ $labels.query }}. How far "
            "in which queue: rmq spark describe {{ $labels.query }}.",
        ),
        Rule(
            "RmqQueryBatchesAreSlow",
            "max by (query) (min_over_time(rmqspark_query_batch_duration_seconds[10m])) > 60",
            "0m",
            "warning",
            "Batches of Spark query {{ $labels.query }} take {{ $value | humanizeDuration }} or more.",
            "Which part of them: rmq spark diagnose {{ $labels.query }}. Smaller batches: option maxOffsetsPerTrigger.",
        ),
        Rule(
            "RmqBatchesNotReadable",
            'sum by (cluster) (min_over_time(rmqspark_transactions{state="completing"}[15m])) > 0',
            "0m",
            "warning",
            "Exactly-once batches in {{ $labels.cluster }} were committed and are not readable everywhere.",
            "Which, and where: rmq txn list. They wait for a broker that is away, or whose disk is full: "
            "rmq cluster health. Nothing of them is lost.",
        ),
    ),
}


def rules_yaml(rules: dict[str, tuple[Rule, ...]] = RULES) -> str:
    """As Prometheus reads it under `rule_files`. Texts are quoted as JSON quotes them, which YAML reads alike."""
    return "\n".join(_lines(rules)) + "\n"


def _lines(rules: dict[str, tuple[Rule, ...]]) -> Iterator[str]:
    yield "# Written by: rmq dashboards export. Thresholds are yours to change."
    yield "groups:"
    for name, group in rules.items():
        yield f"  - name: {name}"
        yield "    rules:"
        for rule in group:
            yield from _rule(rule)


def _rule(rule: Rule) -> Iterable[str]:
    return (
        f"      - alert: {rule.alert}",
        f"        expr: {json.dumps(rule.expression)}",
        f"        for: {rule.lasting}",
        "        labels:",
        f"          severity: {rule.severity}",
        "        annotations:",
        f"          summary: {json.dumps(rule.summary)}",
        f"          description: {json.dumps(rule.description)}",
    )
