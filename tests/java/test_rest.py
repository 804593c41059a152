"""REST over Apache RocketMQ's own servers: `rmq admin` needs nothing of ours in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import ours
import pytest
from rocketmq import wait_for

from rmqspark import AdminClient, PullConsumer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.integration]


def test_rest_administers_a_stock_cluster(stock: str, tmp_path: Path) -> None:
    """Topics, messages by offset, key, tag and id, groups and their reset, settings; what only our brokers know is
    empty, and asking for it by name is not found."""
    with ours.admin(tmp_path, stock) as url, httpx.Client(base_url=f"{url}/api/v1", timeout=60) as rest:
        (broker,) = rest.get("/brokers").json()["items"]
        assert broker["state"] == "ok"
        assert "rmqspark" not in broker["version"]
        assert rest.post("/topics", json={"topic": "by-rest", "queues": 2}).json()["queues"] == 2
        for number in range(6):
            document = {"body": f"n{number}", "tags": "odd" if number % 2 else "even", "keys": [f"k{number}"]}
            receipt = rest.post("/topics/by-rest/messages", json=document)
            assert receipt.status_code == 201, receipt.text
        listed = rest.get("/topics/by-rest/messages", params={"limit": 10}).json()["items"]
        assert sorted(message["body"] for message in listed) == [f"n{number}" for number in range(6)]
        tagged = rest.get("/topics/by-rest/messages", params={"tags": "odd", "newest": True}).json()["items"]
        assert sorted(message["body"] for message in tagged) == ["n1", "n3", "n5"]
        by_key = "/messages?topic=by-rest&key=k5"
        wait_for(lambda: rest.get(by_key).json()["items"], "the index of the stock broker has it")
        (message,) = rest.get(by_key).json()["items"]
        assert rest.get(f"/messages/{message['msgId']}?topic=by-rest").json() == message
        assert rest.get(f"/messages/{message['offsetMsgId']}").json() == message
        with PullConsumer(stock, group="rest-readers") as consumer:
            consumer.assign(consumer.queues("by-rest"))
            consumer.commit({queue: consumer.max_offset(queue) for queue in consumer.queues("by-rest")})
        wait_for(lambda: rest.get("/groups/rest-readers").json().get("lag") == 0, "the group's offsets are told")
        reset = rest.post("/groups/rest-readers/reset", json={"to": "earliest", "topic": "by-rest"})
        assert reset.status_code == 200, reset.text
        assert rest.get("/groups/rest-readers").json()["lag"] == 6
        by_name = {
            setting["setting"]: setting for setting in rest.get(f"/config/{broker['brokerName']}").json()["items"]
        }
        assert by_name["file_reserved_time"]["value"] == "72"
        assert rest.get("/transactions").json()["items"] == rest.get("/spark/queries").json()["items"] == []
        assert rest.get("/spark/queries/any").status_code == 404
        assert rest.delete("/topics/by-rest").status_code == 204
        with AdminClient(stock) as admin:
            assert "by-rest" not in admin.topics()
