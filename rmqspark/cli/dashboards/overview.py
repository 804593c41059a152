"""Traffic, lag, disks and brokers of a cluster: what is looked at first."""

from __future__ import annotations

from typing import Final

from rmqspark.cli.dashboards.panels import BROKER, CLUSTERS, Dashboard, Panel, Series, lines, once, quantiles, stat

OVERVIEW: Final = Dashboard(
    "rmqspark-overview",
    "RocketMQ: overview",
    "Traffic, lag, disks and brokers of a cluster.",
    CLUSTERS,
    (
        (
            "Now",
            (
                stat("Brokers", "That Prometheus has heard of.", f"count(rocketmq_broker_permission{{{BROKER}}})"),
                stat(
                    "In",
                    "Messages a second that came in.",
                    f"sum(rate(rocketmq_messages_in_total{{{BROKER}}}[$__rate_interval]))",
                    "cps",
                ),
                stat(
                    "Out",
                    "Messages a second that consumers were given.",
                    f"sum(rate(rocketmq_messages_out_total{{{BROKER}}}[$__rate_interval]))",
                    "cps",
                ),
                stat(
                    "Lag",
                    "Messages that groups have not consumed.",
                    f"sum({once('rocketmq_consumer_lag_messages', BROKER)})",
                ),
                stat(
                    "Half messages",
                    "Of transactions that their producers have not decided.",
                    f"sum(rocketmq_half_messages{{{BROKER}}})",
                ),
                stat(
                    "Dead letters, last hour",
                    "Messages that groups have consumed in vain as often as they may.",
                    f"sum(increase(rocketmq_send_to_dlq_messages_total{{{BROKER}}}[1h]))",
                ),
            ),
        ),
        (
            "Traffic",
            (
                lines(
                    "Messages in",
                    "A second, by broker.",
                    f"sum by (node_id) (rate(rocketmq_messages_in_total{{{BROKER}}}[$__rate_interval]))",
                    "{{node_id}}",
                    "cps",
                ),
                lines(
                    "Messages out",
                    "A second, by broker.",
                    f"sum by (node_id) (rate(rocketmq_messages_out_total{{{BROKER}}}[$__rate_interval]))",
                    "{{node_id}}",
                    "cps",
                ),
                lines(
                    "Bytes in",
                    "As they are stored, by broker.",
                    f"sum by (node_id) (rate(rocketmq_throughput_in_total{{{BROKER}}}[$__rate_interval]))",
                    "{{node_id}}",
                    "Bps",
                ),
                lines(
                    "Bytes out",
                    "By broker.",
                    f"sum by (node_id) (rate(rocketmq_throughput_out_total{{{BROKER}}}[$__rate_interval]))",
                    "{{node_id}}",
                    "Bps",
                ),
            ),
        ),
        (
            "Brokers",
            (
                quantiles(
                    "Time a send takes",
                    "Inside the broker, by broker.",
                    "rocketmq_rpc_latency_milliseconds",
                    f'{BROKER},request_code=~"send_.*"',
                    "node_id",
                    "{{node_id}}",
                    "ms",
                ),
                lines(
                    "Requests",
                    "A second, by what is asked for.",
                    "sum by (request_code) "
                    f"(rate(rocketmq_rpc_latency_milliseconds_count{{{BROKER}}}[$__rate_interval]))",
                    "{{request_code}}",
                    "reqps",
                ),
                lines(
                    "Disk used",
                    "Bytes of the file system that the store is on, whoever uses them.",
                    f"max by (node_id) (rocketmq_storage_size_bytes{{{BROKER}}})",
                    "{{node_id}}",
                    "bytes",
                ),
                Panel(
                    "Behind",
                    "What is written and not on disk yet, and what is stored and in no queue yet.",
                    (
                        Series(
                            f"max by (node_id) (rocketmq_storage_flush_behind_bytes{{{BROKER}}})",
                            "{{node_id}} to be flushed",
                        ),
                        Series(
                            f"max by (node_id) (rocketmq_storage_dispatch_behind_bytes{{{BROKER}}})",
                            "{{node_id}} to be queued",
                        ),
                    ),
                    "bytes",
                ),
                Panel(
                    "Clients",
                    "Connections of producers and of consumers, by broker.",
                    (
                        Series(
                            f"sum by (node_id) (rocketmq_producer_connections{{{BROKER}}})", "{{node_id}} producers"
                        ),
                        Series(
                            f"sum by (node_id) (rocketmq_consumer_connections{{{BROKER}}})", "{{node_id}} consumers"
                        ),
                    ),
                ),
                Panel(
                    "Topics and groups",
                    "As each broker has them.",
                    (
                        Series(f"max by (node_id) (rocketmq_topic_number{{{BROKER}}})", "{{node_id}} topics"),
                        Series(f"max by (node_id) (rocketmq_consumer_group_number{{{BROKER}}})", "{{node_id}} groups"),
                    ),
                ),
                lines(
                    "How far back messages are kept",
                    "Age of the oldest message in the log, by broker.",
                    f"max by (node_id) (rocketmq_storage_message_reserve_time_milliseconds{{{BROKER}}})",
                    "{{node_id}}",
                    "ms",
                ),
                lines(
                    "Waiting requests",
                    "By what would answer them.",
                    f"sum by (processor) (rocketmq_processor_watermark{{{BROKER}}})",
                    "{{processor}}",
                ),
            ),
        ),
    ),
)
