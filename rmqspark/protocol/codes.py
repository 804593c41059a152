"""The numbers of the protocol: requests, responses, languages.

RocketMQ's RequestCode, ResponseCode and LanguageCode (spec: remoting, sections 4 and 5; requests). A request added here
without a class in `access_classes` is a mistake that a test finds; a server refuses to start with one.
"""

from __future__ import annotations

from enum import IntEnum
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
    RMQ_TXN_GROUP_OFFSETS = 30023
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
