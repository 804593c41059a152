"""REST shows what there is: to the letter of the CLI's JSON, but for offsets, which are text, and times."""

from __future__ import annotations

import base64
import re
import socket
from contextlib import ExitStack, closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.admin.reads import topics
from rmqspark.clock import SystemClock
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.records.message_id import offset_msg_id, pack_host
from rmqspark.testing import cluster
from rmqspark.testing.in_process import LoopThread
from rmqspark.testing.rmq import Rmq

from ..batches import committed, written
from .conftest import served

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rmqspark.client.cluster.cluster_client import ClusterClient

    from .conftest import Rest

pytestmark = pytest.mark.integration

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def consumed(rmq: Rmq, group: str, topic: str, up_to: int) -> None:
    """The group has committed so far in each queue of the topic."""
    with PullConsumer(rmq.namesrv, group=group) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit({queue: min(up_to, consumer.max_offset(queue)) for queue in queues})


def test_the_cluster_and_its_brokers(rest: Rest, rmq: Rmq) -> None:
    """What rmq cluster info tells."""
    cluster = rest.get("/cluster")
    assert (cluster["state"], cluster["problems"]) == ("ok", [])
    assert [server["brokers"] for server in cluster["nameServers"]] == [["broker-a"]]
    (broker,) = rest.pages("/brokers")
    assert broker["brokerName"] == "broker-a"
    assert TIME.fullmatch(broker["startedAt"])
    assert rest.get("/brokers/broker-a")["addresses"] == {"0": rmq.admin.brokers()[0].addresses[0]}


def test_settings_are_told_with_their_meaning(rest: Rest) -> None:
    """What can be changed while it runs is marked."""
    by_name = {setting["setting"]: setting for setting in rest.pages("/config/broker-a", limit=10)}
    assert by_name["file_reserved_time"]["live"] is True
    assert by_name["file_reserved_time"]["unit"] == "h"
    assert by_name["listen_port"]["live"] is False
    assert by_name["flush_disk_type"]["rocketmqName"] == "flushDiskType"


