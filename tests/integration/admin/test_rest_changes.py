"""REST changes what there is, says what it did, and keeps a record of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, PullConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import report_query
from rmqspark.protocol.bodies.queries import QueryReport

from ..batches import committed, written

if TYPE_CHECKING:
    from rmqspark.testing.rmq import Rmq

    from .conftest import Rest

pytestmark = pytest.mark.integration


def recorded(rest: Rest, subject: str) -> list[tuple[str, str]]:
    """What was done to a subject, and how it ended; the newest first."""
    return [(each["action"], each["outcome"]) for each in rest.pages("/audit") if each["subject"] == subject]


def posted(rest: Rest, path: str, status: int = 200, /, **document: Any) -> Any:
    answer = rest.client.post(f"/api/v1{path}", json=document)
    assert answer.status_code == status, answer.text
    return answer.json()


def committed_offsets(rmq: Rmq, group: str, topic: str) -> list[int | None]:
    with PullConsumer(rmq.namesrv, group=group) as consumer:
        return [consumer.committed(queue) for queue in consumer.queues(topic)]


def test_a_topic_is_made_changed_and_deleted(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Each is there when the answer is; a second one of the same name is a conflict."""
    made = posted(rest, "/topics", 201, topic=topic, queues=2, type="fifo")
    assert (made["queues"], made["type"], made["perm"]) == (2, "fifo", "rw")
    rest.problem("POST", "/api/v1/topics", 409, "conflict", json={"topic": topic})
    answer = rest.client.patch(f"/api/v1/topics/{topic}", json={"queues": 4, "perm": "r"})
    assert (answer.json()["queues"], answer.json()["perm"]) == (4, "r")
    rest.problem("PATCH", f"/api/v1/topics/{topic}", 400, "invalid_argument", json={})
    assert rest.client.delete(f"/api/v1/topics/{topic}").status_code == 204
    rest.problem("DELETE", f"/api/v1/topics/{topic}", 404, "topic_not_found")
    assert topic not in rmq.admin.topics()
    assert recorded(rest, topic) == [
        ("delete topic", "failed"),
        ("delete topic", "done"),
        ("update topic", "done"),
        ("create topic", "failed"),
        ("create topic", "done"),
    ]


def test_a_message_is_sent(rest: Rest, rmq: Rmq, topic: str) -> None:
    """As text or as base64, with all that a message has; to no topic that is not there."""
    rmq.create_topic(topic, queues=1)
    receipt = posted(
        rest, f"/topics/{topic}/messages", 201, body="hé", tags="t", keys=["a", "b"], properties={"p": "1"}
    )
    assert (receipt["topic"], receipt["queueOffset"], receipt["status"]) == (topic, "0", "SEND_OK")
    posted(rest, f"/topics/{topic}/messages", 201, bodyBase64="/wA=", flag=-(1 << 31))
    first, second = rmq.messages(topic)
    assert (first.flag, second.flag) == (0, -(1 << 31))
    assert (first.body, first.tags, first.keys, first.properties["p"]) == ("hé".encode(), "t", ["a", "b"], "1")
    assert (first.msg_id, second.body) == (receipt["msgId"], b"\xff\x00")
    rest.problem("POST", "/api/v1/topics/nothing/messages", 404, "topic_not_found", json={"body": "x"})
    assert "nothing" not in rmq.admin.topics()


@pytest.mark.parametrize(
    ("document", "status", "code"),
    [
        ({}, 400, "invalid_argument"),
        ({"body": "a", "bodyBase64": "YQ=="}, 400, "invalid_argument"),
        ({"bodyBase64": "%"}, 400, "invalid_argument"),
        ({"bodyBase64": "é"}, 400, "invalid_argument"),
        ({"body": ""}, 400, "invalid_message"),
        ({"body": "half a pair: \ud83d"}, 400, "invalid_argument"),
        ({"body": "a", "keys": ["\ud83d"]}, 400, "invalid_message"),
        ({"body": "a", "flag": 1 << 31}, 422, "invalid_request"),
        ({"body": 1}, 422, "invalid_request"),
        ({"body": "a", "tag": "b"}, 422, "invalid_request"),
        ({"body": "a", "keys": "b"}, 422, "invalid_request"),
        ({"body": "a", "properties": {"TAGS": "b"}}, 400, "invalid_message"),
        ({"body": "a", "delayLevel": 19}, 422, "invalid_request"),
        ([], 422, "invalid_request"),
    ],
    ids=json.dumps,
)
def test_what_is_no_message_is_not_sent(rest: Rest, rmq: Rmq, document: Any, status: int, code: str) -> None:
    """An unknown field is an error, not left aside: it was meant for something."""
    rmq.admin.create_topic("refusing", exist_ok=True)
    sent = {"content": json.dumps(document), "headers": {"content-type": "application/json"}}
    rest.problem("POST", "/api/v1/topics/refusing/messages", status, code, **sent)
    assert rmq.messages("refusing") == []


