"""What each request asks for: actions on topics, groups and the cluster. The table in docs/wire-format.md is this one.

RocketMQ's DefaultAuthorizationContextBuilder and the annotations of its request headers. What a request names in its
body, or by the place of a message, is asked for, too (security: S19); RocketMQ hardly looks beyond headers. So ours go
further in this:
- of a retry topic the group counts whose it is, whoever says to ask for it;
- sending back, ending a transaction and looking at a message by its place are about the topic of that message;
- requests that RocketMQ asks nothing for (settings, groups, lists, counters) have an entry here.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from rmqspark.auth import named
from rmqspark.auth.resources import Action, Need, ResourceType, cluster, distinct, every, group, topic
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.records.message_id import parse_offset_msg_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqspark.remoting.request import Request

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE


class Here(NamedTuple):
    """What a server knows and a request only hints at. `topic_at`: where the message belongs that is at a physical
    offset; `topics_read`: those that a batch of a query has read. A name server is of every cluster and has neither."""

    cluster_name: str = "*"
    topic_at: Callable[[int], str | None] = lambda offset: None
    topics_read: Callable[[str, int], Iterable[str]] = lambda query_id, batch_id: ()


Needs: TypeAlias = "Callable[[Request[Any], Here], Iterable[Need]]"


class Part(NamedTuple):
    """A part of what a request asks for, and how the docs say it."""

    resource: str
    actions: tuple[Action, ...]
    needs: Needs


def _topic(*actions: Action, field: str = "topic") -> Part:
    """The topic in a field of the header, if it is there."""
    return Part("Topic", actions, lambda request, here: _if_named(topic, getattr(request.header, field), actions))


def _group(*actions: Action, field: str = "consumerGroup") -> Part:
    return Part("Group", actions, lambda request, here: _if_named(group, getattr(request.header, field), actions))


def _if_named(make: Callable[..., Need], name: str | None, actions: tuple[Action, ...]) -> list[Need]:
    return [make(name, *actions)] if name is not None and name.strip() else []


def _topic_list(*actions: Action) -> Part:
    def needs(request: Request[Any], here: Here) -> list[Need]:
        return [topic(name, *actions) for name in (request.header.topicList or "").split(";") if name]

    return Part("Topics", actions, needs)


def _cluster(*actions: Action, field: str = "") -> Part:
    """The cluster that the header names in a field, or this server's."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        return [cluster(getattr(request.header, field) if field else here.cluster_name, *actions)]

    return Part("Cluster", actions, needs)


def _every(resource_type: ResourceType, *actions: Action) -> Part:
    return Part(f"{resource_type.value}:*", actions, lambda request, here: [every(resource_type, *actions)])


def _body(resource: str, find: Callable[[Request[Any]], Iterable[Need]], *actions: Action) -> Part:
    """Whatever the body names."""
    return Part(resource, actions, lambda request, here: distinct(find(request)))


def _topic_at(*actions: Action, field: str) -> Part:
    """The topic of the message at the physical offset in a field. Of one that is not there nothing is asked: the
    handler says so."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        return _if_named(topic, here.topic_at(getattr(request.header, field)), actions)

    return Part("Topic of the message", actions, needs)


def _topic_of_id(*actions: Action) -> Part:
    """The same of the message with the id in `msgId`."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        try:
            _, offset = parse_offset_msg_id(request.header.msgId or "")
        except InvalidArgument:
            return []
        return _if_named(topic, here.topic_at(offset), actions)

    return Part("Topic of the message", actions, needs)


def _transaction(*actions: Action) -> Part:
    """A transactional id stands for a group. Without one all of them are meant."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        name = request.header.transactionalId
        return [every(ResourceType.GROUP, *actions) if name is None else group(name, *actions)]

    return Part("Group (transactional id)", actions, needs)


def _route() -> Part:
    """The template of new topics is no secret: producers look for it before their topic is there."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        name = request.header.topic
        actions = (SUB, GET) if topic(name).resource.type is ResourceType.GROUP else (PUB, SUB, GET)
        return [] if name == AUTO_CREATE_TOPIC else [topic(name, *actions)]

    return Part("Topic", (PUB, SUB, GET), needs)


