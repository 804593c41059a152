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
from typing import TYPE_CHECKING, Final

from rmqspark.auth import named
from rmqspark.auth.needs import (
    on_body,
    on_cluster,
    on_coordinator,
    on_every,
    on_group,
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
from rmqspark.auth.resources import Action, ResourceType
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.auth.needs import Part

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE

_PULL: Final = (on_topic(SUB), on_group(SUB))
_LOCK: Final = (on_body("Group and Topics in the body", named.of_lock, SUB),)
_ANYONE: Final[tuple[Part, ...]] = ()

RIGHTS: Final[Mapping[int, tuple[Part, ...]]] = MappingProxyType(
    {
        # producers
        RequestCode.SEND_MESSAGE: on_send("topic", "properties"),
        RequestCode.SEND_MESSAGE_V2: on_send("b", "i"),
        RequestCode.SEND_BATCH_MESSAGE: on_send("b", "i"),
        RequestCode.SEND_REPLY_MESSAGE: on_send("topic", "properties"),
        RequestCode.SEND_REPLY_MESSAGE_V2: on_send("b", "i"),
        RequestCode.RECALL_MESSAGE: (on_topic(PUB),),
        RequestCode.END_TRANSACTION: (on_topic(PUB), on_topic_at(PUB, field="commitLogOffset")),
        # consumers
        RequestCode.PULL_MESSAGE: _PULL,
        RequestCode.LITE_PULL_MESSAGE: _PULL,
        RequestCode.QUERY_MESSAGE: (on_topic(SUB, GET),),
        RequestCode.VIEW_MESSAGE_BY_ID: (on_topic_at(GET, field="offset"),),
        RequestCode.QUERY_CONSUMER_OFFSET: (on_topic(SUB, GET), on_group(SUB, GET)),
        RequestCode.UPDATE_CONSUMER_OFFSET: (on_topic(SUB, UPDATE), on_group(SUB, UPDATE)),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (on_topic(GET),),
        RequestCode.GET_MAX_OFFSET: (on_topic(GET),),
        RequestCode.GET_MIN_OFFSET: (on_topic(GET),),
        RequestCode.GET_EARLIEST_MSG_STORETIME: (on_topic(GET),),
        RequestCode.HEART_BEAT: (on_body("Groups and Topics in the body", named.of_heartbeat, SUB),),
        RequestCode.UNREGISTER_CLIENT: (on_group(SUB),),
        RequestCode.CHECK_CLIENT_CONFIG: (on_body("Group and Topic in the body", named.of_check, SUB),),
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: (on_group(SUB, GET),),
        RequestCode.CONSUMER_SEND_MSG_BACK: (on_group(SUB, field="group"), on_topic_at(SUB, field="offset")),
        RequestCode.LOCK_BATCH_MQ: _LOCK,
        RequestCode.UNLOCK_BATCH_MQ: _LOCK,
        # name server
        RequestCode.GET_ROUTEINFO_BY_TOPIC: (on_route(),),
        RequestCode.GET_BROKER_CLUSTER_INFO: _ANYONE,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_TOPICS_BY_CLUSTER: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_UNIT_TOPIC_LIST: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.PUT_KV_CONFIG: (on_cluster(UPDATE),),
        RequestCode.GET_KV_CONFIG: (on_cluster(GET),),
        RequestCode.DELETE_KV_CONFIG: (on_cluster(UPDATE),),
        RequestCode.GET_KVLIST_BY_NAMESPACE: (on_cluster(GET),),
        RequestCode.UPDATE_NAMESRV_CONFIG: (on_cluster(UPDATE),),
        RequestCode.GET_NAMESRV_CONFIG: (on_cluster(GET),),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: (on_cluster(UPDATE),),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: (on_cluster(UPDATE),),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: (on_topic(DELETE),),
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: (on_cluster(UPDATE),),
        RequestCode.GET_BROKER_MEMBER_GROUP: (on_cluster(GET, field="clusterName"),),
        # servers among themselves
        RequestCode.REGISTER_BROKER: (on_cluster(UPDATE, field="clusterName"),),
        RequestCode.UNREGISTER_BROKER: (on_cluster(UPDATE, field="clusterName"),),
        RequestCode.QUERY_DATA_VERSION: (on_cluster(GET, field="clusterName"),),
        RequestCode.BROKER_HEARTBEAT: (on_cluster(UPDATE, field="clusterName"),),
        RequestCode.RMQ_TXN_VOTE: (on_cluster(UPDATE),),
        RequestCode.RMQ_TXN_COMPLETE: (on_cluster(UPDATE),),
        RequestCode.RMQ_TXN_FIND: (on_cluster(GET),),
        RequestCode.RMQ_TXN_GROUP_OFFSETS: (on_cluster(GET),),
        # administration of a broker
        RequestCode.UPDATE_AND_CREATE_TOPIC: (on_topic(CREATE),),
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (on_body("Topics in the body", named.of_topic_configs, CREATE),),
        RequestCode.DELETE_TOPIC_IN_BROKER: (on_topic(DELETE),),
        RequestCode.GET_TOPIC_CONFIG: (on_topic(GET),),
        RequestCode.GET_TOPIC_STATS_INFO: (on_topic(GET),),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (on_topic(GET),),
        RequestCode.QUERY_CONSUME_QUEUE: (on_topic(GET), on_group(GET)),
        RequestCode.GET_ALL_TOPIC_CONFIG: (on_every(ResourceType.TOPIC, GET, LIST),),
        RequestCode.GET_TOPIC_CONFIG_LIST: (on_every(ResourceType.TOPIC, GET, LIST),),
        RequestCode.GET_TOPIC_NAME_LIST: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (on_every(ResourceType.TOPIC, LIST),),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (on_body("Group in the body", named.of_group_config, CREATE),),
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
            on_body("Groups in the body", named.of_group_configs, CREATE),
        ),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: (on_group(DELETE, field="groupName"),),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (on_group(GET, field="group"),),
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: (on_group(UPDATE, field="group"), on_topic(UPDATE)),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (on_every(ResourceType.GROUP, GET, LIST),),
        RequestCode.GET_CONSUME_STATS: (
            on_group(GET),
            on_topic(GET),
            on_topic_list(GET),
        ),
        RequestCode.QUERY_CONSUME_TIME_SPAN: (on_topic(GET), on_group(GET, field="group")),
        RequestCode.QUERY_TOPICS_BY_CONSUMER: (on_group(GET, field="group"),),
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: (on_group(GET, field="group"), on_topic(GET)),
        RequestCode.GET_CONSUMER_CONNECTION_LIST: (on_group(GET),),
        RequestCode.GET_PRODUCER_CONNECTION_LIST: (on_cluster(GET),),
        RequestCode.GET_ALL_PRODUCER_INFO: (on_cluster(GET),),
        RequestCode.GET_CONSUMER_RUNNING_INFO: (on_group(GET),),
        RequestCode.CONSUME_MESSAGE_DIRECTLY: (on_group(SUB), on_topic(SUB), on_topic_of_id(SUB)),
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (on_topic(GET), on_group(GET, field="group")),
        RequestCode.CLONE_GROUP_OFFSET: (
            on_group(GET, field="srcGroup"),
            on_group(UPDATE, field="destGroup"),
            on_topic(UPDATE),
        ),
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (on_group(UPDATE, field="group"), on_topic(UPDATE)),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: (on_topic(UPDATE), on_topic_of_id(UPDATE)),
        RequestCode.GET_ALL_CONSUMER_OFFSET: (on_cluster(GET),),
        RequestCode.GET_ALL_DELAY_OFFSET: (on_cluster(GET),),
        RequestCode.UPDATE_BROKER_CONFIG: (on_cluster(UPDATE),),
        RequestCode.DELETE_EXPIRED_COMMITLOG: (on_cluster(UPDATE),),
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: (on_cluster(UPDATE),),
        RequestCode.CLEAN_UNUSED_TOPIC: (on_cluster(UPDATE),),
        RequestCode.GET_BROKER_CONFIG: (on_cluster(GET),),
        RequestCode.GET_BROKER_RUNTIME_INFO: (on_cluster(GET),),
        RequestCode.GET_BROKER_HA_STATUS: (on_cluster(GET),),
        RequestCode.VIEW_BROKER_STATS_DATA: (on_cluster(GET),),
        RequestCode.GET_BROKER_CONSUME_STATS: (on_cluster(GET),),
        # users
        RequestCode.AUTH_CREATE_USER: (on_cluster(UPDATE),),
        RequestCode.AUTH_UPDATE_USER: (on_cluster(UPDATE),),
        RequestCode.AUTH_DELETE_USER: (on_cluster(UPDATE),),
        RequestCode.AUTH_GET_USER: (on_cluster(GET),),
        RequestCode.AUTH_LIST_USER: (on_cluster(GET),),
        RequestCode.AUTH_CREATE_ACL: (on_cluster(UPDATE),),
        RequestCode.AUTH_UPDATE_ACL: (on_cluster(UPDATE),),
        RequestCode.AUTH_DELETE_ACL: (on_cluster(UPDATE),),
        RequestCode.AUTH_GET_ACL: (on_cluster(GET),),
        RequestCode.AUTH_LIST_ACL: (on_cluster(GET),),
        # rmqspark's own
        RequestCode.RMQ_CAPABILITIES: _ANYONE,
        RequestCode.RMQ_BULK_SEND: (on_body("Topics of the messages", named.of_bulk, PUB),),
        RequestCode.RMQ_TOPICS_SEND: (on_body("Topics in the body", named.of_topic_rows, PUB),),
        RequestCode.RMQ_BULK_READ: (on_topic(SUB), on_group(SUB, field="group")),
        RequestCode.RMQ_TOPICS_READ: (
            on_body("Topics in the body", named.of_ranges, SUB),
            on_group(SUB, field="group"),
        ),
        RequestCode.RMQ_MEASURE: (on_body("Topics in the body", named.of_budgets, SUB, GET),),
        RequestCode.RMQ_QUEUE_BOUNDS: (on_body("Topics in the body", named.of_bounds, SUB, GET),),
        RequestCode.RMQ_GROUP_RESETS: (on_group(SUB),),
        RequestCode.RMQ_GROUP_LEASES: (
            on_group(SUB),
            on_body("Topics in the body", named.of_leases, SUB),
            on_coordinator(UPDATE),
        ),
        RequestCode.RMQ_TXN_PREPARE: (on_transaction(PUB),),
        RequestCode.RMQ_TXN_HALF: (on_transaction(PUB), on_body("Topics of the messages", named.of_bulk, PUB)),
        RequestCode.RMQ_TXN_DECIDE: (
            on_transaction(PUB),
            on_body("Groups and Topics it moves forward", named.of_decision, SUB, UPDATE),
        ),
        RequestCode.RMQ_TXN_STATUS: (on_status(),),
        RequestCode.RMQ_TXN_ABORT: (on_transaction(PUB),),
        RequestCode.RMQ_TXN_LIST: (on_transaction(GET),),
        RequestCode.RMQ_TXN_AUDIT: (on_transaction(GET),),
        RequestCode.RMQ_TXN_RESOLVE: (on_cluster(UPDATE),),
        RequestCode.RMQ_TXN_REPORT_INPUT: (on_body("Topics and Groups in the body", named.of_inputs, SUB),),
        RequestCode.RMQ_TXN_INPUTS: (on_topics_read(),),
        RequestCode.RMQ_QUERY_REPORT: (on_body("Topics and Groups in the body", named.of_report, SUB),),
        RequestCode.RMQ_QUERY_LIST: (on_cluster(GET),),
        RequestCode.RMQ_METRICS: (on_cluster(GET),),
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