def test_a_group_is_reset_as_it_was_planned(rest: Rest, rmq: Rmq, topic: str) -> None:
    """A dry run says what a reset would do and does nothing, nor is it on the record."""
    rmq.create_topic(topic, queues=2)
    rmq.send(topic, *[b"x"] * 10)
    with PullConsumer(rmq.namesrv, group=topic) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.commit({queue: 5 for queue in consumer.queues(topic)})
    planned = posted(rest, f"/groups/{topic}/reset", to="earliest", dryRun=True)
    assert (planned["done"], [queue["readAgain"] for queue in planned["queues"]]) == (False, [5, 5])
    assert committed_offsets(rmq, topic, topic) == [5, 5]
    done = posted(rest, f"/groups/{topic}/reset", to="earliest")
    assert done == planned | {"done": True}
    assert committed_offsets(rmq, topic, topic) == [0, 0]
    posted(rest, f"/groups/{topic}/reset", to="3", topic=topic, queues=[1])
    assert committed_offsets(rmq, topic, topic) == [0, 3]
    rest.problem("POST", f"/api/v1/groups/{topic}/reset", 400, "invalid_argument", json={"to": "somewhere"})
    rest.problem("POST", f"/api/v1/groups/{topic}/reset", 409, "invalid_queue", json={"to": "1", "queues": [7]})
    rest.problem("POST", "/api/v1/groups/nobody/reset", 404, "group_not_found", json={"to": "earliest"})
    assert rest.client.delete(f"/api/v1/groups/{topic}").status_code == 204
    rest.problem("DELETE", f"/api/v1/groups/{topic}", 404, "group_not_found")
    assert [action for action, _ in recorded(rest, topic)] == ["delete group"] * 2 + ["reset group"] * 2


def test_dead_letters_are_sent_again(rest: Rest, rmq: Rmq, topic: str) -> None:
    rmq.create_topic(topic)
    rmq.send(topic, b"one", b"two")
    group = f"{topic}-g"
    rmq.give_up(group, *rmq.messages(topic))
    assert posted(rest, f"/dlq/{group}/resend", dryRun=True) == {
        "group": group,
        "planned": 2,
        "sent": 0,
        "toTopic": False,
    }
    (one,) = [each for each in rest.pages(f"/dlq/{group}") if each["message"]["body"] == "one"]
    assert posted(rest, f"/dlq/{group}/resend", ids=[one["message"]["msgId"]])["sent"] == 1
    assert posted(rest, f"/dlq/{group}/resend", **{"from": "-10m", "toTopic": True})["sent"] >= 1
    rest.problem("POST", f"/api/v1/dlq/{group}/resend", 404, "message_not_found", json={"ids": ["nothing"]})
    assert recorded(rest, group)[0] == ("resend dead letters", "done")


def test_what_has_no_field_that_is_needed_needs_no_body(rest: Rest, rmq: Rmq, topic: str) -> None:
    """As curl -X POST sends it; a body that is not said to be JSON is refused, not left aside."""
    rmq.create_topic(topic)
    committed(rmq.namesrv, topic, 0, "a")
    written(rmq.namesrv, topic, 1, "b")
    rmq.send(topic, b"one")
    group = f"{topic}-g"
    rmq.give_up(group, *rmq.messages(topic))
    form = {"headers": {"content-type": "application/x-www-form-urlencoded"}, "content": b'{"dryRun": true}'}
    rest.problem("POST", f"/api/v1/dlq/{group}/resend", 422, "invalid_request", **form)
    rest.problem("POST", f"/api/v1/transactions/{topic}/rollback", 422, "invalid_request", **form)
    assert rest.client.post(f"/api/v1/dlq/{group}/resend").json()["sent"] == len([b"a", b"one"])
    assert rest.client.post(f"/api/v1/transactions/{topic}/rollback").json()["version"] == "1"


