"""What decides without a browser: addresses, preferences, sessions, the tail of a topic, charts, tables, snippets."""

from __future__ import annotations

import asyncio
from datetime import UTC
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.admin.access import Role
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.console import addresses
from rmqspark.admin.console.charts import line_chart, summed_up
from rmqspark.admin.console.histories import MOST_POINTS, Histories
from rmqspark.admin.console.message_filters import Asked
from rmqspark.admin.console.message_snippets import message_snippets
from rmqspark.admin.console.nodes import find, h, texts
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.resets import effect
from rmqspark.admin.console.sessions import LONGEST_MS, Sessions
from rmqspark.admin.console.sign_in import said_in
from rmqspark.admin.console.snippets import Snippets, Whereabouts
from rmqspark.admin.console.tables import Column, ordered
from rmqspark.admin.console.tail import Tail, Tailing
from rmqspark.admin.console.topic_forms import _properties, as_it_was, new_message
from rmqspark.admin.console.watch import Watch
from rmqspark.admin.reads.messages import Wanted
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.client.administration.group_resets import QueueReset
from rmqspark.errors import Unreachable
from rmqspark.message_queue import MessageQueue
from rmqspark.model import Message
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("target", "goes_to"),
    [
        ("/topics?q=a", "/topics?q=a"),
        (None, "/"),
        ("", "/"),
        ("topics", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
    ],
)
def test_where_a_login_goes(target: str | None, goes_to: str) -> None:
    """To pages of ours only."""
    assert addresses.own(target) == goes_to


def test_addresses() -> None:
    """Every name is one step, whatever is in it."""
    assert addresses.path("topics", "%RETRY%a/b?c#d") == "/topics/%25RETRY%25a%2Fb%3Fc%23d"
    assert addresses.with_query("/topics", {"q": "a&b", "cursor": None, "system": ""}) == "/topics?q=a%26b"


@pytest.mark.parametrize(
    ("cookies", "theme", "zone"),
    [
        ({}, "system", "UTC"),
        ({"rmq_theme": "dark", "rmq_zone": "Europe/Berlin"}, "dark", "Europe/Berlin"),
        ({"rmq_theme": "</style>", "rmq_zone": "../../etc/passwd"}, "system", "UTC"),
        ({"rmq_zone": "Nowhere/Land"}, "system", "UTC"),
    ],
)
def test_preferences_are_ours_or_none(cookies: dict[str, str], theme: str, zone: str) -> None:
    """A cookie says only what it may."""
    preferences = Preferences.of(cookies)
    assert (preferences.theme, preferences.zone_name) == (theme, zone)