def test_a_topic_its_queues_and_its_readers(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Offsets are text, times RFC 3339 in UTC, and what never was is null."""
    rmq.create_topic(topic, queues=2)
    shown = rest.get(f"/topics/{topic}")
    assert (shown["queues"], shown["messages"], shown["lastStored"]) == (2, 0, None)
    rmq.send(topic, b"1", b"2", b"3")
    consumed(rmq, "readers", topic, 1)
    shown = rest.get(f"/topics/{topic}")
    assert (shown["topic"], shown["messages"], shown["perm"], shown["type"]) == (topic, 3, "rw", "normal")
    assert TIME.fullmatch(shown["lastStored"])
    queues = rest.pages(f"/topics/{topic}/queues", limit=1)
    assert sorted(queue["maxOffset"] for queue in queues) == ["1", "2"]
    assert {queue["minOffset"] for queue in queues} == {"0"}
    assert [group["group"] for group in rest.pages(f"/topics/{topic}/groups")] == ["readers"]


def test_of_all_groups_only_those_that_read_a_topic_are_looked_at(
    rest: Rest, rmq: Rmq, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a thousand others that took three seconds, every five on its page."""
    looked_at: list[str] = []
    look = topics.describe_groups

    def noting(client: ClusterClient, groups: list[str], **options: Any) -> Any:
        looked_at.extend(groups)
        return look(client, groups, **options)

    rmq.create_topic(f"{topic}-besides", queues=1)
    consumed(rmq, "others", f"{topic}-besides", 0)
    rmq.create_topic(topic, queues=1)
    consumed(rmq, topic, topic, 0)
    monkeypatch.setattr(topics, "describe_groups", noting)
    assert [group["group"] for group in rest.pages(f"/topics/{topic}/groups")] == [topic] == looked_at


def test_a_group_that_committed_in_one_topic_and_never_in_another(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Never committed is null, neither 0 nor -1."""
    rmq.create_topic(topic, queues=2)
    rmq.send(topic, *[b"x"] * 10)
    with PullConsumer(rmq.namesrv, group=topic) as consumer:
        first, _ = consumer.queues(topic)
        consumer.assign([first])
        consumer.commit({first: 2})
    group = rest.get(f"/groups/{topic}")
    assert (group["lag"], group["topics"], group["members"]) == (3, [topic], 0)
    offsets = {queue["queueId"]: queue for queue in rest.pages(f"/groups/{topic}/offsets", limit=1)}
    assert (offsets[first.queue_id]["committed"], offsets[first.queue_id]["lag"]) == ("2", 3)
    assert (offsets[1 - first.queue_id]["committed"], offsets[1 - first.queue_id]["lag"]) == (None, None)
    assert rest.pages(f"/groups/{topic}/clients") == []
    assert topic in [each["group"] for each in rest.pages("/groups", limit=1)]


def test_lists_come_in_pages(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Page by page the same as all at once, each once, by name."""
    names = [f"{topic}-{number}" for number in range(5)]
    for name in names:
        rmq.create_topic(name, queues=1)
    for limit in (1, 2, 5, 100):
        found = [each["topic"] for each in rest.pages("/topics", limit=limit)]
        assert found == sorted(set(found))
        assert set(names) <= set(found)
    assert len(rest.get("/topics", limit=2)["items"]) == 2
    assert "TBW102" in [each["topic"] for each in rest.pages("/topics", system=True)]
    assert "TBW102" not in [each["topic"] for each in rest.pages("/topics")]


@pytest.fixture(scope="module")
def filled(rmq: Rmq) -> str:
    """A topic of 60 messages in 4 queues, every third tagged, numbered in its keys, properties and bodies."""
    rmq.create_topic("filled", queues=4)
    with Producer(rmq.namesrv) as producer:
        for number in range(60):
            message = Message(
                "filled",
                b"%d" % number,
                tags="third" if number % 3 == 0 else "other",
                keys=[f"k{number}"],
                properties={"number": str(number)},
            )
            producer.send(message, queue=number % 4)
    return "filled"


@pytest.mark.parametrize("limit", [1, 7, 60, 1_000])
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, range(60)),
        ({"tags": "third"}, range(0, 60, 3)),
        ({"sql": "number >= 40"}, range(40, 60)),
        ({"body": "3"}, [3, 13, 23, *range(30, 40), 43, 53]),
        ({"body": "3", "tags": "third"}, [3, 30, 33, 36, 39]),
        ({"body": "nowhere"}, ()),
        ({"queue": "broker-a/1"}, range(1, 60, 4)),
        ({"queue": "2"}, range(2, 60, 4)),
        ({"offset": "3:5"}, range(12, 20)),
        ({"offset": "-1"}, range(56, 60)),
        ({"from": "-10m"}, range(60)),
        ({"to": "-10m"}, ()),
    ],
    ids=str,
)
def test_messages_come_page_by_page_from_either_end(
    rest: Rest, filled: str, asked: dict[str, Any], wanted: Sequence[int], limit: int
) -> None:
    """However they are asked for and divided, each comes once; without a filter in the order they were stored in."""
    for newest in (False, True):
        items = rest.pages(f"/topics/{filled}/messages", **asked, limit=limit, newest=newest)
        found = [int(item["body"]) for item in items]
        assert sorted(found) == list(wanted)
        times = [item["storeTimestamp"] for item in items]
        if not {"tags", "sql"} & asked.keys():
            assert times == sorted(times, reverse=newest)


def test_messages_that_come_meanwhile_are_not_in_the_way(rest: Rest, rmq: Rmq, topic: str) -> None:
    """A cursor goes on where the page ended: nothing twice, nothing left out."""
    rmq.create_topic(topic, queues=2)
    rmq.send(topic, *[b"%d" % number for number in range(10)])
    for newest in (True, False):
        first = rest.get(f"/topics/{topic}/messages", limit=4, newest=newest)
        rmq.send(topic, b"later", b"later")
        second = rest.get(f"/topics/{topic}/messages", limit=1_000, newest=newest, cursor=first["next"])
        bodies = [item["body"] for item in first["items"] + second["items"]]
        assert len(set(bodies) - {"later"}) == 10
        assert len(bodies) - bodies.count("later") == 10


