"""What clients ask the name servers. One after the other until one answers; the one that did is asked first next time.

Name servers do not talk to each other (spec: semantics, section 1), so what changes something goes to each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rmqspark.errors import (
    Busy,
    GoingAway,
    HandshakeFailed,
    NotFound,
    NotSupported,
    RequestTimeout,
    RmqError,
    Unreachable,
)
from rmqspark.protocol.bodies.route import ClusterInfo, TopicList, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import DeleteTopicFromNamesrvRequestHeader, GetRouteInfoRequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from rmqspark.client.cluster.connections import Connections
    from rmqspark.remoting.blocking import BlockingConnection
    from rmqspark.remoting.response import Response

T = TypeVar("T")
Question: TypeAlias = "Callable[[BlockingConnection, int], T]"
"""Put to one name server; it is told how many milliseconds it may take."""

_ROUTES_UNDER_WAY = 256  # asked for before an answer is awaited
_SHORTEST_SHARE_MS = 1_000  # of the time for all name servers, for one to answer
_START_ONE = "Start one with: rmq up, or say where yours is with --namesrv, namesrv= or $RMQ_NAMESRV."


class NameServers:
    """The name servers at `addresses`. Safe to share between threads."""

    def __init__(self, addresses: Sequence[str], connections: Connections, timeout_ms: int) -> None:
        self.addresses = tuple(addresses)
        self._connections = connections
        self._timeout_ms = timeout_ms
        self._preferred = self.addresses[0]

    def route(self, topic: str, timeout_ms: int | None = None) -> TopicRouteData | None:
        """The topic's route, None where no name server that answers knows such a topic.

        One that has just started knows nothing until the brokers have registered, so its word alone is not enough.
        `timeout_ms` is for the last that there is to ask, a share of it for those before; None: the client's.
        """
        return self._ask_one(
            lambda connection, allowed_ms: _route(connection, topic, allowed_ms),
            lambda data: data is not None,
            timeout_ms,
        )

    def known_routes(self, topics: Sequence[str]) -> dict[str, TopicRouteData]:
        """Those of these topics' routes that the first name server to answer knows, asked for together: one at a time,
        each costs both sides some wakings. Whether a topic exists is for `route` to say."""
        return self._ask_one(lambda connection, allowed_ms: _known_routes(connection, topics, allowed_ms))

    def route_seen_everywhere(self, topic: str, accept: Callable[[TopicRouteData | None], bool]) -> bool:
        """Whether every name server that answers gives a route that `accept` takes (None: topic unknown)."""
        return all(self._ask_all(lambda connection, allowed_ms: accept(_route(connection, topic, allowed_ms))))

    def cluster_info(self, timeout_ms: int | None = None) -> ClusterInfo:
        """Clusters, their brokers, and where those are. `timeout_ms` as in `route`."""
        return self._ask_one(_cluster_info, _has_brokers, timeout_ms)

    def views(self) -> dict[str, ClusterInfo | RmqError]:
        """What each name server answers to the same question, by address; of one that does not, why."""
        return {address: self._view(address) for address in self.addresses}

    def _view(self, address: str) -> ClusterInfo | RmqError:
        try:
            return self._put(_cluster_info, address)
        except RmqError as error:
            return error

    def topics(self) -> list[str]:
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return self._ask_one(
            lambda connection, allowed_ms: (
                TopicList.decode(connection.call(code, timeout_ms=allowed_ms).raise_for_code().body).topicList
            )
        )

    def forget_topic(self, topic: str, cluster: str) -> None:
        """Makes every name server drop what brokers of `cluster` had registered for the topic."""
        header = DeleteTopicFromNamesrvRequestHeader(topic, cluster)
        code = RequestCode.DELETE_TOPIC_IN_NAMESRV
        self._ask_all(
            lambda connection, allowed_ms: connection.call(code, header, timeout_ms=allowed_ms).raise_for_code()
        )

    def call(self, address: str, code: RequestCode, header: msgspec.Struct, body: bytes = b"") -> Response:
        """What one of them answers; raises the error an answer stands for."""
        connection = self._connections.to(address)
        return connection.call(code, header, body, timeout_ms=self._timeout_ms).raise_for_code()

    def _ask_one(
        self,
        question: Question[T],
        is_enough: Callable[[T], bool] = lambda answer: True,
        timeout_ms: int | None = None,
    ) -> T:
        """The first answer that is enough; where none is, the first of all."""
        answers: list[T] = []
        failures: dict[str, RmqError] = {}
        asked: set[str] = set()
        for address, allowed_ms in self._turns(timeout_ms):
            if answers and address in asked:
                break  # somebody has answered: who hangs is not waited for once more
            asked.add(address)
            try:
                answer = self._put(question, address, allowed_ms)
            except (Unreachable, RequestTimeout, GoingAway, Busy) as error:
                failures[address] = error
            else:
                if is_enough(answer):
                    self._preferred = address
                    return answer
                answers.append(answer)
                if self._preferred in failures:
                    self._preferred = address
        if not answers:
            raise self._nobody([*failures.values()])
        return answers[0]

    def _turns(self, timeout_ms: int | None) -> list[tuple[str, int | None]]:
        """Whom to ask, and how long to wait: for one that hangs not so long that its caller, who may have no more time
        than this in all, has none left for the others. Where none of them answers all get all of it."""
        first, whole_ms = self._preferred, timeout_ms or self._timeout_ms
        *early, last = first, *(other for other in self.addresses if other != first)
        share_ms = max(whole_ms // len(self.addresses), _SHORTEST_SHARE_MS)
        if share_ms >= whole_ms:
            return [(address, timeout_ms) for address in (*early, last)]
        return [*((address, share_ms) for address in early), *((address, timeout_ms) for address in (last, *early))]

    def _ask_all(self, question: Question[T]) -> list[T]:
        """The answers of those that answer; an error if nobody does."""
        answers: list[T] = []
        failures: list[RmqError] = []
        for address in self.addresses:
            try:
                answers.append(self._put(question, address))
            except (Unreachable, RequestTimeout, GoingAway) as error:
                failures.append(error)
        if not answers:
            raise self._nobody(failures)
        return answers

    def _put(self, question: Question[T], address: str, timeout_ms: int | None = None) -> T:
        try:
            return question(self._connections.to(address, timeout_ms), timeout_ms or self._timeout_ms)
        except NotSupported as error:  # each of these requests is as old as name servers are
            raise NotSupported(
                f"What answers at {address} is no name server ({error.message}).",
                hint="Give the name server's address; unless set otherwise its port is 9876, a broker's 10911.",
            ) from error

    def _nobody(self, failures: Sequence[RmqError]) -> Unreachable:
        """One that is there and not trusted will be so with the next try, too."""
        where = ";".join(self.addresses)
        kind = HandshakeFailed if all(isinstance(error, HandshakeFailed) for error in failures) else Unreachable
        return kind(
            f"No name server answers at {where} ({'; '.join(error.message.rstrip('.') for error in failures)}).",
            address=where,
            hint=next((error.hint for error in failures if error.hint), _START_ONE),
        )


def _cluster_info(connection: BlockingConnection, timeout_ms: int) -> ClusterInfo:
    answer = connection.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=timeout_ms)
    return ClusterInfo.decode(answer.raise_for_code().body)


def _has_brokers(info: ClusterInfo) -> bool:
    """Of a name server that has just started nobody knows whether there are any."""
    return bool(info.brokerAddrTable)


def _route(connection: BlockingConnection, topic: str, timeout_ms: int) -> TopicRouteData | None:
    header = GetRouteInfoRequestHeader(topic, acceptStandardJsonOnly=True)
    return _route_in(connection.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=timeout_ms))


def _known_routes(connection: BlockingConnection, topics: Sequence[str], timeout_ms: int) -> dict[str, TopicRouteData]:
    code, found = RequestCode.GET_ROUTEINFO_BY_TOPIC, {}
    for first in range(0, len(topics), _ROUTES_UNDER_WAY):
        asked = topics[first : first + _ROUTES_UNDER_WAY]
        headers = [GetRouteInfoRequestHeader(topic, acceptStandardJsonOnly=True) for topic in asked]
        answers = [connection.submit(code, header, timeout_ms=timeout_ms) for header in headers]
        for topic, answer in zip(asked, answers, strict=True):
            if (data := _route_in(answer.result())) is not None:
                found[topic] = data
    return found


def _route_in(response: Response) -> TopicRouteData | None:
    """The route that a name server answers; None where it knows no such topic."""
    try:
        response.raise_for_code()
    except NotFound:
        return None
    data = TopicRouteData.decode(response.body)
    return data if data.queueDatas and data.brokerDatas else None
