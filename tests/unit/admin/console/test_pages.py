"""What pages show of documents: they are functions of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rmqspark.admin.access import Role
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.console.brokers_tables import brokers_table, slaves_table
from rmqspark.admin.console.finder import fitting
from rmqspark.admin.console.histories import Histories
from rmqspark.admin.console.message_filters import Asked
from rmqspark.admin.console.nodes import find, texts
from rmqspark.admin.console.pages import broker as broker_page
from rmqspark.admin.console.pages import dead_letters_of, group, messages, overview, proof, topics, transactions
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.sessions import Sessions
from rmqspark.admin.console.tail import Tail
from rmqspark.admin.console.topic_forms import change_of
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.console.watch import MOST_GROUPS, _whole_lag
from rmqspark.admin.paging import Page, PartialPage
from rmqspark.admin.reads.names import Name
from rmqspark.admin.reads.overview import undecided
from rmqspark.admin.schemas.cluster import BrokerView, ClusterView, SettingView, SlaveView
from rmqspark.admin.schemas.dead_letters import DeadLetterView
from rmqspark.admin.schemas.groups import GroupQueueView, GroupSummary, GroupView, MemberView
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.admin.schemas.overview import OverviewView
from rmqspark.admin.schemas.topics import TopicOnBrokerView, TopicSummary, TopicView
from rmqspark.admin.schemas.transactions import BatchView, ProofView, TransactionView
from rmqspark.client.administration.descriptions import GroupDescription, GroupQueue
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import HALF_TOPIC
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame

TOKENS = AdminConfig(admin_token="a" * 16, read_token="r" * 16)


class Place:
    """What a page is given, of a visitor with this role."""

    def __init__(self, role: Role, **params: str) -> None:
        sessions = Sessions(TOKENS, ManualClock())
        cookie = sessions.begin(TOKENS.admin_token if role == Role.ADMIN else TOKENS.read_token)
        watch: Any = type("Watch", (), {"histories": Histories(), "groups": None, "silent": {}})()
        nobody: Any = None
        self.visit = Visit(
            nobody, watch, sessions, cookie, "1.2.3.4", "http://h", "/rmq", "/x", params, {}, Preferences()
        )

    def frame(self) -> Frame:
        return cast("Frame", self)


def view(**changes: Any) -> GroupView:
    queues = [
        GroupQueueView(
            topic="t", broker_name="b", queue_id=0, committed=2**53 + 1, max_offset=2**53 + 3, lag=2, seconds_behind=1
        ),
        GroupQueueView(
            topic="t", broker_name="b", queue_id=1, committed=None, max_offset=7, lag=None, seconds_behind=None
        ),
    ]
    known = {"group": "g", "members": 0, "topics": ["t"], "lag": 2, "seconds_behind": 1, "consumed_per_second": None}
    rest: dict[str, Any] = {"caught_up_in_seconds": None, "silent": {}, "clients": [], "queries": [], "offsets": queues}
    return GroupView(**{**known, **rest, **changes})


async def nothing() -> None: ...


def test_offsets_are_exact_and_unknown_is_said() -> None:
    """Beyond what JavaScript can count; never committed is neither 0 nor -1."""
    shown = texts(group.show(Place(Role.ADMIN).frame(), view(), nothing))
    assert "9007199254740993" in shown
    assert "Never committed in 1 queue" in shown
    assert "-1" not in shown


def test_a_query_that_reads_for_a_group_is_named() -> None:
    """It is no member, for it has no connection that lasts."""
    frame = Place(Role.READ).frame()
    assert "Nobody is connected for this group." in texts(group.show(frame, view(), nothing))
    shown = group.show(frame, view(queries=["the bills"]), nothing)
    assert "Nobody is connected" not in texts(shown)
    assert "/rmq/spark/the%20bills" in [link.attributes["href"] for link in find(shown, "a")]


def test_a_query_is_found_by_the_name_it_was_given() -> None:
    """As lists show it; its id is none that anybody remembers. What begins with what was typed comes first."""
    names = [Name("topic", "old-bills"), Name("query", "3f2a", "Bills"), Name("group", "billing")]
    assert [each.shown for each in fitting(names, "bill")] == ["Bills", "billing", "old-bills"]
    assert [each.shown for each in fitting(names, "3f")] == ["Bills"]


def test_what_clients_call_themselves_hides_nothing() -> None:
    """As in messages: what turns a line around, or is half a character, is shown as its code, whoever wrote it."""
    member = MemberView(client_id="10.0.0.7@\u202egpj\ud800", address="h:1", language="PYTHON", version=1)
    shown = group.show(Place(Role.READ).frame(), view(clients=[member]), nothing)
    assert r"10.0.0.7@\u202egpj\ud800" in texts(shown)


@pytest.mark.parametrize(("role", "count"), [(Role.ADMIN, 2), (Role.READ, 0)])
def test_who_may_not_change_has_no_button_for_it(role: Role, count: int) -> None:
    """It is not there, rather than switched off."""
    assert len(find(group.show(Place(role).frame(), view(), nothing), "button")) == count


def test_code_names_the_address_that_the_browser_knows() -> None:
    """Behind a proxy that encrypts it is another than this process sees: the token would go in the clear."""
    desk: Any = SimpleNamespace(cluster=SimpleNamespace(namesrv="h:9876"), config=TOKENS)
    visit = replace(Place(Role.READ).visit, desk=desk)
    visit.meet(None)
    assert visit.where.url == "http://h/rmq"
    visit.meet({"HTTP_ORIGIN": "https://queue.example"})
    assert "https://queue.example/rmq/api/v1/topics" in visit.where.rest("topics")


def test_links_are_under_the_prefix() -> None:
    """Behind a proxy, too."""
    shown = group.show(Place(Role.READ).frame(), view(), nothing)
    assert all(str(link.attributes["href"]).startswith("/rmq/") for link in find(shown, "a"))


def test_brokers_that_are_silent_are_named() -> None:
    """What they know is left out, and that is said."""
    document = transactions._Document.of([], {"broker-b": "it was cut"}, None)
    shown = texts(transactions.show(Place(Role.READ).frame(), document, nothing))
    assert "Partial: broker-b does not answer, so what it knows is left out: it was cut" in shown


def test_settled_transactions_have_pages() -> None:
    """Whoever ever wrote is among them, and the page is read again every three seconds; what waits is on each."""
    known = dict.fromkeys(TransactionView.model_fields) | {"version": 1, "state": "", "rows": 0, "brokers": []}
    views = [
        TransactionView.model_construct(**{**known, "transactional_id": f"t{number:03}", "open": number == 7})
        for number in range(250)
    ]
    shown = []
    for cursor in (None, "WyJ0MTAwIl0"):
        node = transactions.show(Place(Role.READ).frame(), transactions._Document.of(views, {}, cursor), nothing)
        shown.append([texts(each) for each in find(node, "th") if each.attributes.get("scope") == "row"])
    assert shown[0] == ["t007", *(f"t{number:03}" for number in range(101) if number != 7)]
    assert (shown[1][:2], len(shown[1])) == (["t007", "t101"], 101)


def test_a_topic_whose_brokers_are_silent_is_listed() -> None:
    """With what is known of it: its name, and on how many brokers it is; the rest is neither 0 nor never."""
    unknown = {"type": None, "queues": None, "perm": None, "messages": None, "last_stored": None}
    summary = TopicSummary(topic="t", brokers=1, silent={"broker-b": "it was cut"}, **unknown)
    page = PartialPage(items=[summary], next=None, silent=summary.silent)
    shown = topics.show(Place(Role.READ).visit, page, nothing)
    (row,) = [each for each in find(shown, "tr") if find(each, "td")]
    assert texts(row).split()[:7] == ["t", *["unknown"] * 3, "1", "unknown", "unknown"]
    assert "Partial: broker-b does not answer" in texts(shown)


@pytest.mark.parametrize(("silent", "lag"), [({}, 2), ({"broker-b": "it was cut"}, None)])
def test_a_lag_that_is_partial_is_no_dip_in_a_chart(silent: dict[str, str], lag: int | None) -> None:
    """It is left out there, where nobody could tell it from one that is whole."""
    assert _whole_lag(view(silent=silent)) == lag


def test_a_tail_that_cannot_keep_up_says_so() -> None:
    """So does one that has dropped older ones."""
    tail = Tail(came=50, is_full=True, is_behind=True)
    shown = texts(messages.show_tail(Place(Role.READ, topic="t").visit, tail))
    assert "Only the newest 200 are kept here." in shown
    assert "some are left out" in shown


def proof_view(batches: int) -> ProofView:
    shown = [
        BatchView.model_construct(
            **{"transactional_id": "t", "version": version, "inputs": [], "outputs": [], "rows": 1, "completed": True},
            **{"decided_at": 0, "decided_by": "p", "checksum": "c"},
        )
        for version in range(batches)
    ]
    return ProofView.model_construct(batches=shown, rows=batches, missing=0, doubled=0, findings=[], told=[])


@pytest.mark.parametrize(
    ("cursor", "first", "last", "following"),
    [("", "129", "80", "80"), ("80", "79", "30", "30"), ("30", "29", "0", None), ("junk", "129", "80", "80")],
)
def test_a_proof_has_pages(cursor: str, first: str, last: str, following: str | None) -> None:
    """The newest batches first; the numbers are of all."""
    visit = Place(Role.READ).visit
    visit.given = {"cursor": cursor} if cursor else {}
    shown = proof.show(visit, proof_view(130))
    versions = [texts(row) for row in find(shown, "th") if row.attributes.get("scope") == "row"]
    assert (versions[0], versions[-1]) == (first, last)
    (address,) = [link.attributes["href"] for link in find(shown, "a") if link.text == "Next page"] or [None]
    assert address == (following and f"/rmq/x?cursor={following}")
    assert "of 130, the newest first" in texts(shown)


CUT = {"broker-b": "it was cut"}
PARTIAL = "Partial: broker-b does not answer, so what it knows is left out: it was cut"


@pytest.mark.parametrize(
    ("groups", "silent", "lag", "story"),
    [
        (None, {}, "Largest lag unknown", "is unknown, until a broker can be asked"),
        ([], {}, "Largest lag 0", "are listed here"),
        ([], CUT, "Largest lag unknown", PARTIAL),
        ([GroupSummary.model_construct(lag=7)], {}, "Largest lag 7", "Groups furthest behind"),
        ([GroupSummary.model_construct(lag=7)], CUT, "Largest lag 7", PARTIAL),
    ],
)
def test_lag_that_could_not_be_measured_is_unknown(
    groups: list[GroupSummary] | None, silent: dict[str, str], lag: str, story: str
) -> None:
    """It is neither 0, nor are there no groups."""
    visit = Place(Role.READ).visit
    if groups:
        rest = {"seconds_behind": 1, "consumed_per_second": 1.0, "caught_up_in_seconds": 1, "members": 0}
        groups = [each.model_copy(update={"group": "g", "topics": ["t"], **rest}) for each in groups]
    visit.watch.groups, visit.watch.silent = groups, silent
    cluster = ClusterView(state="ok", name_servers=[], brokers=[], problems=[])
    known = {"topic_count": None, "half_messages": None, "open_transactions": None, "dead_letters": None}
    shown = texts(overview.show(visit, OverviewView(cluster=cluster, silent={}, **known)))
    assert lag in shown
    assert story in shown


@pytest.mark.parametrize("name", ["zebra", "CID_RMQ_SYS_TRANS"])
def test_a_lag_that_is_not_measured_has_no_chart(name: str) -> None:
    """Rather than one that is to come in a few seconds; the largest lag says of which groups it is."""
    frame = Place(Role.READ).frame()
    assert "measured from now on" in texts(group.show(frame, view(group="zebra"), nothing))
    measured = [GroupSummary.model_construct(group=f"g{number}", lag=number) for number in range(MOST_GROUPS)]
    frame.visit.watch.groups = measured
    assert "not of this one" in texts(group.show(frame, view(group=name), nothing))
    assert "measured from now on" in texts(group.show(frame, view(group="g7"), nothing))
    unknown: Any = SimpleNamespace(half_messages=None, open_transactions=None, dead_letters=None, topic_count=None)
    unknown.cluster = SimpleNamespace(brokers=[])
    assert "Largest lag 99 messages, of the first 100 groups" in texts(overview._figures(frame.visit, unknown))


@pytest.mark.parametrize(
    ("lags", "silent", "known"),
    [([], {}, 0), ([], CUT, None), ([None], {}, None), ([None, 2], {}, 2), ([1, 2], CUT, 3)],
)
def test_half_messages_that_nobody_tells_of_are_unknown(
    lags: list[int | None], silent: dict[str, str], known: int | None
) -> None:
    """Not 0: somebody would believe that nothing is in doubt."""
    queues = [
        GroupQueue(MessageQueue(HALF_TOPIC, "b", number), None if lag is None else 0, lag or 0)
        for number, lag in enumerate(lags)
    ]
    assert undecided(GroupDescription("g", [], queues, None, silent)) == known


def test_the_fullest_disk_has_its_own_free_bytes() -> None:
    """Not those of a disk that is smaller."""
    full, small = (
        broker(broker_name=name, slaves=[], slaves_wanted=0, disk_used=used, disk_free_bytes=free << 30)
        for name, used, free in (("a", 0.9, 100), ("b", 0.5, 1))
    )
    known: Any = SimpleNamespace(half_messages=None, open_transactions=None, dead_letters=None, topic_count=None)
    for brokers, told in (([full, small], "90% 100.0 GiB free"), ([], "unknown used")):
        known.cluster = SimpleNamespace(brokers=brokers)
        assert f"Fullest disk {told}" in texts(overview._figures(Place(Role.READ).visit, known))


def test_a_cause_leads_to_its_letters_on_this_page() -> None:
    """They are counted there; on the first page there may be none of it."""
    frame = Place(Role.READ).frame()
    frame.visit.given = given = {"cursor": "eyJ"}
    letter = DeadLetterView.model_construct(reason="given up by its consumer", sent_again=False)
    shown = dead_letters_of._causes(frame, "billing", [letter], nothing)
    assert find(shown, "a")[0].attributes["href"] == "/rmq/x?cursor=eyJ&cause=given+up+by+its+consumer"
    given["cause"] = letter.reason
    assert find(dead_letters_of._causes(frame, "billing", [letter], nothing), "a")[-1].attributes["href"] == (
        "/rmq/x?cursor=eyJ"
    )


def test_a_broker_that_does_not_answer_has_a_page() -> None:
    """What is known of it, and that its settings are not."""
    silent = broker(slaves=[], slaves_wanted=0, state="is registered and does not answer: it was cut")
    live: Any = type("Live", (), {"redraw": nothing, "refresh": nothing})()
    shown = texts(broker_page.show(Place(Role.ADMIN).frame(), broker_page._Document(silent, None), live))
    assert "is registered and does not answer: it was cut" in shown
    assert "its settings are unknown" in shown


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        ({"perm": "r"}, {"perm": "r"}),
        ({"read": "4"}, {"read_queues": 4}),
        ({"type": "fifo", "write": "9"}, {"type": "fifo", "write_queues": 9}),
        ({}, {}),
    ],
)
def test_a_topic_is_changed_in_what_was_changed(typed: dict[str, str], changed: dict[str, object]) -> None:
    """It may have other queues on another broker: these went, and what was in them, when somebody changed its perm."""
    on_brokers = [
        TopicOnBrokerView(broker_name=name, read_queues=count, write_queues=count, perm="rw", attributes={})
        for name, count in (("a", 8), ("b", 16))
    ]
    topic = TopicView.model_construct(topic="t", type=None, on_brokers=on_brokers)
    said = {"read": "8", "write": "8", "perm": "rw", "type": "normal", **typed}
    assert change_of(topic, said).model_dump(exclude_none=True, by_alias=False) == changed


@pytest.mark.parametrize(
    ("default", "meaning", "told"), [("72", "Hours.", "72"), (None, "A host.", "none"), (None, None, "unknown")]
)
def test_a_setting_without_a_default_has_none(default: str | None, meaning: str | None, told: str) -> None:
    """Only of RocketMQ's own it is unknown."""
    known = dict.fromkeys(SettingView.model_fields) | {"default": default, "meaning": meaning}
    assert broker_page._default(SettingView.model_construct(**known)) == told