def test_a_message_in_full(rest: Rest, rmq: Rmq, topic: str) -> None:
    """By either id, and by key; a body that is no UTF-8 is base64; offsets beyond 2^53 would be exact."""
    rmq.create_topic(topic, queues=1)
    (receipt,) = rmq.send(topic, Message(topic, b"\xff\x00", tags="t", keys=["a", "b"], properties={"p": "1"}))
    by_id = rest.get(f"/messages/{receipt.msg_id}", topic=topic)
    assert by_id == rest.get(f"/messages/{receipt.msg_id}") == rest.get(f"/messages/{receipt.offset_msg_id}")
    assert base64.b64decode(by_id["bodyBase64"]) == b"\xff\x00"
    assert (by_id["body"], by_id["bodyBytes"], by_id["queueOffset"]) == (None, 2, "0")
    assert (by_id["tags"], by_id["keys"], by_id["properties"]["p"]) == ("t", ["a", "b"], "1")
    assert TIME.fullmatch(by_id["bornTimestamp"])
    assert rest.get("/messages", topic=topic, key="b")["items"] == [by_id]
    assert rest.get(f"/topics/{topic}/messages", key="b")["items"] == [by_id]
    assert rest.get("/messages", topic=topic, key="c")["items"] == []


@pytest.mark.parametrize("newest", [False, True])
def test_where_pages_began_stays_where_it_was(rest: Rest, rmq: Rmq, topic: str, newest: bool) -> None:
    """The last 200 of a queue are those of the first page, however many come until the next."""
    rmq.create_topic(topic, queues=1)
    rmq.send(topic, *(b"%d" % number for number in range(300)))
    at, asked = f"/topics/{topic}/messages", {"offset": "-200", "limit": 50, "newest": newest}
    pages = [rest.get(at, **asked)]
    while pages[-1]["next"]:
        rmq.send(topic, *(b"later" for _ in range(100)))
        pages.append(rest.get(at, **asked, cursor=pages[-1]["next"]))
    assert sorted(int(each["body"]) for page in pages for each in page["items"]) == list(range(100, 300))


def test_a_page_of_large_messages_of_a_key(rest: Rest, rmq: Rmq, topic: str) -> None:
    """It ends at 8 MiB, as any page does; the next one has the others."""
    rmq.create_topic(topic, queues=1)
    rmq.send(topic, *(Message(topic, b"%d" % number + bytes(3 << 20), keys=["k"]) for number in range(7)))
    pages = [rest.get("/messages", topic=topic, key="k")]
    while pages[-1]["next"]:
        pages.append(rest.get("/messages", topic=topic, key="k", cursor=pages[-1]["next"]))
    assert [[each["body"][0] for each in page["items"]] for page in pages] == [list("456"), list("123"), ["0"]]


def test_messages_of_a_key_page_by_page(rest: Rest, rmq: Rmq, topic: str) -> None:
    """The newest first, each page in the order of time; none left out, none twice, while others come."""
    rmq.create_topic(topic, queues=4)
    rmq.send(topic, *(Message(topic, b"%d" % number, keys=["k"]) for number in range(95)))
    for at, more in ((f"/topics/{topic}/messages", {}), ("/messages", {"topic": topic})):
        pages = [rest.get(at, key="k", limit=10, **more)]
        rmq.send(topic, Message(topic, b"late", keys=["k"]))
        while pages[-1]["next"]:
            pages.append(rest.get(at, key="k", limit=10, cursor=pages[-1]["next"], **more))
        times = [[each["storeTimestamp"] for each in page["items"]] for page in pages]
        assert all(page == sorted(page) for page in times)
        assert times == sorted(times, reverse=True)
        bodies = [each["body"] for page in pages for each in page["items"] if each["body"] != "late"]
        assert sorted(bodies, key=int) == [str(number) for number in range(95)]
    strange = rest.client.get("/api/v1/messages", params={"topic": topic, "key": "k", "cursor": "WzEsMiw3XQ"})
    assert (strange.status_code, strange.json()["code"]) == (400, "invalid_argument")