def _status() -> Part:
    """Who has an open version closed by asking needs more than who only asks."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        actions = (PUB,) if request.header.fence else (PUB, GET)
        return [group(request.header.transactionalId, *actions)]

    return Part("Group (transactional id)", (PUB, GET), needs)


def _read_topics() -> Part:
    def needs(request: Request[Any], here: Here) -> list[Need]:
        read = here.topics_read(request.header.queryId, request.header.batchId)
        return distinct(topic(name, SUB, GET) for name in read)

    return Part("Topics that were read", (SUB, GET), needs)


def _send(field: str) -> tuple[Part, ...]:
    """What goes to a retry topic comes from who consumes for its group."""

    def needs(request: Request[Any], here: Here) -> list[Need]:
        name = getattr(request.header, field)
        return [topic(name, SUB if topic(name).resource.type is ResourceType.GROUP else PUB)]

    return (Part("Topic", (PUB,), needs),)


_PULL: Final = (_topic(SUB), _group(SUB))
_LOCK: Final = (_body("Group and Topics in the body", named.of_lock, SUB),)
_ANYONE: Final[tuple[Part, ...]] = ()

RIGHTS: Final[Mapping[int, tuple[Part, ...]]] = MappingProxyType(
    {
        # producers
        RequestCode.SEND_MESSAGE: _send("topic"),
        RequestCode.SEND_MESSAGE_V2: _send("b"),
        RequestCode.SEND_BATCH_MESSAGE: _send("b"),
        RequestCode.RECALL_MESSAGE: (_topic(PUB),),
        RequestCode.END_TRANSACTION: (_topic(PUB), _topic_at(PUB, field="commitLogOffset")),
        # consumers
        RequestCode.PULL_MESSAGE: _PULL,
        RequestCode.LITE_PULL_MESSAGE: _PULL,
        RequestCode.QUERY_MESSAGE: (_topic(SUB, GET),),
        RequestCode.VIEW_MESSAGE_BY_ID: (_topic_at(GET, field="offset"),),
        RequestCode.QUERY_CONSUMER_OFFSET: (_topic(SUB, GET), _group(SUB, GET)),
        RequestCode.UPDATE_CONSUMER_OFFSET: (_topic(SUB, UPDATE), _group(SUB, UPDATE)),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (_topic(GET),),
        RequestCode.GET_MAX_OFFSET: (_topic(GET),),
        RequestCode.GET_MIN_OFFSET: (_topic(GET),),
        RequestCode.GET_EARLIEST_MSG_STORETIME: (_topic(GET),),
        RequestCode.HEART_BEAT: (_body("Groups and Topics in the body", named.of_heartbeat, SUB),),
        RequestCode.UNREGISTER_CLIENT: (_group(SUB),),
        RequestCode.CHECK_CLIENT_CONFIG: (_body("Group and Topic in the body", named.of_check, SUB),),
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: (_group(SUB, GET),),
        RequestCode.CONSUMER_SEND_MSG_BACK: (_group(SUB, field="group"), _topic_at(SUB, field="offset")),
        RequestCode.LOCK_BATCH_MQ: _LOCK,
        RequestCode.UNLOCK_BATCH_MQ: _LOCK,
        # name server
        RequestCode.GET_ROUTEINFO_BY_TOPIC: (_route(),),
        RequestCode.GET_BROKER_CLUSTER_INFO: _ANYONE,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_TOPICS_BY_CLUSTER: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_UNIT_TOPIC_LIST: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.PUT_KV_CONFIG: (_cluster(UPDATE),),
        RequestCode.GET_KV_CONFIG: (_cluster(GET),),
        RequestCode.DELETE_KV_CONFIG: (_cluster(UPDATE),),
        RequestCode.GET_KVLIST_BY_NAMESPACE: (_cluster(GET),),
        RequestCode.UPDATE_NAMESRV_CONFIG: (_cluster(UPDATE),),
        RequestCode.GET_NAMESRV_CONFIG: (_cluster(GET),),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: (_cluster(UPDATE),),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: (_cluster(UPDATE),),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: (_topic(DELETE),),
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: (_cluster(UPDATE),),
        RequestCode.GET_BROKER_MEMBER_GROUP: (_cluster(GET, field="clusterName"),),
        # servers among themselves
        RequestCode.REGISTER_BROKER: (_cluster(UPDATE, field="clusterName"),),
        RequestCode.UNREGISTER_BROKER: (_cluster(UPDATE, field="clusterName"),),
        RequestCode.QUERY_DATA_VERSION: (_cluster(GET, field="clusterName"),),
        RequestCode.BROKER_HEARTBEAT: (_cluster(UPDATE, field="clusterName"),),
        RequestCode.RMQ_TXN_VOTE: (_cluster(UPDATE),),
        RequestCode.RMQ_TXN_COMPLETE: (_cluster(UPDATE),),
        RequestCode.RMQ_TXN_FIND: (_cluster(GET),),
        # administration of a broker
        RequestCode.UPDATE_AND_CREATE_TOPIC: (_topic(CREATE),),
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (_body("Topics in the body", named.of_topic_configs, CREATE),),
        RequestCode.DELETE_TOPIC_IN_BROKER: (_topic(DELETE),),
        RequestCode.GET_TOPIC_CONFIG: (_topic(GET),),
        RequestCode.GET_TOPIC_STATS_INFO: (_topic(GET),),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (_topic(GET),),
        RequestCode.GET_ALL_TOPIC_CONFIG: (_every(ResourceType.TOPIC, GET, LIST),),
        RequestCode.GET_TOPIC_CONFIG_LIST: (_every(ResourceType.TOPIC, GET, LIST),),
        RequestCode.GET_TOPIC_NAME_LIST: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (_every(ResourceType.TOPIC, LIST),),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (_body("Group in the body", named.of_group_config, CREATE),),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
            _body("Groups in the body", named.of_group_configs, CREATE),
        ),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: (_group(DELETE, field="groupName"),),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (_group(GET, field="group"),),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (_every(ResourceType.GROUP, GET, LIST),),
        RequestCode.GET_CONSUME_STATS: (
            _group(GET),
            _topic(GET),
            _topic_list(GET),
        ),
        RequestCode.QUERY_TOPICS_BY_CONSUMER: (_group(GET, field="group"),),
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: (_group(GET, field="group"), _topic(GET)),
        RequestCode.GET_CONSUMER_CONNECTION_LIST: (_group(GET),),
        RequestCode.GET_PRODUCER_CONNECTION_LIST: (_cluster(GET),),
        RequestCode.GET_ALL_PRODUCER_INFO: (_cluster(GET),),
        RequestCode.GET_CONSUMER_RUNNING_INFO: (_group(GET),),
        RequestCode.CONSUME_MESSAGE_DIRECTLY: (_group(SUB), _topic(SUB), _topic_of_id(SUB)),
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (_topic(GET), _group(GET, field="group")),
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (_group(UPDATE, field="group"), _topic(UPDATE)),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: (_topic(UPDATE), _topic_of_id(UPDATE)),
        RequestCode.GET_ALL_CONSUMER_OFFSET: (_cluster(GET),),
        RequestCode.GET_ALL_DELAY_OFFSET: (_cluster(GET),),
        RequestCode.UPDATE_BROKER_CONFIG: (_cluster(UPDATE),),
        RequestCode.GET_BROKER_CONFIG: (_cluster(GET),),
        RequestCode.GET_BROKER_RUNTIME_INFO: (_cluster(GET),),
        RequestCode.GET_BROKER_HA_STATUS: (_cluster(GET),),
        # users
        RequestCode.AUTH_CREATE_USER: (_cluster(UPDATE),),
        RequestCode.AUTH_UPDATE_USER: (_cluster(UPDATE),),
        RequestCode.AUTH_DELETE_USER: (_cluster(UPDATE),),
        RequestCode.AUTH_GET_USER: (_cluster(GET),),
        RequestCode.AUTH_LIST_USER: (_cluster(GET),),
        RequestCode.AUTH_CREATE_ACL: (_cluster(UPDATE),),
        RequestCode.AUTH_UPDATE_ACL: (_cluster(UPDATE),),
        RequestCode.AUTH_DELETE_ACL: (_cluster(UPDATE),),
        RequestCode.AUTH_GET_ACL: (_cluster(GET),),
        RequestCode.AUTH_LIST_ACL: (_cluster(GET),),
        # rmqspark's own
        RequestCode.RMQ_CAPABILITIES: _ANYONE,
        RequestCode.RMQ_BULK_SEND: (_body("Topics of the messages", named.of_bulk, PUB),),
        RequestCode.RMQ_TOPICS_SEND: (_body("Topics in the body", named.of_topic_rows, PUB),),
        RequestCode.RMQ_BULK_READ: (_topic(SUB), _group(SUB, field="group")),
        RequestCode.RMQ_TOPICS_READ: (
            _body("Topics in the body", named.of_ranges, SUB),
            _group(SUB, field="group"),
        ),
        RequestCode.RMQ_MEASURE: (_body("Topics in the body", named.of_budgets, SUB, GET),),
        RequestCode.RMQ_QUEUE_BOUNDS: (_body("Topics in the body", named.of_bounds, SUB, GET),),
        RequestCode.RMQ_GROUP_RESETS: (_group(SUB),),
        RequestCode.RMQ_GROUP_LEASES: (_group(SUB), _body("Topics in the body", named.of_leases, SUB)),
        RequestCode.RMQ_TXN_PREPARE: (_transaction(PUB),),
        RequestCode.RMQ_TXN_HALF: (_transaction(PUB), _body("Topics of the messages", named.of_bulk, PUB)),
        RequestCode.RMQ_TXN_DECIDE: (
            _transaction(PUB),
            _body("Groups and Topics it moves forward", named.of_decision, SUB, UPDATE),
        ),
        RequestCode.RMQ_TXN_STATUS: (_status(),),
        RequestCode.RMQ_TXN_ABORT: (_transaction(PUB),),
        RequestCode.RMQ_TXN_LIST: (_transaction(GET),),
        RequestCode.RMQ_TXN_AUDIT: (_transaction(GET),),
        RequestCode.RMQ_TXN_RESOLVE: (_cluster(UPDATE),),
        RequestCode.RMQ_TXN_REPORT_INPUT: (_body("Topics and Groups in the body", named.of_inputs, SUB),),
        RequestCode.RMQ_TXN_INPUTS: (_read_topics(),),
        RequestCode.RMQ_QUERY_REPORT: (_body("Topics and Groups in the body", named.of_report, SUB),),
        RequestCode.RMQ_QUERY_LIST: (_cluster(GET),),
        RequestCode.RMQ_METRICS: (_cluster(GET),),
    }
)
"""By request code. All parts are asked for, one of its actions each; an empty entry is every user's."""


def in_words(parts: tuple[Part, ...] | None) -> str:
    """For the docs."""
    if parts is None:
        return "super users"
    if not parts:
        return "any user"
    return " · ".join(f"{part.resource} {' or '.join(part.actions)}" for part in parts)
