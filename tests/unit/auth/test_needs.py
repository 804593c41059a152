"""What is asked of a request, part by part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rmqspark.auth.needs import (
    Here,
    Part,
    on_cluster,
    on_coordinator,
    on_route,
    on_send,
    on_status,
    on_topic,
    on_topic_at,
    on_topic_list,
    on_topic_of_id,
    on_topics_read,
    on_transaction,
)
from rmqspark.auth.resources import Action
from rmqspark.protocol.records.message_id import offset_msg_id, pack_host

PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET
ID = offset_msg_id(pack_host("10.0.0.1", 10911), 700)
HERE = Here(
    "c1", {700: "orders"}.get, lambda query_id, batch_id: {("q", 4): ["orders", "bills", "orders"]}[query_id, batch_id]
)


@pytest.mark.parametrize(
    ("part", "header", "needs"),
    [
        (on_topic(PUB, GET), {"topic": "orders"}, [("Topic:orders", PUB, GET)]),
        (on_topic(PUB), {"topic": None}, []),
        (on_topic(PUB), {"topic": " "}, []),
        (on_topic_list(SUB), {"topicList": "a;;b"}, [("Topic:a", SUB), ("Topic:b", SUB)]),
        (on_topic_list(SUB), {"topicList": None}, []),
        (on_cluster(GET), {}, [("Cluster:c1", GET)]),
        (on_cluster(GET, field="clusterName"), {"clusterName": "c2"}, [("Cluster:c2", GET)]),
        (on_coordinator(PUB), {"coordinator": "broker-b"}, [("Cluster:c1", PUB)]),
        (on_coordinator(PUB), {"coordinator": None}, []),
        (on_topic_at(SUB, field="offset"), {"offset": 700}, [("Topic:orders", SUB)]),
        (on_topic_at(SUB, field="offset"), {"offset": 0}, []),
        (on_topic_of_id(SUB), {"msgId": ID}, [("Topic:orders", SUB)]),
        (on_topic_of_id(SUB), {"msgId": "none"}, []),
        (on_topic_of_id(SUB), {"msgId": None}, []),
        (on_transaction(PUB), {"transactionalId": "t"}, [("Group:t", PUB)]),
        (on_transaction(PUB), {"transactionalId": None}, [("Group:*", PUB)]),
        (on_route(), {"topic": "orders"}, [("Topic:orders", PUB, SUB, GET)]),
        (on_route(), {"topic": "%RETRY%g"}, [("Group:g", SUB, GET)]),
        (on_route(), {"topic": "TBW102"}, []),
        (on_status(), {"transactionalId": "t", "fence": True}, [("Group:t", PUB)]),
        (on_status(), {"transactionalId": "t", "fence": False}, [("Group:t", PUB, GET)]),
        (on_topics_read(), {"queryId": "q", "batchId": 4}, [("Topic:orders", SUB, GET), ("Topic:bills", SUB, GET)]),
        (on_send("b", "i")[0], {"b": "orders", "i": None}, [("Topic:orders", PUB)]),
        (on_send("b", "i")[0], {"b": "%RETRY%g", "i": "TAGS\x01a\x02"}, [("Group:g", SUB)]),
        (
            on_send("b", "i")[0],
            {"b": "orders", "i": "TIMER_DEL_UNIQKEY\x01bills+id\x02"},
            [("Topic:orders", PUB), ("Topic:bills", PUB)],
        ),
        (on_send("b", "i")[0], {"b": "orders", "i": "TIMER_DEL_UNIQKEY\x01id\x02"}, [("Topic:orders", PUB)]),
    ],
)
def test_what_a_request_needs(part: Part, header: dict[str, Any], needs: list[Any]) -> None:
    """One of several actions is enough; a request that names nothing is for its handler to refuse."""
    request: Any = SimpleNamespace(header=SimpleNamespace(**header))
    assert [(need.resource.key, *need.actions) for need in part.needs(request, HERE)] == needs