def test_the_schema_of_a_topic(rest: Rest, rmq: Rmq, topic: str) -> None:
    """What rmq topic schema prints."""
    rmq.create_topic(topic)
    rmq.send(topic, b'{"id": 1, "name": "a"}', b'{"id": 2}', b"no json")
    schema = rest.get(f"/topics/{topic}/schema")
    assert schema["ddl"] == "id bigint, name string"
    assert (schema["sampled"], schema["notJson"]) == (3, 1)
    assert schema["columns"][1] == {"name": "name", "type": "string", "missing": 1}


def test_a_schema_is_looked_for_no_longer_than_somebody_waits(
    rest: Rest, rmq: Rmq, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand bodies may be four gigabytes."""
    rmq.create_topic(topic)
    rmq.send(topic, b'{"id": 1}')
    monkeypatch.setattr(topics, "_LONGEST_MS", 0)
    rest.problem("GET", f"/api/v1/topics/{topic}/schema", 504, "request_timeout")


def test_transactions_and_their_proof(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Those that are open first; the proof has what was written."""
    rmq.create_topic(topic)
    committed(rmq.namesrv, topic, 0, "a", "b")
    written(rmq.namesrv, topic, 1, "c")
    listed = rest.get("/transactions")
    assert listed["silent"] == {}
    (state,) = [each for each in listed["items"] if each["transactionalId"] == topic]
    assert (state["open"], state["version"], state["lastVersion"], state["rows"]) == (True, "1", "0", 1)
    assert state | {"silent": {}} == rest.get(f"/transactions/{topic}") | {"ageMs": state["ageMs"]}
    proof = rest.get(f"/spark/queries/q-{topic}/proof")
    assert (proof["rows"], proof["missing"], proof["doubled"], proof["findings"]) == (2, 0, 0, [])
    (batch,) = proof["batches"]
    assert sum(int(out["toOffset"]) - int(out["fromOffset"]) for out in batch["outputs"]) == 2
    assert TIME.fullmatch(batch["decidedAt"])


def test_the_journey_of_a_message(rest: Rest, rmq: Rmq, topic: str) -> None:
    """Who wrote it, who has read it, and what cannot be known."""
    rmq.create_topic(topic, queues=1)
    committed(rmq.namesrv, topic, 0, "a")
    consumed(rmq, topic, topic, 1)
    (message,) = rmq.messages(topic)
    journey = rest.get(f"/messages/{message.msg_id}/journey", topic=topic)
    assert journey["message"]["body"] == "a"
    assert (journey["writtenBy"]["transactionalId"], journey["writtenBy"]["version"]) == (topic, "0")
    ((group, is_past),) = [(each["group"], each["isPast"]) for each in journey["groups"]]
    assert (group, is_past) == (topic, True)
    assert {"sent", "committed"} <= {event["what"] for event in journey["events"]}
    times = [event["at"] for event in journey["events"] if event["at"]]
    assert times == sorted(times)


def test_dead_letters(rest: Rest, rmq: Rmq, topic: str) -> None:
    """How many each group has, and which, with where they came from."""
    rmq.create_topic(topic)
    rmq.send(topic, b"bad")
    rmq.give_up(f"{topic}-g", *rmq.messages(topic))
    (count,) = [each for each in rest.pages("/dlq", limit=1) if each["group"] == f"{topic}-g"]
    assert (count["count"], count["waiting"]) == (1, 1)
    (letter,) = rest.pages(f"/dlq/{topic}-g")
    assert (letter["originTopic"], letter["message"]["body"], letter["sentAgain"]) == (topic, "bad", False)
    rmq.send(topic, b"2", b"3", b"4")
    rmq.give_up(f"{topic}-g", *rmq.messages(topic)[1:])
    letters = [each["message"] for each in rest.pages(f"/dlq/{topic}-g", limit=1)]
    assert sorted(each["body"] for each in letters) == ["2", "3", "4", "bad"]
    times = [each["storeTimestamp"] for each in letters]
    assert times == sorted(times, reverse=True)


def test_dead_letters_have_pages_of_eight_mebibytes(rest: Rest, rmq: Rmq, topic: str) -> None:
    """As messages have: a thousand of four mebibytes each are in no one's memory at once."""
    rmq.create_topic(topic, queues=1)
    rmq.send(topic, *(Message(topic, b"%d" % number + bytes(3 << 20)) for number in range(5)))
    rmq.give_up(f"{topic}-g", *rmq.messages(topic))
    first = rest.get(f"/dlq/{topic}-g", limit=1_000)
    assert [each["message"]["body"][0] for each in first["items"]] == ["4", "3", "2"]
    second = rest.get(f"/dlq/{topic}-g", limit=1_000, cursor=first["next"])
    assert ([each["message"]["body"][0] for each in second["items"]], second["next"]) == (["1", "0"], None)


def test_pages_of_dead_letters_while_others_die(rest: Rest, rmq: Rmq, topic: str) -> None:
    """None comes twice, and none is left out; nor is any read that is on another page."""
    rmq.create_topic(topic, queues=1)
    rmq.send(topic, *(b"%d" % number for number in range(42)))
    dead = rmq.messages(topic)
    rmq.give_up(f"{topic}-g", *dead[:40])
    shown, cursor = [], None
    while True:
        page = rest.get(f"/dlq/{topic}-g", limit=7, **({} if cursor is None else {"cursor": cursor}))
        shown += [int(each["message"]["body"]) for each in page["items"]]
        if (cursor := page["next"]) is None:
            break
        rmq.give_up(f"{topic}-g", dead[40])
    assert shown == list(range(39, -1, -1))
    rest.problem("GET", f"/api/v1/dlq/{topic}-g", 400, "invalid_argument", params={"cursor": "eyJhIjoieCJ9"})


def test_metrics_of_all_brokers_are_scraped_in_one_place(rmq: Rmq, rest: Rest, topic: str) -> None:
    """As Prometheus reads them; what RocketMQ's dashboards ask for moves with what is done."""
    rmq.create_topic(topic, queues=1)
    rmq.send(topic, b"1", b"2")
    answer = rest.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    sent = [s for s in families["rocketmq_messages_in"].samples if s.labels["topic"] == topic]
    assert [(s.name, s.value, s.labels["node_id"]) for s in sent] == [("rocketmq_messages_in_total", 2, "broker-a")]
    (up,) = families["rmqspark_broker_up"].samples
    assert (up.labels, up.value) == ({"node_id": "broker-a"}, 1)


def test_health_is_told_without_the_cluster(rest: Rest) -> None:
    """/healthz is about the process; /readyz about whether it can do anything."""
    assert rest.client.get("/healthz").json() == {"status": "ok"}
    assert rest.client.get("/readyz").json() == {"status": "ok", "brokers": ["broker-a"]}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/topics/%25RETRY%25no%7Cbody", 404, "topic_not_found"),
        ("/api/v1/topics/no%20name", 400, "invalid_name"),
        ("/api/v1/topics/%00", 400, "invalid_name"),
        ("/api/v1/topics/n%C3%B6?limit=1", 400, "invalid_argument"),
        ("/api/v1/nothing/%7B%7D", 404, "not_found"),
    ],
)
def test_a_problem_says_where_as_a_uri(rest: Rest, path: str, status: int, code: str) -> None:
    """RFC 9457: `instance` is a URI reference, whatever stands in a name."""
    assert rest.problem("GET", path, status, code)["instance"] == path.partition("?")[0]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/topics/nothing", 404, "topic_not_found"),
        ("/api/v1/topics/nothing/queues", 404, "topic_not_found"),
        ("/api/v1/topics/nothing/messages", 404, "topic_not_found"),
        ("/api/v1/topics/nothing/groups", 404, "topic_not_found"),
        ("/api/v1/topics/nothing/schema", 404, "topic_not_found"),
        ("/api/v1/topics/no%20name", 400, "invalid_name"),
        ("/api/v1/topics/..%2f..%2fetc", 404, "not_found"),
        ("/api/v1/groups/nobody", 404, "group_not_found"),
        ("/api/v1/brokers/broker-z", 404, "broker_not_registered"),
        ("/api/v1/config/broker-z", 404, "broker_not_registered"),
        ("/api/v1/messages/ABC", 404, "message_not_found"),
        ("/api/v1/messages/ABC/journey", 404, "message_not_found"),
        ("/api/v1/messages/0A0000010000277F0000000000000000", 404, "message_not_found"),
        ("/api/v1/transactions/nothing", 404, "not_found"),
        ("/api/v1/dlq/nobody", 404, "group_not_found"),
        ("/api/v1/spark/queries/nothing", 404, "not_found"),
        ("/api/v1/spark/queries/nothing/proof", 404, "not_found"),
        ("/api/v1/topics?limit=0", 422, "invalid_request"),
        ("/api/v1/topics?limit=1001", 422, "invalid_request"),
        ("/api/v1/topics?limit=many", 422, "invalid_request"),
        ("/api/v1/topics?cursor=x", 400, "invalid_argument"),
        ("/api/v1/topics?cursor=MTI", 400, "invalid_argument"),
        ("/api/v1/audit?cursor=W10", 400, "invalid_argument"),
        ("/api/v1/brokers?cursor=WzFd", 400, "invalid_argument"),
        ("/api/v1/brokers?cursor=MQ", 400, "invalid_argument"),
        ("/api/v1/messages?topic=filled", 422, "invalid_request"),
        ("/api/v1/topics/filled/messages?from=yesterday", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?from=-1m&to=-2m", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?offset=x", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?offset=1&from=-1m", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?queue=9", 409, "invalid_queue"),
        ("/api/v1/topics/filled/messages?sql=a%20%3E", 400, "invalid_filter"),
        ("/api/v1/topics/filled/messages?sql=a%3D1&tags=b", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?key=a&tags=b", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?key=a&body=b", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?cursor=eyJicm9rZXItYS8wIjpbImEiLDFdfQ", 400, "invalid_argument"),
        ("/api/v1/topics/filled/messages?cursor=eyJicm9rZXItYS8wIjo1fQ", 400, "invalid_argument"),  # {"broker-a/0":5}
        ("/api/v1/topics/filled/messages?cursor=eyJicm9rZXItYS8wIjpbMSwyLDNdfQ", 400, "invalid_argument"),  # [1,2,3]
        ("/api/v1/nothing", 404, "not_found"),
        ("/nothing", 404, "not_found"),
    ],
)
def test_what_is_wrong_is_said(rest: Rest, filled: str, path: str, status: int, code: str) -> None:
    """A problem document each, with a stable code; never a traceback, never another media type."""
    rest.problem("GET", path, status, code)


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ("from=yesterday", "from 'yesterday' is not a moment"),
        ("to=tomorrow", "to 'tomorrow' is not a moment"),
        ("key=a&from=yesterday", "from 'yesterday' is not a moment"),
        ("from=-1m&to=-2m", "from -1m to -2m ends before it begins"),
        ("offset=10:5", "offset 10:5 ends before it begins"),
        ("offset=-1:-10", "offset -1:-10 ends before it begins"),
        ("offset=x", "offset 'x' is not an offset"),
        ("offset=@yesterday", "offset 'yesterday' is not a moment"),
    ],
)
def test_what_is_wrong_has_the_name_that_it_was_given(rest: Rest, filled: str, asked: str, detail: str) -> None:
    """Not that of the option of `rmq`."""
    path = f"/api/v1/topics/filled/messages?{asked}"
    assert rest.problem("GET", path, 400, "invalid_argument")["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/v1/topics/filled/messages?form=-10m", "Did you mean 'from'?"),
        ("/api/v1/topics?limits=1", "Did you mean 'limit'?"),
        ("/api/v1/cluster?x=1", "It takes none."),
        ("/api/v1/groups?bogus=1", "It takes: "),
    ],
)
def test_a_slip_in_a_parameter_s_name_is_not_left_aside(rest: Rest, filled: str, path: str, hint: str) -> None:
    """All messages would be taken for those of the last ten minutes."""
    problem = rest.problem("GET", path, 400, "invalid_argument")
    assert problem["detail"].startswith(f"There is no parameter {path.partition('?')[2].partition('=')[0]!r}")
    assert problem["hint"].startswith(hint)


