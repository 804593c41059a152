"""The numbers of the protocol: requests, responses, languages, and who may ask for what.

RocketMQ's RequestCode, ResponseCode and LanguageCode (spec: remoting, sections 4 and 5; requests). A code added here
without a class in `ACCESS` is a mistake that a test finds; a server refuses to start with one.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 479
"""The wire version we announce: the ordinal of RocketMQ's V5_3_3 in its MQVersion."""
VERSION_NAME: Final = "V5_3_3"


class Version:
    """Ordinals of MQVersion at which the other side's dialect changes (spec: remoting, section 6)."""

    V3_0_11: Final = 37  # from here REGISTER_BROKER carries a RegisterBrokerBody
    V3_4_9: Final = 121  # from here send-back honours maxReconsumeTimes
    V4_9_3: Final = 399  # up to here ACL signatures leave _UNIQUE_KEY_QUERY out
    V4_9_4: Final = 401  # from here routes are answered as standard JSON
    V5_0_0: Final = 413  # from here compressed registrations carry a mapping section
    V5_3_1: Final = 475  # GO_AWAY is understood by what is above


OWN_CODES: Final = range(30_000, 30_100)
"""Requests of rmqspark alone: outside RocketMQ's, and within the 16 bits of a binary header."""


class RequestCode(IntEnum):
    """What a request asks for. Stock servers answer those from 30000 on, ours, with REQUEST_CODE_NOT_SUPPORTED."""

    # producers
    SEND_MESSAGE = 10
    END_TRANSACTION = 37
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    RECALL_MESSAGE = 370

    # consumers
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    GET_CONSUMER_LIST_BY_GROUP = 38
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    CHECK_CLIENT_CONFIG = 46
    LITE_PULL_MESSAGE = 361
    QUERY_ASSIGNMENT = 400

    # POP consumers; beyond 16 bits, see TRUNCATED_CODES
    POP_MESSAGE = 200050
    ACK_MESSAGE = 200051
    PEEK_MESSAGE = 200052
    CHANGE_MESSAGE_INVISIBLETIME = 200053
    NOTIFICATION = 200054
    POLLING_INFO = 200055
    POP_ROLLBACK = 200056
    BATCH_ACK_MESSAGE = 200151

    # broker to client
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    RESET_CONSUMER_CLIENT_OFFSET = 220
    GET_CONSUMER_STATUS_FROM_CLIENT = 221
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326

    # name server
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905

    # broker to broker
    GET_ALL_TOPIC_CONFIG = 21
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    GET_TIMER_CHECK_POINT = 60
    GET_TIMER_METRICS = 61
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    EXCHANGE_BROKER_HA_INFO = 906
    GET_BROKER_HA_STATUS = 907
    RESET_MASTER_FLUSH_OFFSET = 908

    # administration of a broker
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_AND_CREATE_TOPIC_LIST = 18
    GET_TOPIC_CONFIG_LIST = 22
    GET_TOPIC_NAME_LIST = 23
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    CONSUME_MESSAGE_DIRECTLY = 309
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    QUERY_CONSUME_QUEUE = 321
    RESUME_CHECK_HALF_MESSAGE = 323
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329
    QUERY_TOPICS_BY_CONSUMER = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTIONGROUP_CONFIG = 352
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353
    SET_MESSAGE_REQUEST_MODE = 401

    # users and what they may do, of brokers; of our name servers, too
    AUTH_CREATE_USER = 3001
    AUTH_UPDATE_USER = 3002
    AUTH_DELETE_USER = 3003
    AUTH_GET_USER = 3004
    AUTH_LIST_USER = 3005
    AUTH_CREATE_ACL = 3006
    AUTH_UPDATE_ACL = 3007
    AUTH_DELETE_ACL = 3008
    AUTH_GET_ACL = 3009
    AUTH_LIST_ACL = 3010

    # rmqspark's own: OWN_CODES
    RMQ_CAPABILITIES = 30000
    RMQ_BULK_SEND = 30001
    RMQ_BULK_READ = 30002
    RMQ_MEASURE = 30003
    RMQ_TOPICS_SEND = 30004
    RMQ_TOPICS_READ = 30005
    RMQ_QUEUE_BOUNDS = 30006
    RMQ_TXN_PREPARE = 30010
    RMQ_TXN_HALF = 30011
    RMQ_TXN_DECIDE = 30012
    RMQ_TXN_VOTE = 30013
    RMQ_TXN_COMPLETE = 30014
    RMQ_TXN_STATUS = 30015
    RMQ_TXN_ABORT = 30016
    RMQ_TXN_LIST = 30017
    RMQ_TXN_RESOLVE = 30018
    RMQ_TXN_FIND = 30019
    RMQ_TXN_REPORT_INPUT = 30020
    RMQ_TXN_INPUTS = 30021
    RMQ_TXN_AUDIT = 30022
    RMQ_GROUP_RESETS = 30030
    RMQ_GROUP_LEASES = 30031
    RMQ_QUERY_REPORT = 30040
    RMQ_QUERY_LIST = 30041
    RMQ_METRICS = 30050
    RMQ_ACCOUNTS = 30060