def test_sessions_end() -> None:
    """By signing out, and by time; a wrong token begins none; without tokens everybody is admin."""
    clock = ManualClock()
    config = AdminConfig(admin_token="a" * 16, read_token="r" * 16)
    sessions = Sessions(config, clock)
    assert sessions.begin("wrong") is None
    admin, reader = sessions.begin("a" * 16), sessions.begin("r" * 16)
    assert (sessions.role(admin), sessions.role(reader), sessions.role(None)) == (Role.ADMIN, Role.READ, None)
    sessions.end(admin)
    assert (sessions.role(admin), sessions.role(reader)) == (None, Role.READ)
    assert (sessions.is_ended(admin), sessions.is_ended(reader), sessions.is_ended(None)) == (True, False, False)
    clock.advance(seconds=LONGEST_MS // 1000)
    assert (sessions.role(reader), sessions.is_ended(reader)) == (None, False)
    assert Sessions(AdminConfig(), clock).role(None) is Role.ADMIN


def seen(*offsets: int) -> list[Any]:
    return [SimpleNamespace(broker_name="a", queue_id=0, queue_offset=offset) for offset in offsets]


def test_the_tail_of_a_topic() -> None:
    """Each message once, the newest first, so many at most; it says when it cannot keep up."""
    tail = Tail().joined(seen(3, 2, 1), most=4)
    assert ([each.queue_offset for each in tail.messages], tail.came, tail.is_full) == ([3, 2, 1], 3, False)
    tail = tail.joined(seen(5, 4, 3), most=4)
    assert ([each.queue_offset for each in tail.messages], tail.came) == ([5, 4, 3, 2], 2)
    assert (tail.is_full, tail.is_behind) == (True, False)
    assert tail.joined(seen(9, 8, 7), most=4).is_behind
    assert tail.joined(seen(5, 4, 3), most=4).came == 0


def test_a_look_at_the_tail_that_is_overtaken_takes_nothing_away() -> None:
    """Whoever pauses and goes on again looks while the look before is still under way."""
    older, newer = stored("broker-a", 0, 1, 1_000), stored("broker-a", 0, 2, 2_000)
    is_first = [True]

    def newest() -> list[MessageView]:
        if not is_first:
            return [newer, older]
        is_first.clear()
        tailing.look()  # of another, which is quicker
        return [older]

    tailing = Tailing(newest)
    assert tailing.look().messages == (newer, older)


def test_two_looks_at_the_tail_at_once_are_both_kept() -> None:
    """Each is on a thread of its own."""
    older, newer = stored("broker-a", 0, 1, 1_000), stored("broker-a", 0, 2, 2_000)
    other = Thread(target=lambda: tailing.look())

    class Slow(list[MessageView]):
        """While it is gone through the other looks, or waits for its turn."""

        def __iter__(self) -> Iterator[MessageView]:
            if not other.ident:
                other.start()
                other.join(0.2)
            return super().__iter__()

    answers: list[list[MessageView]] = [[], [newer, older], Slow([older])]
    tailing = Tailing(lambda: answers.pop())
    tailing.look()
    other.join()
    assert tailing.look().messages == (newer, older)


@pytest.mark.parametrize(
    ("before", "typed", "sent"),
    [
        ("a\r\nb", "a\r\nb", "a\r\nb"),
        ("a\nb\rc\r\n", "a\r\nb\r\nc\r\n", "a\nb\rc\r\n"),
        ("a\r\nb", "a\r\nc", "a\r\nc"),
        ("a\nb", "a\r\nc", "a\nc"),
        ("a\nb\r\n", "a\r\nc", "a\nc"),
        ("", "a\r\nb", "a\nb"),
    ],
)
def test_a_body_that_is_sent_again_keeps_its_line_ends(before: str, typed: str, sent: str) -> None:
    """A browser gives back others; whoever reads the message would find another one, or another checksum."""
    assert as_it_was(typed, before) == sent


def test_properties_that_are_sent_again_stay_as_they_are() -> None:
    """Also of several lines, and with what ends a line only for some; what is changed is one a line."""
    before = {"note": "a\nb=c", "sign": "x\u2028y"}
    typed = "note=a\r\nb=c\r\nsign=x\u2028y"
    assert _properties(typed, before) == before
    assert _properties(f"{typed}z", before) == {"note": "a", "b": "c", "sign": "x\u2028yz"}


def test_what_is_sent_again_unchanged_is_what_it_was() -> None:
    """With its flag, for which the form has no field, and its sharding key: it is behind others of that key again."""
    properties = {"TAGS": "paid", "KEYS": "k1 k2", "__SHARDINGKEY": " customer 7", "price": "7", "UNIQ_KEY": "A"}
    like = stored("broker-a", 1, 12, 1_000).model_copy(
        update={"body": "x", "tags": "paid\u3000", "keys": ["k1", "k2"], "properties": properties, "flag": -7}
    )
    shown = {"body": "x", "tags": " paid\u3000", "keys": "k1 k2", "shard": " customer 7", "properties": "price=7"}
    again = new_message(shown, like)
    assert again.message("orders") == Message(
        "orders", b"x", tags="paid\u3000", keys=["k1", "k2"], properties={"price": "7"}, flag=-7
    )
    assert again.shard == " customer 7"
    assert new_message(shown | {"shard": " other "}, like).shard == "other"
    assert new_message(shown | {"shard": ""}, like).shard is None
    assert new_message(shown, None).flag == 0


def test_what_is_said_when_signing_in() -> None:
    """No more fields are read than the form has, for nobody has shown a token yet."""
    assert said_in(b"token=a%2Bb&next=%2Ftopics%3Fq%3D1") == {"token": "a+b", "next": "/topics?q=1"}
    assert said_in(b"token=a&" + b"x=1&" * 100) == {}
    assert said_in(b"\xff") == {}


def test_histories_are_bounded() -> None:
    """The oldest go."""
    histories = Histories()
    for at_ms in range(MOST_POINTS + 5):
        histories.note("in", at_ms, float(at_ms))
    assert len(histories.of("in")) == MOST_POINTS
    assert histories.of("in")[0] == (5, 5.0)
    assert histories.of("nothing") == []


def test_what_nobody_could_tell_is_a_gap() -> None:
    """No line leads through the time in which a cluster was away, and no more is kept of it than that."""
    clock = ManualClock()
    desk: Any = SimpleNamespace(cluster=SimpleNamespace(clock=clock))
    watch = Watch(desk, lambda: False)
    watch.histories.note("in", 1, 5.0)
    watch.error = Unreachable("Nobody answers.", address="h:1")
    for _ in range(2):
        asyncio.run(watch.measure())
    assert watch.histories.of("in") == [(1, 5.0), (clock.now_ms(), None)]
    watch.histories.note("group g", 2, 1.0)
    watch._note_readers("group ", None)
    assert [value for _, value in watch.histories.of("group g")] == [1.0, None]


def test_a_line_stays_within_its_picture_though_the_clock_is_set_back() -> None:
    """What was measured in a time that is to come again is forgotten."""
    histories = Histories()
    for minute in (0, 10, 40, 50, 20, 30):
        histories.note("in", minute * 60_000, float(minute))
    series = histories.of("in")
    assert [value for _, value in series] == [0.0, 10.0, 20.0, 30.0]
    (line,) = find(line_chart("In", "messages", series, UTC, "{:.0f}".format), "polyline")
    assert [point.partition(",")[0] for point in line.attributes["points"].split()] == [
        "0.0",
        "213.3",
        "426.7",
        "640.0",
    ]
    histories.gap(15 * 60_000)
    assert [value for _, value in histories.of("in")] == [0.0, 10.0, None]


def test_a_chart_says_what_it_shows() -> None:
    """In words, as a picture with them as its name, and as a table; broken where nothing was known."""
    series = [(0, 1.0), (10_000, None), (20_000, 3.0), (30_000, 2.0)]
    story = summed_up("Lag", "messages", series, UTC, "{:.0f}".format)
    assert story == "Lag now 2 messages, up from 1 at 00:00:00; between 1 and 3. Unknown at 1 of 4 times."
    chart = line_chart("Lag", "messages", series, UTC, "{:.0f}".format)
    (picture,) = find(chart, "svg")
    assert picture.attributes["aria-label"] == story
    assert len(find(picture, "polyline")) == 2
    assert "unknown" in texts(find(chart, "table")[0])
    assert find(line_chart("Lag", "messages", [], UTC, str), "svg") == []


def test_what_is_unknown_is_sorted_last() -> None:
    """Whichever way."""
    column: Column[int | None] = Column("Lag", str, lambda lag: lag, "lag")
    assert ordered([2, None, 1], column, descending=False) == [1, 2, None]
    assert ordered([2, None, 1], column, descending=True) == [2, 1, None]


def test_nodes_hold_texts() -> None:
    """Nothing is read as HTML; what is None or False is no attribute."""
    node = h("p", "<b>", h("i", "x"), tabindex=0, hidden=False, title=None, aria_label="a", for_="f")
    assert node.attributes == {"tabindex": "0", "aria-label": "a", "for": "f"}
    assert texts(node) == "<b> x"


def test_a_reset_in_numbers() -> None:
    """What is consumed again, what is left out, and what nobody knows."""
    queues = [MessageQueue("t", "broker-a", number) for number in range(3)]
    plan = [
        QueueReset(queues[0], 10, 4, 0, 20),
        QueueReset(queues[1], 10, 12, 0, 20),
        QueueReset(queues[2], None, 0, 0, 20),
    ]
    assert effect(plan) == (
        "3 queues are set; 6 messages will be consumed once more; 2 messages will not be consumed; "
        "of 1 queue it is unknown, for nothing was ever committed."
    )


@pytest.mark.parametrize(
    ("committed", "target", "told"),
    [
        (0, 1_000, "1 queue is set."),
        (0, 1_500, "1 queue is set; 500 messages will not be consumed."),
        (9_000, 2_000, "1 queue is set."),
        (9_000, 1_000, "1 queue is set; 1,000 messages will be consumed once more."),
    ],
)
def test_a_reset_counts_what_is_there(committed: int, target: int, told: str) -> None:
    """Of a group that is before all that has not expired, or beyond the end of a queue that was made anew."""
    assert effect([QueueReset(MessageQueue("t", "broker-a", 0), committed, target, 1_000, 2_000)]) == told


WHERE = Whereabouts("h1:9876;h2:9876", "http://127.0.0.1:8088/rmq", asks_for_token=True)


def stored(broker_name: str, queue_id: int, queue_offset: int, store_timestamp: int) -> MessageView:
    return MessageView(
        **{"topic": "orders", "broker_name": broker_name, "queue_id": queue_id, "queue_offset": queue_offset},
        **{"msg_id": "A", "offset_msg_id": "B", "tags": None, "keys": [], "body_bytes": 0, "properties": {}},
        **{"born_timestamp": 0, "store_timestamp": store_timestamp, "reconsume_times": 0, "flag": 0},
    )


SHOWN = [stored("broker-a", 1, 12, 1_000), stored("broker-b", 0, 7, 1_500), stored("broker-a", 1, 9, 2_000)]


def code_of(wanted: Wanted, *, key: str | None = None, shown: Any = SHOWN, cursor: str | None = None) -> Snippets:
    return message_snippets(WHERE, Asked(wanted, key, follows=False), shown, 50, cursor)


def test_snippets_are_whole() -> None:
    """Quoted for where they are pasted, whatever somebody has typed; of each queue just what is shown."""
    code = code_of(Wanted("orders", queue="broker-a/1", from_="-10m", sql="price > '$(rm -rf /)'"))
    assert code.cli == (
        "rmq consume orders --from=1970-01-01T00:00:01.000Z --to=1970-01-01T00:00:02.001Z "
        """'--sql=price > '"'"'$(rm -rf /)'"'"'' --json --namesrv 'h1:9876;h2:9876' | """
        """jq -c 'select({"broker-a/1":[9,13],"broker-b/0":[7,8]}["\\(.brokerName)/\\(.queueId)"] as $s | """
        "$s != null and .queueOffset >= $s[0] and .queueOffset < $s[1])'"
    )
    assert code.rest.startswith(
        'curl -s -H "Authorization: Bearer $RMQ_READ_TOKEN" \'http://127.0.0.1:8088/rmq/api/v1/topics/'
    )
    assert "queue=broker-a%2F1&from=-10m&sql=price+%3E+%27%24%28rm+-rf+%2F%29%27" in code.rest
    for option in (
        r"""("assign", "{\"orders\":{\"broker-a\":[1],\"broker-b\":[0]}}")""",
        r"""("startingOffsets", "{\"orders\":{\"broker-a\":{\"1\":9},\"broker-b\":{\"0\":7}}}")""",
        r"""("endingOffsets", "{\"orders\":{\"broker-a\":{\"1\":13},\"broker-b\":{\"0\":8}}}")""",
        """("sql", "price > '$(rm -rf /)'")""",
    ):
        assert f".option{option}" in code.spark


def test_snippets_of_a_page_by_key_are_of_that_page() -> None:
    """However many have the key: the rest of them lies elsewhere, or is another page of REST's."""
    code = code_of(Wanted("orders", from_="-10m"), key="-7", cursor="eyJ")
    assert code.cli.startswith(
        "rmq message query orders --key=-7 --from=1970-01-01T00:00:01.000Z --to=1970-01-01T00:00:02.001Z --count=10000 "
        """--json --namesrv 'h1:9876;h2:9876' | jq -c '.[] | select({"broker-a/1":[9,13],"broker-b/0":[7,8]}["""
    )
    assert code.rest.endswith("/topics/orders/messages?key=-7&from=-10m&limit=50&cursor=eyJ'")


def test_snippets_look_into_bodies() -> None:
    """As the page does: with what is written as it is written."""
    code = code_of(Wanted("orders", body='it\'s "x"'))
    assert """.queueOffset < $s[1] and ((.body // "") | contains("it'"'"'s \\"x\\"")))'""" in code.cli
    assert r"""rows.where("contains(body, cast('it\\'s \"x\"' as binary))")""" in code.spark
    assert "body=it%27s+%22x%22" in code.rest
    nothing = code_of(Wanted("orders", body="x"), shown=[])
    assert nothing.cli.endswith(""" | jq -c 'select(true and ((.body // "") | contains("x")))'""")


@pytest.mark.parametrize("shown", [SHOWN, []])
def test_snippets_of_a_page_by_key_leave_aside_what_the_page_does(shown: Any) -> None:
    """Filters that stay in the address beside a key: the code gave fewer rows than were on the screen."""
    besides = Wanted("orders", "broker-a/0", "5:10", None, None, "paid", "price > 10", body="refused")
    assert code_of(besides, key="42", shown=shown) == code_of(Wanted("orders"), key="42", shown=shown)


@pytest.mark.parametrize("key", [None, "a\"b\\'"])
@pytest.mark.parametrize("offset", [None, "5:10", "-5"])
@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("shown", [SHOWN, []])
def test_snippets_for_spark_are_python(key: str | None, offset: str | None, newest: bool, shown: Any) -> None:
    """Whatever the filters."""
    wanted = Wanted("orders", offset=offset, tags='a"b', newest_first=newest)
    compile(code_of(wanted, key=key, shown=shown).spark, "snippet", "exec")


def test_a_snippet_for_spark_says_what_was_looked_for() -> None:
    """In every script: what JSON writes as two halves no Spark takes."""
    assert "contains(split(keys, ' '), '\U0001f600')" in code_of(Wanted("orders"), key="\U0001f600").spark
    assert "cast('\U0001f600' as binary)" in code_of(Wanted("orders", body="\U0001f600")).spark


@pytest.mark.parametrize(
    ("newest_first", "ending"),
    [
        (True, " --json --namesrv 'h1:9876;h2:9876' | tail -n 50"),
        (False, " --count=50 --json --namesrv 'h1:9876;h2:9876'"),
    ],
)
def test_where_nothing_is_shown_the_command_line_asks_for_a_page(newest_first: bool, ending: str) -> None:
    """The newest are the last that `rmq consume` prints."""
    assert code_of(Wanted("orders", newest_first=newest_first), shown=[]).cli.endswith(ending)
