"""Consumer groups as operators see them: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) and its list (225),
DELETE_SUBSCRIPTIONGROUP (207), GET_SUBSCRIPTIONGROUP_CONFIG (352), GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201),
UPDATE_AND_GET_GROUP_FORBIDDEN (353).

RocketMQ's AdminBrokerProcessor; spec: requests, sections 6 and 7. A change is answered when it is on disk. As there,
the attributes of a configuration are changes to those of the group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.broker.paging import page_of
from rmqspark.broker.state.attributes import change_group_attributes
from rmqspark.errors import InvalidArgument, RmqError
from rmqspark.protocol.bodies.admin import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GroupForbiddenRequestHeader,
)
from rmqspark.protocol.headers.cluster import (
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
)
from rmqspark.protocol.names import check_group, is_system_group
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.metrics.creation_times import CreationTimes
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


_MOST_BYTES: Final = 16 * 1024  # of one group's configuration, which is kept in memory and written with every change


class GroupHandlers:
    """Creates, changes, deletes and lists groups."""

    def __init__(self, config: BrokerConfig, tables: BrokerTables, creations: CreationTimes, clock: Clock) -> None:
        self._max_queues = config.max_queue_nums
        self._tables = tables
        self._groups = tables.groups
        self._creations = creations
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Route(None, self.update),
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Route(None, self.update_list),
            RequestCode.DELETE_SUBSCRIPTIONGROUP: Route(DeleteSubscriptionGroupRequestHeader, self.delete),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Route(GetSubscriptionGroupConfigRequestHeader, self.config),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Route(GetAllSubscriptionGroupRequestHeader, self.all),
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Route(GroupForbiddenRequestHeader, self.forbidden),
        }

    def update(self, request: Request[NoFields]) -> Awaitable[Reply]:
        group = SubscriptionGroupConfig.decode_request(request.body)
        return self._put_all([group])

    def update_list(self, request: Request[NoFields]) -> Awaitable[Reply]:
        groups = SubscriptionGroupList.decode_request(request.body).groupConfigList
        return self._put_all(groups)

    def delete(self, request: Request[DeleteSubscriptionGroupRequestHeader]) -> Awaitable[Reply]:
        """Also of a group that is not there; its offsets are kept unless `cleanOffset` says otherwise."""
        group = request.header.groupName
        check_group(group)
        if is_system_group(group):
            raise InvalidArgument(
                f"Group {group!r} belongs to the broker.", hint="Only groups of users can be deleted."
            )
        self._tables.forget_group(group, with_offsets=bool(request.header.cleanOffset))
        return reply_after(self._tables.save)

    def config(self, request: Request[GetSubscriptionGroupConfigRequestHeader]) -> Reply:
        return Reply(body=self._groups.require(request.header.group).encode())

    def all(self, request: Request[GetAllSubscriptionGroupRequestHeader]) -> Reply:
        """The table, or a page of it with what is forbidden to its groups; in the whole there may be others, too, which
        a RocketMQ broker has left."""
        header, table = request.header, self._groups.table()
        forbidden = table.forbiddenTable
        names = page_of(
            table.subscriptionGroupTable,
            table.dataVersion,
            first=header.groupSeq,
            count=header.maxGroupNum,
            known_version=header.dataVersion,
        )
        if header.groupSeq is not None:
            forbidden = {name: forbidden[name] for name in names if name in forbidden}
        page = SubscriptionGroupTable(
            subscriptionGroupTable={name: table.subscriptionGroupTable[name] for name in names},
            forbiddenTable=forbidden,
            dataVersion=table.dataVersion,
        )
        return Reply(GetAllSubscriptionGroupResponseHeader(len(table.subscriptionGroupTable)), page.encode())

    def forbidden(self, request: Request[GroupForbiddenRequestHeader]) -> Reply | Awaitable[Reply]:
        """Whether a group may read a topic by its subscription, after `readable` has changed it where that is given.
        Only to forbid it takes names that are there: what is forbidden outlives its topic, so that one made anew is no
        way around it, and has to be taken back."""
        group, topic, readable = request.header.group, request.header.topic, request.header.readable
        if readable is False:
            self._groups.require(group)
            self._tables.topics.require(topic)
        if readable is not None:
            self._groups.forbid_pulls(group, topic, self._clock.now_ms(), forbidden=not readable)
        told = Reply(body=GroupForbidden(group, topic, self._groups.may_pull(group, topic)).encode())
        return told if readable is None else reply_after(self._tables.save, told)

    def _put_all(self, told: list[SubscriptionGroupConfig]) -> Awaitable[Reply]:
        """All are checked before the first is taken."""
        creation = self._creations.of_group()
        try:
            configs = [self._changed(each) for each in told]
            for config in configs:
                self._check(config)
            self._groups.require_room([config.groupName for config in configs])
            for config in configs:
                self._groups.put(config, self._clock.now_ms())
        except RmqError:
            creation.failed()
            raise
        return reply_after(partial(creation.until, self._tables.save))

    def _changed(self, told: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """As told, with the attributes that it then has."""
        known = self._groups.get(told.groupName)
        current = {} if known is None else known.attributes
        attributes = change_group_attributes(current, told.attributes, creating=known is None)
        return msgspec.structs.replace(told, attributes=attributes)

    def _check(self, config: SubscriptionGroupConfig) -> None:
        name = check_group(config.groupName)
        if not 0 <= config.retryQueueNums <= self._max_queues:
            raise InvalidArgument(
                f"Group {name!r} cannot have {config.retryQueueNums} retry queues.",
                hint=f"Choose 0 to {self._max_queues}.",
            )
        size_bytes = len(config.encode())
        if size_bytes > _MOST_BYTES:
            raise InvalidArgument(
                f"The configuration of group {name!r} has {size_bytes} bytes; {_MOST_BYTES} are allowed."
            )