TRUNCATED_CODES: Final[Mapping[int, RequestCode]] = MappingProxyType(
    {code & 0xFFFF: code for code in RequestCode if code > 0x7FFF}
)
"""What a binary header makes of the codes beyond its 16 bits, e.g. 3442 for POP_MESSAGE. RocketMQ's later versions
define those small numbers as the codes themselves, so a server takes both (spec: remoting, section 2.1)."""


class ResponseCode(IntEnum):
    """How a request went (spec: remoting, section 4)."""

    RPC_TIME_OUT = -1006
    RPC_SEND_TO_CHANNEL_FAILED = -1004
    RPC_ADDR_IS_NULL = -1002
    RPC_UNKNOWN = -1000
    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202  # RocketMQ's spelling
    TRANSACTION_STATE_GROUP_WRONG = 203
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    BROKER_NOT_EXIST = 211
    BROKER_DISPATCH_NOT_COMPLETE = 212
    BROADCAST_CONSUMPTION = 213
    FLOW_CONTROL = 215
    NOT_LEADER_FOR_QUEUE = 501
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500
    USER_NOT_EXIST = 3001
    POLICY_NOT_EXIST = 3002
    # Ours, which answer requests of ours alone:
    RMQ_TXN_FENCED = 30000
    RMQ_LEASE_LOST = 30001
    RMQ_TOPIC_REMADE = 30002


class Language(IntEnum):
    """Who speaks: the name in a JSON header, the number in a binary one."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13

    @classmethod
    def _missing_(cls, value: object) -> Language:
        """A number from a later version is somebody, too."""
        return cls.OTHER

    @classmethod
    def named(cls, name: str) -> Language:
        """The language of that name; OTHER for a name we do not know."""
        return cls.__members__.get(name, cls.OTHER)


class Access(Enum):
    """The right a request needs (docs/wire-format.md, "Requests")."""

    DATA_READ = "data-read"
    DATA_WRITE = "data-write"
    CLUSTER_PEER = "cluster-peer"
    ADMIN_READ = "admin-read"
    ADMIN_WRITE = "admin-write"


_CODES_BY_ACCESS: Final[Mapping[Access, tuple[RequestCode, ...]]] = {
    # Who may consume may also say so (heartbeats), record how far it came, lock its queues and send back for retry.
    Access.DATA_READ: (
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.POP_MESSAGE,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.RMQ_CAPABILITIES,
        RequestCode.RMQ_BULK_READ,
        RequestCode.RMQ_MEASURE,
        RequestCode.RMQ_TOPICS_READ,
        RequestCode.RMQ_QUEUE_BOUNDS,
        RequestCode.RMQ_TXN_INPUTS,
        RequestCode.RMQ_TXN_REPORT_INPUT,  # said by tasks that read, also of a query that writes elsewhere
        RequestCode.RMQ_QUERY_REPORT,
        RequestCode.RMQ_GROUP_RESETS,
        RequestCode.RMQ_GROUP_LEASES,
    ),
    Access.DATA_WRITE: (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.END_TRANSACTION,
        RequestCode.RECALL_MESSAGE,
        RequestCode.RMQ_BULK_SEND,
        RequestCode.RMQ_TOPICS_SEND,
        RequestCode.RMQ_TXN_PREPARE,
        RequestCode.RMQ_TXN_HALF,
        RequestCode.RMQ_TXN_DECIDE,
        RequestCode.RMQ_TXN_STATUS,
        RequestCode.RMQ_TXN_ABORT,
    ),
    # What only servers say to each other, and to clients: from anybody else it is forged.
    Access.CLUSTER_PEER: (
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
        RequestCode.EXCHANGE_BROKER_HA_INFO,
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.RMQ_TXN_VOTE,
        RequestCode.RMQ_TXN_COMPLETE,
        RequestCode.RMQ_TXN_FIND,
        RequestCode.RMQ_ACCOUNTS,
    ),
    Access.ADMIN_READ: (
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_TOPIC_CONFIG_LIST,
        RequestCode.GET_TOPIC_NAME_LIST,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_GET_ACL,
        RequestCode.AUTH_LIST_ACL,
        RequestCode.RMQ_TXN_LIST,
        RequestCode.RMQ_TXN_AUDIT,
        RequestCode.RMQ_QUERY_LIST,
        RequestCode.RMQ_METRICS,
    ),
    Access.ADMIN_WRITE: (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        RequestCode.RESET_MASTER_FLUSH_OFFSET,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.POP_ROLLBACK,
        RequestCode.AUTH_CREATE_USER,
        RequestCode.AUTH_UPDATE_USER,
        RequestCode.AUTH_DELETE_USER,
        RequestCode.AUTH_CREATE_ACL,
        RequestCode.AUTH_UPDATE_ACL,
        RequestCode.AUTH_DELETE_ACL,
        RequestCode.RMQ_TXN_RESOLVE,
    ),
}

ACCESS: Final[Mapping[RequestCode, Access]] = MappingProxyType(
    {code: access for access, codes in _CODES_BY_ACCESS.items() for code in codes}
)
"""The right each request needs. Whoever asks for a code that is not here is refused."""