def test_a_transaction_is_decided_once(rest: Rest, rmq: Rmq, topic: str) -> None:
    """By hand, with who it was; what was decided stays."""
    rmq.create_topic(topic)
    committed(rmq.namesrv, topic, 0, "a")
    written(rmq.namesrv, topic, 1, "b")
    decided = posted(rest, f"/transactions/{topic}/rollback")
    assert (decided["version"], decided["decision"], decided["by"]) == ("1", "ROLLBACK", "admin@127.0.0.1")
    rest.problem("POST", f"/api/v1/transactions/{topic}/commit", 409, "transaction_error", json={"version": 1})
    rest.problem("POST", "/api/v1/transactions/nothing/commit", 404, "not_found", json={})
    (manual,) = rest.get(f"/transactions/{topic}")["manual"]
    assert (manual["by"], manual["decision"], manual["version"]) == ("admin@127.0.0.1", "ROLLBACK", "1")
    assert [message.body for message in rmq.messages(topic)] == [b"a"]


def test_names_with_slashes_are_found(rest: Rest, rmq: Rmq, topic: str) -> None:
    """A transactional id may have some, and so may what somebody calls a query."""
    rmq.create_topic(topic)
    written(rmq.namesrv, topic, 0, "a", transactional_id=f"jobs/{topic}")
    with ClusterClient(rmq.namesrv) as client:
        report_query(client, QueryReport(f"q-{topic}", "run-1", f"bills/{topic}"))
    assert rest.get(f"/transactions/jobs%2F{topic}")["open"] is True
    assert posted(rest, f"/transactions/jobs%2F{topic}/rollback")["version"] == "0"
    assert rest.get(f"/spark/queries/bills%2F{topic}")["queryId"] == f"q-{topic}"
    proof = f"/api/v1/spark/queries/bills%2F{topic}/proof"
    assert "No batch of" in rest.problem("GET", proof, 404, "not_found")["detail"]


def test_a_setting_is_changed_where_it_can_be(rest: Rest, rmq: Rmq) -> None:
    """In either spelling; what takes a restart is refused, and so is what there is not: all that is asked for with it,
    too."""
    for spelling, value in (("fileReservedTime", "48"), ("file_reserved_time", "72")):
        answer = rest.client.patch("/api/v1/config/broker-a", json={"settings": {spelling: value}})
        by_name = {setting["setting"]: setting["value"] for setting in answer.json()["items"]}
        assert by_name["file_reserved_time"] == value
    assert rmq.admin.broker_config("broker-a")["fileReservedTime"] == "72"
    for settings, status, code in (
        ({"listenPort": "1"}, 403, "no_permission"),
        ({"storePathRootDir": "/etc"}, 400, "invalid_argument"),
        ({"fileReservedTime": "soon"}, 400, "invalid_argument"),
        ({"fileReservedTime": "1\nlistenPort=1"}, 400, "invalid_argument"),
        ({"fileReservedTime": "48\u2028deleteWhen=05"}, 400, "invalid_argument"),
        ({"fileReservedTime": "48", "fileReservedTimes": "48"}, 400, "invalid_argument"),
        ({"fileReservedTime": "48", "listenPort": "1"}, 403, "no_permission"),
        ({"fileReservedTime": "48", "deleteWhen": "never"}, 400, "invalid_argument"),
        ({}, 400, "invalid_argument"),
    ):
        rest.problem("PATCH", "/api/v1/config/broker-a", status, code, json={"settings": settings})
    half = {
        "content": b'{"settings": {"fileReservedTime": "\\ud800"}}',
        "headers": {"content-type": "application/json"},
    }
    rest.problem("PATCH", "/api/v1/config/broker-a", 400, "invalid_argument", **half)
    assert rest.client.get("/api/v1/audit").status_code == 200
    assert rmq.admin.broker_config("broker-a")["fileReservedTime"] == "72"


def test_the_record_outlives_the_process(rmq: Rmq, topic: str, tmp_path: Any) -> None:
    """Numbers go on, and the newest is first."""
    from .conftest import served

    for number in range(2):
        with served(rmq.namesrv, tmp_path) as rest:
            posted(rest, "/topics", 201, topic=f"{topic}-{number}", queues=1)
            actions = rest.pages("/audit", limit=1)
            assert [each["number"] for each in actions] == list(range(number + 1, 0, -1))
    assert (tmp_path / "actions.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_message_of_four_mebibytes_is_shown(rest: Rest, rmq: Rmq, topic: str) -> None:
    """A page ends where its bodies are many bytes, and the next one goes on."""
    rmq.create_topic(topic, queues=1)
    large = b"x" * (3 << 20)
    for _ in range(4):
        rmq.send(topic, Message(topic, large))
    for newest in (False, True):
        pages, cursor = [], None
        while True:
            page = rest.get(f"/topics/{topic}/messages", newest=newest, **({"cursor": cursor} if cursor else {}))
            pages.append(len(page["items"]))
            cursor = page["next"]
            if cursor is None:
                break
        assert sum(pages) == 4
        assert max(pages) < 4