def test_a_forged_id_makes_no_connection(rest: Rest, rmq: Rmq) -> None:
    """An offset id names an address, which is believed only if it is a broker's (S17)."""
    with socket.create_server(("127.0.0.1", 0)) as lure:
        lure.setblocking(False)
        forged = offset_msg_id(pack_host("127.0.0.1", lure.getsockname()[1]), 0)
        problem = rest.problem("GET", f"/api/v1/messages/{forged}", 404, "message_not_found")
        assert "No message" in problem["detail"]
        with pytest.raises(BlockingIOError):
            lure.accept()


def test_nothing_else_than_get_is_taken_where_nothing_else_is(rest: Rest) -> None:
    problem = rest.problem("POST", "/api/v1/cluster", 405, "method_not_allowed")
    assert problem["hint"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/v1/topics", "/docs"])
def test_a_head_is_a_get_without_its_body(rest: Rest, path: str) -> None:
    """So load balancers and `curl -I` ask; the connection goes on with the next request."""
    head = rest.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == rest.client.get(path).headers["content-type"]


def test_the_description_lists_every_route_and_says_what_each_does(rest: Rest) -> None:
    """/docs is made from it. Offsets are text there, too."""
    described = rest.client.get("/openapi.json").json()
    operations = [each for path in described["paths"].values() for each in path.values()]
    assert all(operation.get("description") for operation in operations)
    offset = described["components"]["schemas"]["QueueView"]["properties"]["maxOffset"]
    assert offset["type"] == "string"
    assert rest.client.get("/docs").status_code == 200


def test_a_cluster_that_is_away_is_told_as_that(rest: Rest, tmp_path: Any) -> None:
    """503 and what to do; the process itself goes on."""
    from .conftest import served

    with served("127.0.0.1:1", tmp_path) as alone:
        assert alone.client.get("/healthz").status_code == 200
        for path in ("/readyz", "/api/v1/cluster", "/api/v1/topics", "/api/v1/groups"):
            problem = alone.problem("GET", path, 503, "unreachable")
            assert "127.0.0.1:1" in problem["detail"]


def test_who_lacks_keys_is_not_ready(tmp_path: Path) -> None:
    """Where name servers ask who asks: 503 as the page says, for it is not the load balancer that needs a right."""
    first = '{"username": "root", "password": "root-secret"}'
    config = NamesrvConfig(listen_port=0, authentication_enabled=True, init_authentication_user=first)
    with ExitStack() as stack:
        loop = stack.enter_context(closing(LoopThread()))
        namesrv = loop.run(lambda: NameServer(config, clock=SystemClock()))
        stack.callback(namesrv.stop)
        problem = stack.enter_context(served(namesrv.address, tmp_path)).problem("GET", "/readyz", 503, "busy")
    assert "username" in problem["detail"]
    assert "RMQ_ACCESS_KEY" in problem["hint"]


def test_admin_client_and_rest_tell_the_same(rest: Rest, rmq: Rmq, filled: str) -> None:
    with AdminClient(rmq.namesrv) as admin:
        assert rest.get(f"/topics/{filled}")["messages"] == admin.topic(filled).message_count == 60


def test_a_limit_holds_over_all_brokers(tmp_path: Path) -> None:
    """Of messages by key, each broker gives as many as are asked for."""
    with cluster(brokers=2) as mq, Rmq(mq) as rmq, served(mq.namesrv, tmp_path) as rest:
        rmq.create_topic("t", queues=1)
        rmq.send("t", *[b"%d" % number for number in range(6)], keys=["k"])
        assert {message.queue.broker_name for message in rmq.messages("t")} == {"broker-a", "broker-b"}
        newest_ms = [message.store_timestamp_ms for message in rmq.messages("t")][-3:]
        for found in (
            rest.get("/messages", topic="t", key="k", limit=3),
            rest.get("/topics/t/messages", key="k", limit=3),
        ):
            times = [datetime.fromisoformat(item["storeTimestamp"]) for item in found["items"]]
            assert [round(time.timestamp() * 1_000) for time in times] == newest_ms


def test_every_list_takes_a_limit_and_a_cursor(rest: Rest) -> None:
    """As its description says, so that no list grows with a cluster until it cannot be shown."""
    described = rest.client.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        schema = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        answer = schema.get("application/json", {}).get("schema", {})
        assert answer.get("type") != "array", path
        if "Page" in answer.get("$ref", "") and path != "/api/v1/messages":  # by key: the newest
            assert {"limit", "cursor"} <= {each["name"] for each in methods["get"]["parameters"]}, path
