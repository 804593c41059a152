"""Spark queries that read from here, and transactions. `rmqspark_` names are ours alone: with RocketMQ's brokers those
panels stay empty."""

from __future__ import annotations

from typing import Final

from rmqspark.cli.dashboards.panels import BROKER, CLUSTERS, QUERY, Dashboard, Panel, Series, Variable, lines, quantiles

QUERIES: Final = (*CLUSTERS, Variable("query", "query", "rmqspark_query_offsets_behind", "Spark query"))

SPARK: Final = Dashboard(
    "rmqspark-spark",
    "RocketMQ: Spark and transactions",
    "Spark queries that read from here, and transactions: of queries, and of single messages.",
    QUERIES,
    (
        (
            "Spark queries",
            (
                lines(
                    "Messages behind",
                    "That the query has not read, by source. Told by its listener (LagListener).",
                    f"max by (query, source) (rmqspark_query_offsets_behind{{{QUERY}}})",
                    "{{query}} {{source}}",
                ),
                lines(
                    "Time behind",
                    "For how long the first message that was not read has been stored.",
                    f"max by (query) (rmqspark_query_seconds_behind{{{QUERY}}})",
                    "{{query}}",
                    "s",
                ),
                lines(
                    "Batch time",
                    "Of the last micro-batch.",
                    f"max by (query) (rmqspark_query_batch_duration_seconds{{{QUERY}}})",
                    "{{query}}",
                    "s",
                ),
                lines(
                    "Exactly-once transactions",
                    "Transactional ids by state; who stays open for long waits for its driver.",
                    f"sum by (state) (rmqspark_transactions{{{BROKER}}})",
                    "{{state}}",
                ),
            ),
        ),
        (
            "Transactions of single messages",
            (
                lines(
                    "Half messages",
                    "Not decided by their producers, by topic.",
                    f"sum by (topic) (rocketmq_half_messages{{{BROKER}}})",
                    "{{topic}}",
                ),
                Panel(
                    "Decided",
                    "A second.",
                    (
                        Series(f"sum(rate(rocketmq_commit_messages_total{{{BROKER}}}[$__rate_interval]))", "committed"),
                        Series(
                            f"sum(rate(rocketmq_rollback_messages_total{{{BROKER}}}[$__rate_interval]))", "rolled back"
                        ),
                    ),
                    "cps",
                ),
                quantiles(
                    "Time until a transaction is decided",
                    "By topic. RocketMQ calls it milliseconds; the values are seconds.",
                    "rocketmq_finish_message_latency_milliseconds",
                    BROKER,
                    "topic",
                    "{{topic}}",
                    "s",
                ),
            ),
        ),
    ),
)
