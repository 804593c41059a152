"""The first look at a cluster, as it is shown."""

from __future__ import annotations

from rmqspark.admin.schemas.cluster import ClusterView
from rmqspark.admin.values import Document


class OverviewView(Document):
    """`halfMessages`: of stock producers, sent and not known to be decided; `openTransactions`: of Spark's batches;
    `deadLetters`: not sent again. Null is unknown.
    `silent` are brokers that do not answer, and why: what they know is in none of these."""

    cluster: ClusterView
    topic_count: int | None
    half_messages: int | None
    open_transactions: int | None
    silent: dict[str, str]
    dead_letters: int | None