@pytest.mark.parametrize(
    ("given", "count", "told"),
    [
        ({"key": "k"}, 50, ""),
        ({"key": "k", "from": "-1h"}, 50, ""),
        ({"key": "k", "body": "x"}, 50, " A key is looked for alone: filters but times are left aside."),
        ({"key": "k", "order": "oldest"}, 50, " Messages with a key come from the newest on"),
        ({"body": "x"}, 3, " It ends early, for bodies are large or few pass the filters"),
        ({"body": "x"}, 50, ""),
        ({}, 0, ""),
    ],
)
def test_what_a_page_of_messages_is_not_is_told(given: dict[str, str], count: int, told: str) -> None:
    """Neither the end where there is more, nor filtered by what was left aside."""
    page = Page[MessageView].model_construct(items=[MessageView.model_construct()] * count, next="more")
    story = messages._story(page, Asked.of("t", given))
    assert story.startswith(told)
    assert bool(story) == bool(told)


def test_slaves_are_shown_beside_their_master() -> None:
    """How far behind, in sync or not; unknown is said."""
    known = {"address": "h:2", "role": "SLAVE", "connected": True, "behind_bytes": 3 << 20, "in_sync": True}
    well = SlaveView(broker_id=1, state="ok", **known)
    away = SlaveView(
        broker_id=2,
        address="h:3",
        role="SLAVE",
        connected=None,
        behind_bytes=None,
        in_sync=None,
        state="does not answer",
    )
    visit, master = Place(Role.READ).visit, broker(slaves=[well, away], slaves_wanted=1)
    shown = texts(slaves_table(visit, [master]))
    told = ("1 of broker-a", "h:2", "3.0 MiB", "yes", "does not answer", "unknown")
    assert [words in shown for words in told] == [True] * 6
    assert "1 of 2, a send waits for 1" in texts(brokers_table(visit, [master]))
    assert "none there, a send waits for 1" in texts(brokers_table(visit, [broker(slaves=[], slaves_wanted=1)]))


def broker(**changes: Any) -> BrokerView:
    known: dict[str, Any] = dict.fromkeys(BrokerView.model_fields)
    known |= {"broker_name": "broker-a", "cluster": "c", "addresses": {"0": "h:1"}, "topics": 0, "queues": 0}
    return BrokerView.model_validate({**known, "state": "ok", **changes})
