"""Listings over two brokers of which one says that it goes, on real sockets: what the other knows is given."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pytest

from rmqspark.client.administration.admin_access import describe_user
from rmqspark.client.administration.admin_groups import list_groups
from rmqspark.client.administration.admin_messages import message_by_id
from rmqspark.client.administration.dead_letter_walk import newest_dead_letters
from rmqspark.client.administration.dead_letters import count_dead_letters
from rmqspark.client.administration.groups_described import describe_group, describe_groups
from rmqspark.client.administration.topics_described import describe_topic, describe_topics
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.spark.queries import SeenQuery
from rmqspark.client.spark.query_view import view_of
from rmqspark.errors import GoingAway, GroupNotFound, MessageNotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupTable, TopicOffset, TopicStatsTable
from rmqspark.protocol.bodies.queries import KnownQuery
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicConfig, TopicList, TopicRouteData
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.testing.scripted_peer import Conversation, Step

    Talk: TypeAlias = tuple[RequestCode, Step]

A, B = "broker-a", "broker-b"
GOES = answer(ResponseCode.GO_AWAY, remark="please go away")
CONFIG, STATS = RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TOPIC_STATS_INFO
TOPICS_OF, MEMBERS = RequestCode.QUERY_TOPICS_BY_CONSUMER, RequestCode.GET_CONSUMER_CONNECTION_LIST
GROUPS, GROUP = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
COMMITTED = RequestCode.QUERY_CONSUMER_OFFSET
USERS = RequestCode.AUTH_LIST_USER
QUERY = RequestCode.QUERY_MESSAGE
NO_MEMBERS = answer(ResponseCode.CONSUMER_NOT_ONLINE)
NO_GROUPS = answer(body=SubscriptionGroupTable().encode())


def nothing_more(conversation: Conversation) -> None:
    """Whoever was silent once is asked no more until the client hangs up."""
    assert conversation.socket.recv(1 << 16) == b""


def following(talk: list[Talk]) -> ScriptedPeer:
    """One that nothing is to be asked of takes no connection."""
    script = [step for code, reply in talk for step in (expect(code), reply)]
    return ScriptedPeer([*script, nothing_more]) if talk else ScriptedPeer()


def going(code: RequestCode) -> list[Talk]:
    """Of one that is asked twice at once, and answers only then, both in one piece: the client hangs up on whoever says
    that it goes."""

    def reply(conversation: Conversation) -> None:
        expect(code)(conversation)
        asked = [request.command.opaque for request in conversation.received]
        conversation.write([piece for opaque in asked for piece in encode_response(opaque, ResponseCode.GO_AWAY)])

    return [(code, reply)]


class Named:
    """What a name server says of the two."""

    def __init__(self, a: ScriptedPeer, b: ScriptedPeer) -> None:
        self._there = {name: BrokerData("c", name, {0: peer.address}) for name, peer in ((A, a), (B, b))}

    def brokers(self) -> Talk:
        return RequestCode.GET_BROKER_CLUSTER_INFO, answer(body=ClusterInfo(self._there, {"c": [A, B]}).encode())

    def route(self, *names: str) -> Talk:
        data = TopicRouteData([QueueData(name, 2, 2, 6) for name in names], [self._there[name] for name in names])
        return RequestCode.GET_ROUTEINFO_BY_TOPIC, answer(body=data.encode(standard=True))

    def no_route(self) -> Talk:
        return RequestCode.GET_ROUTEINFO_BY_TOPIC, answer(ResponseCode.TOPIC_NOT_EXIST)

    def no_users(self) -> Talk:
        return USERS, answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def topics(self, *names: str) -> Talk:
        return RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, answer(body=TopicList([*names]).encode())


@contextmanager
def client(of_a: list[Talk], of_b: list[Talk], said: Callable[[Named], list[Talk]]) -> Iterator[ClusterClient]:
    """Of a name server and two brokers; all are asked exactly what the test says."""
    a, b = following(of_a), following(of_b)
    with a, b, following(said(Named(a, b))) as names, ClusterClient(names.address) as connected:
        yield connected


def config(topic: str) -> Talk:
    return CONFIG, answer(body=TopicConfig(topic, 2, 2).encode())


def stats(topic: str, *ends: int) -> Talk:
    queues = {MessageQueue(topic, A, number): TopicOffset(0, end, 7) for number, end in enumerate(ends)}
    return STATS, answer(body=TopicStatsTable(queues).encode())


def topics_of(*names: str) -> Talk:
    return TOPICS_OF, answer(body=TopicList([*names]).encode())


def test_topics_of_which_a_broker_is_silent() -> None:
    """Sums are over the other one; of a topic that only it has all but the name is unknown, and nothing is 0."""
    silence = Silence()
    of_a, of_b = [config("both"), stats("both", 3, 4)], going(CONFIG)
    with client(of_a, of_b, lambda said: [said.route(A, B), said.route(B), said.brokers(), said.brokers()]) as cluster:
        both, mine = describe_topics(cluster, ["mine", "both"], on_silent=silence)
    assert (both.name, both.message_count, both.queue_count, both.broker_count) == ("both", 7, 2, 2)
    assert list(both.silent) == [B]
    assert (mine.name, mine.message_count, mine.queue_count, mine.broker_count) == ("mine", None, None, 1)
    assert (mine.message_type, mine.perm, list(silence.reasons)) == (None, None, [B])
    assert "unknown, without broker-b, which does not answer" in mine._repr_html_()


def test_topics_of_which_all_brokers_are_silent() -> None:
    """A list of names alone is none of what the cluster has."""
    with (
        client([(CONFIG, GOES)], [(CONFIG, GOES)], lambda said: [said.route(A, B), *[said.brokers()] * 2]) as cluster,
        pytest.raises(GoingAway, match="'broker-a' may know more"),
    ):
        describe_topics(cluster, ["both"], on_silent=Silence())


def test_one_topic_of_which_nobody_says_anything() -> None:
    """It is an error, with or without somebody who hears of silences."""
    for silence in (Silence(), None):
        with (
            client([], [(CONFIG, GOES)], lambda said: [said.route(B)]) as cluster,
            pytest.raises(GoingAway, match="'broker-b' may know more"),
        ):
            describe_topic(cluster, "mine", on_silent=silence)


def test_groups_of_which_a_broker_is_silent() -> None:
    """It is asked once for all of them; a group that was deleted meanwhile is left out."""
    silence = Silence()
    groups = answer(body=SubscriptionGroupTable({each: SubscriptionGroupConfig(each) for each in "gh"}).encode())
    of_a = [
        *((GROUPS, groups), topics_of("t", "%DLQ%g"), topics_of(), (MEMBERS, NO_MEMBERS), (MEMBERS, NO_MEMBERS)),
        *((GROUPS, NO_GROUPS), stats("t", 5, 5)),
        *((COMMITTED, answer(offset="5")), (COMMITTED, answer(ResponseCode.QUERY_NOT_FOUND))),
    ]
    naming = [Named.brokers, Named.brokers]
    with client(of_a, [(GROUPS, GOES)], lambda said: [*(say(said) for say in naming), said.route(A, B)]) as cluster:
        names = list_groups(cluster, system=False, on_silent=silence)
        (found,) = describe_groups(cluster, names, on_silent=silence)
    assert (names, found.name, found.lag, list(found.silent)) == (["g", "h"], "g", 0, [B])
    assert [(queue.committed, queue.lag) for queue in found.queues] == [(5, 0), (None, None)]
    assert "without broker-b, which does not answer" in found._repr_html_()


def test_a_group_that_the_silent_broker_may_know_is_not_said_to_be_none() -> None:
    """Where all answer it is."""
    nothing = [topics_of(), (MEMBERS, NO_MEMBERS), (GROUPS, NO_GROUPS)]
    with (
        client(nothing, [(TOPICS_OF, GOES)], lambda said: [said.brokers()]) as cluster,
        pytest.raises(GoingAway, match="'broker-b' may know more"),
    ):
        describe_group(cluster, "g", on_silent=Silence())
    with client(nothing, nothing, lambda said: [said.brokers()]) as cluster, pytest.raises(GroupNotFound):
        describe_group(cluster, "g", on_silent=Silence())


def test_no_groups_of_nobody_is_an_error() -> None:
    """A list that is empty says that there are none."""
    with (
        client([(GROUPS, GOES)], [(GROUPS, GOES)], lambda said: [said.brokers()]) as cluster,
        pytest.raises(GoingAway),
    ):
        list_groups(cluster, system=False, on_silent=Silence())


def test_dead_letters_of_which_a_broker_is_silent() -> None:
    """A group whose letters are all with it has an unknown number; one that has none elsewhere is left out."""
    silence = Silence()
    of_a = [stats("%DLQ%none", 0), (COMMITTED, answer(offset="0"))]
    of_b = going(STATS)
    with client(
        of_a,
        of_b,
        lambda said: [said.topics("%DLQ%none", "%DLQ%some", "t"), said.route(A, B), said.route(B), said.brokers()],
    ) as cluster:
        (count,) = count_dead_letters(cluster, on_silent=silence)
    assert (count.group, count.count, count.waiting, list(count.silent)) == ("some", None, None, [B])
    with client([], [(STATS, GOES)], lambda said: [said.route(B)]) as cluster, pytest.raises(GoingAway):
        newest_dead_letters(cluster, "some", 1, on_silent=Silence())


def test_a_group_that_one_broker_knows_has_no_dead_letters() -> None:
    """The others need not be waited for."""
    known, silence = answer(body=SubscriptionGroupConfig("g").encode()), Silence()
    with client([(GROUP, known)], [], lambda said: [said.no_route(), said.brokers(), said.brokers()]) as cluster:
        assert newest_dead_letters(cluster, "g", 1, on_silent=silence) == []
    assert silence.reasons == {}


def test_a_message_that_nobody_has_who_answers() -> None:
    """The silent broker may have it, so it is not said to be nowhere."""
    of_a, of_b = [(QUERY, answer(ResponseCode.QUERY_NOT_FOUND))], [(QUERY, GOES)]
    with client(of_a, of_b, lambda said: [said.route(A, B)]) as cluster, pytest.raises(GoingAway):
        message_by_id(cluster, "some-id", "t")
    with client(of_a, of_a, lambda said: [said.route(A, B)]) as cluster, pytest.raises(MessageNotFound):
        message_by_id(cluster, "some-id", "t")


def test_users_of_which_a_broker_is_silent() -> None:
    """Those that the others have; one that they have not may be there, and is not said to be none."""
    body = answer(body=b'[{"username":"ann","userType":"Super","userStatus":"enable"}]')
    of_a, of_b, silence = [(USERS, body)], [(USERS, GOES)], Silence()
    for name in ("ann", "bob"):
        with client(of_a, of_b, lambda said: [said.brokers(), said.no_users()]) as cluster:
            if name == "bob":
                with pytest.raises(GoingAway):
                    describe_user(cluster, name, on_silent=Silence())
            else:
                (user,) = describe_user(cluster, name, on_silent=silence)
                assert (user.servers, list(silence.reasons)) == ((A,), [B])


def test_a_query_without_a_listener_that_reads_of_a_silent_broker() -> None:
    """How far it is there is unknown, and how far it had read is known all the same."""
    inputs = [InputRange(topic="t", brokerName=name, queueId=0, fromOffset=0, toOffset=3) for name in (A, B)]
    offsets = {"nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3", "suggestWhichBrokerId": "0"}
    pulled = answer(ResponseCode.PULL_NOT_FOUND, **offsets)
    with client(
        [(RequestCode.PULL_MESSAGE, pulled)],
        [(RequestCode.PULL_MESSAGE, GOES)],
        lambda said: [said.brokers()],
    ) as cluster:
        view = view_of(cluster, SeenQuery(KnownQuery("id", inputs=inputs), 0), on_silent=Silence())
    assert [(each.queue.broker_name, each.position, each.lag) for each in view.queues] == [(A, 3, 0), (B, 3, None)]
    assert list(view.silent) == [B]
