"""What comes into topics, who reads it, and how far behind that is."""

from __future__ import annotations

from typing import Final

from rmqspark.cli.dashboards.panels import (
    BROKER,
    CLUSTERS,
    GROUP,
    TOPIC,
    Dashboard,
    Panel,
    Series,
    Variable,
    lines,
    once,
    quantiles,
)

TOPICS_AND_GROUPS: Final = (
    *CLUSTERS,
    Variable("topic", "topic", f"rocketmq_messages_in_total{{{BROKER}}}", "Topic"),
    Variable("consumer_group", "consumer_group", f"rocketmq_consumer_lag_messages{{{BROKER}}}", "Consumer group"),
)

TOPICS: Final = Dashboard(
    "rmqspark-topics",
    "RocketMQ: topics and groups",
    "What comes into topics, who reads it, and how far behind that is.",
    TOPICS_AND_GROUPS,
    (
        (
            "Topics",
            (
                lines(
                    "Messages in",
                    "A second, by topic.",
                    f"sum by (topic) (rate(rocketmq_messages_in_total{{{TOPIC}}}[$__rate_interval]))",
                    "{{topic}}",
                    "cps",
                ),
                lines(
                    "Bytes in",
                    "By topic.",
                    f"sum by (topic) (rate(rocketmq_throughput_in_total{{{TOPIC}}}[$__rate_interval]))",
                    "{{topic}}",
                    "Bps",
                ),
                lines(
                    "Kinds of messages",
                    "A second: normal, fifo, delay, transaction.",
                    f"sum by (message_type) (rate(rocketmq_messages_in_total{{{TOPIC}}}[$__rate_interval]))",
                    "{{message_type}}",
                    "cps",
                ),
                quantiles(
                    "Size of messages",
                    "By topic.",
                    "rocketmq_message_size",
                    TOPIC,
                    "topic",
                    "{{topic}}",
                    "bytes",
                ),
            ),
        ),
        (
            "Groups",
            (
                lines(
                    "Lag in messages",
                    "That the group has not consumed; retries too.",
                    f"sum by (consumer_group, topic) ({once('rocketmq_consumer_lag_messages', GROUP)})",
                    "{{consumer_group}} of {{topic}}",
                ),
                lines(
                    "Lag in time",
                    "For how long the first message that was not consumed has been stored.",
                    f"max by (consumer_group, topic) (rocketmq_consumer_lag_latency_milliseconds{{{GROUP}}})",
                    "{{consumer_group}} of {{topic}}",
                    "ms",
                ),
                lines(
                    "Messages out",
                    "A second, by group and topic.",
                    f"sum by (consumer_group, topic) (rate(rocketmq_messages_out_total{{{GROUP}}}[$__rate_interval]))",
                    "{{consumer_group}} of {{topic}}",
                    "cps",
                ),
                Panel(
                    "Handed out and waiting",
                    "Messages that consumers have and have not acknowledged, and those that they can still have.",
                    (
                        Series(
                            f"sum by (consumer_group) ({once('rocketmq_consumer_inflight_messages', GROUP)})",
                            "{{consumer_group}} handed out",
                        ),
                        Series(
                            f"sum by (consumer_group) ({once('rocketmq_consumer_ready_messages', GROUP)})",
                            "{{consumer_group}} waiting",
                        ),
                    ),
                ),
                lines(
                    "Waiting time",
                    "For how long the first message that no consumer has pulled has been stored.",
                    f"max by (consumer_group, topic) (rocketmq_consumer_queueing_latency_milliseconds{{{GROUP}}})",
                    "{{consumer_group}} of {{topic}}",
                    "ms",
                ),
                lines(
                    "Dead letters",
                    "Consumed in vain as often as the group allows, in five minutes.",
                    f"sum by (consumer_group) (increase(rocketmq_send_to_dlq_messages_total{{{GROUP}}}[5m]))",
                    "{{consumer_group}}",
                ),
            ),
        ),
        (
            "Messages that wait for their time",
            (
                lines(
                    "Waiting for a deliver time",
                    "By topic.",
                    f"sum by (topic) (rocketmq_timing_messages{{{TOPIC}}})",
                    "{{topic}}",
                ),
                lines(
                    "Delivery behind time",
                    "How late messages with a deliver time are, by broker. RocketMQ calls it milliseconds; the values "
                    "are seconds.",
                    f"max by (node_id) (rocketmq_timer_dequeue_latency_milliseconds{{{BROKER}}})",
                    "{{node_id}}",
                    "s",
                ),
                Panel(
                    "Taken in and delivered",
                    "Messages with a deliver time, a second.",
                    (
                        Series(f"sum(rate(rocketmq_timer_enqueue_total{{{TOPIC}}}[$__rate_interval]))", "taken in"),
                        Series(f"sum(rate(rocketmq_timer_dequeue_total{{{TOPIC}}}[$__rate_interval]))", "delivered"),
                    ),
                    "cps",
                ),
                quantiles(
                    "Delay that is asked for",
                    "Of messages with a deliver time, by topic.",
                    "rocketmq_delay_message_latency_seconds",
                    TOPIC,
                    "topic",
                    "{{topic}}",
                    "s",
                ),
            ),
        ),
    ),
)
