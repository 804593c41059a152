"""All request and response headers, and which request has which.

One struct per header, named as RocketMQ names it, in a file per family; import them from here, or as with bodies by
family in what Spark's processes import.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rmqspark.protocol import headers_admin as admin
from rmqspark.protocol import headers_bulk as bulk
from rmqspark.protocol import headers_cluster as cluster
from rmqspark.protocol import headers_consume as consume
from rmqspark.protocol import headers_produce as produce
from rmqspark.protocol import headers_queries as queries
from rmqspark.protocol import headers_txn as txn
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.header_types import *  # noqa: F403 - this module is the families' one door
from rmqspark.protocol.headers_admin import *  # noqa: F403
from rmqspark.protocol.headers_bulk import *  # noqa: F403
from rmqspark.protocol.headers_cluster import *  # noqa: F403
from rmqspark.protocol.headers_consume import *  # noqa: F403
from rmqspark.protocol.headers_produce import *  # noqa: F403
from rmqspark.protocol.headers_queries import *  # noqa: F403
from rmqspark.protocol.headers_txn import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.protocol.header_types import Header

REQUEST_HEADERS: Final[Mapping[RequestCode, type[Header]]] = MappingProxyType(
    {
        RequestCode.SEND_MESSAGE: produce.SendMessageRequestHeader,
        RequestCode.SEND_MESSAGE_V2: produce.SendMessageRequestHeaderV2,
        RequestCode.SEND_BATCH_MESSAGE: produce.SendMessageRequestHeaderV2,
        RequestCode.SEND_REPLY_MESSAGE: produce.SendMessageRequestHeader,
        RequestCode.SEND_REPLY_MESSAGE_V2: produce.SendMessageRequestHeaderV2,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: produce.PushReplyMessageRequestHeader,
        RequestCode.END_TRANSACTION: produce.EndTransactionRequestHeader,
        RequestCode.CHECK_TRANSACTION_STATE: produce.CheckTransactionStateRequestHeader,
        RequestCode.RECALL_MESSAGE: produce.RecallMessageRequestHeader,
        RequestCode.PULL_MESSAGE: consume.PullMessageRequestHeader,
        RequestCode.LITE_PULL_MESSAGE: consume.PullMessageRequestHeader,
        RequestCode.QUERY_CONSUMER_OFFSET: consume.QueryConsumerOffsetRequestHeader,
        RequestCode.UPDATE_CONSUMER_OFFSET: consume.UpdateConsumerOffsetRequestHeader,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: consume.SearchOffsetRequestHeader,
        RequestCode.GET_MAX_OFFSET: consume.GetMaxOffsetRequestHeader,
        RequestCode.GET_MIN_OFFSET: consume.GetMinOffsetRequestHeader,
        RequestCode.GET_EARLIEST_MSG_STORETIME: consume.GetEarliestMsgStoretimeRequestHeader,
        RequestCode.HEART_BEAT: consume.HeartbeatRequestHeader,
        RequestCode.UNREGISTER_CLIENT: consume.UnregisterClientRequestHeader,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: consume.ConsumerGroupRequestHeader,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: consume.ConsumerGroupRequestHeader,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: consume.ConsumerGroupRequestHeader,
        RequestCode.CONSUMER_SEND_MSG_BACK: consume.ConsumerSendMsgBackRequestHeader,
        RequestCode.QUERY_MESSAGE: consume.QueryMessageRequestHeader,
        RequestCode.VIEW_MESSAGE_BY_ID: consume.ViewMessageRequestHeader,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET: consume.ResetOffsetToClientRequestHeader,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: consume.ConsumerStatusRequestHeader,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: consume.ConsumerStatusRequestHeader,
        RequestCode.GET_CONSUMER_RUNNING_INFO: consume.GetConsumerRunningInfoRequestHeader,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: consume.ConsumeMessageDirectlyRequestHeader,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: cluster.GetRouteInfoRequestHeader,
        RequestCode.GET_TOPICS_BY_CLUSTER: cluster.GetTopicsByClusterRequestHeader,
        RequestCode.PUT_KV_CONFIG: cluster.PutKVConfigRequestHeader,
        RequestCode.GET_KV_CONFIG: cluster.GetKVConfigRequestHeader,
        RequestCode.DELETE_KV_CONFIG: cluster.GetKVConfigRequestHeader,
        RequestCode.GET_KVLIST_BY_NAMESPACE: cluster.GetKVListByNamespaceRequestHeader,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: cluster.WritePermOfBrokerRequestHeader,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: cluster.WritePermOfBrokerRequestHeader,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: cluster.DeleteTopicFromNamesrvRequestHeader,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: cluster.RegisterTopicRequestHeader,
        RequestCode.REGISTER_BROKER: cluster.RegisterBrokerRequestHeader,
        RequestCode.UNREGISTER_BROKER: cluster.UnregisterBrokerRequestHeader,
        RequestCode.QUERY_DATA_VERSION: cluster.UnregisterBrokerRequestHeader,
        RequestCode.BROKER_HEARTBEAT: cluster.BrokerHeartbeatRequestHeader,
        RequestCode.GET_BROKER_MEMBER_GROUP: cluster.GetBrokerMemberGroupRequestHeader,
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: cluster.NotifyMinBrokerIdChangeRequestHeader,
        RequestCode.GET_ALL_TOPIC_CONFIG: cluster.GetAllTopicConfigRequestHeader,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: cluster.GetAllSubscriptionGroupRequestHeader,
        RequestCode.EXCHANGE_BROKER_HA_INFO: cluster.ExchangeHAInfoHeader,
        RequestCode.RESET_MASTER_FLUSH_OFFSET: cluster.ResetMasterFlushOffsetHeader,
        RequestCode.UPDATE_AND_CREATE_TOPIC: admin.CreateTopicRequestHeader,
        RequestCode.DELETE_TOPIC_IN_BROKER: admin.TopicRequestHeader,
        RequestCode.GET_TOPIC_CONFIG: admin.TopicRequestHeader,
        RequestCode.GET_TOPIC_CONFIG_LIST: admin.TopicRequestHeader,
        RequestCode.GET_TOPIC_STATS_INFO: admin.TopicRequestHeader,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: admin.TopicRequestHeader,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.DeleteSubscriptionGroupRequestHeader,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.GetSubscriptionGroupConfigRequestHeader,
        RequestCode.GET_CONSUME_STATS: admin.GetConsumeStatsRequestHeader,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.GetProducerConnectionListRequestHeader,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: admin.ResetOffsetRequestHeader,
        RequestCode.CLONE_GROUP_OFFSET: admin.CloneGroupOffsetRequestHeader,
        RequestCode.VIEW_BROKER_STATS_DATA: admin.ViewBrokerStatsDataRequestHeader,
        RequestCode.GET_BROKER_CONSUME_STATS: admin.GetBrokerConsumeStatsRequestHeader,
        RequestCode.QUERY_CONSUME_QUEUE: admin.QueryConsumeQueueRequestHeader,
        RequestCode.RESUME_CHECK_HALF_MESSAGE: admin.ResumeCheckHalfMessageRequestHeader,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: admin.GroupForbiddenRequestHeader,
        RequestCode.QUERY_TOPICS_BY_CONSUMER: admin.QueryTopicsByConsumerRequestHeader,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: admin.QuerySubscriptionByConsumerRequestHeader,
        RequestCode.QUERY_CONSUME_TIME_SPAN: admin.QueryConsumeTimeSpanRequestHeader,
        RequestCode.RMQ_BULK_SEND: bulk.BulkSendRequestHeader,
        RequestCode.RMQ_BULK_READ: bulk.BulkReadRequestHeader,
        RequestCode.RMQ_TOPICS_SEND: bulk.TopicsSendRequestHeader,
        RequestCode.RMQ_TOPICS_READ: bulk.TopicsReadRequestHeader,
        RequestCode.RMQ_TXN_PREPARE: txn.TxnPrepareRequestHeader,
        RequestCode.RMQ_TXN_HALF: txn.TxnHalfRequestHeader,
        RequestCode.RMQ_TXN_DECIDE: txn.TxnDecideRequestHeader,
        RequestCode.RMQ_TXN_VOTE: txn.TxnVoteRequestHeader,
        RequestCode.RMQ_TXN_COMPLETE: txn.TxnCompleteRequestHeader,
        RequestCode.RMQ_TXN_STATUS: txn.TxnStatusRequestHeader,
        RequestCode.RMQ_TXN_ABORT: txn.TxnAbortRequestHeader,
        RequestCode.RMQ_TXN_LIST: txn.TxnListRequestHeader,
        RequestCode.RMQ_TXN_RESOLVE: txn.TxnResolveRequestHeader,
        RequestCode.RMQ_TXN_FIND: txn.TxnFindRequestHeader,
        RequestCode.RMQ_TXN_REPORT_INPUT: txn.TxnReportInputRequestHeader,
        RequestCode.RMQ_TXN_INPUTS: txn.TxnInputsRequestHeader,
        RequestCode.RMQ_TXN_AUDIT: txn.TxnAuditRequestHeader,
        RequestCode.RMQ_QUERY_LIST: queries.QueryListRequestHeader,
        RequestCode.RMQ_GROUP_RESETS: consume.ConsumerGroupRequestHeader,
        RequestCode.RMQ_GROUP_LEASES: consume.GroupLeasesRequestHeader,
    }
)
"""The header of each request that has one. The rest carry everything in their body, or nothing at all."""
