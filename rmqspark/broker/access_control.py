"""Users, rights and the guard of a broker: what `auth` needs of its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqspark.auth.accounts import Accounts
from rmqspark.auth.guard import Guard
from rmqspark.auth.needs import Here
from rmqspark.auth.resources import Action, group, topic
from rmqspark.errors import DecodeError, MessageNotFound
from rmqspark.protocol.names import HALF_TOPIC, PARKING_TOPICS
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.protocol.headers.consume import PullMessageRequestHeader
    from rmqspark.remoting.request import Connection, Request
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.inputs import InputReports


def accounts_of(config: BrokerConfig, files: FileSystem) -> Accounts | None:
    """The users, those of the settings among them; None where everybody is served. Raises DamagedFile."""
    if not config.authentication_enabled:
        return None
    accounts = Accounts(files)
    accounts.found(config.first_users)
    return accounts


def guard_of(
    config: BrokerConfig, accounts: Accounts | None, store: MessageStore, inputs: InputReports
) -> Guard | None:
    """Who is asked about each request; None where nobody is."""
    if accounts is None:
        return None
    return Guard(config, accounts, Here(config.broker_cluster_name, partial(topic_at, store), partial(_read, inputs)))


def may_hear(guard: Guard | None, connection: Connection, name: str) -> bool:
    """Whether a producer may be shown half messages of a topic: anybody can say that he is of a group."""
    return guard is None or guard.may(connection, topic(name, Action.PUB))


def check_pull_again(guard: Guard | None, request: Request[PullMessageRequestHeader]) -> None:
    """Raises NoPermission for a pull that was held, and whose user may not read that any more."""
    if guard is not None:
        header = request.header
        guard.check_again(request, (topic(header.topic, Action.SUB), group(header.consumerGroup, Action.SUB)))


def topic_at(store: MessageStore, physical_offset: int) -> str | None:
    """Where the message at this offset belongs, also while it waits elsewhere; None where there is none."""
    try:
        record = decode_record(store.records.at(physical_offset))
    except (MessageNotFound, DecodeError):
        return None
    if record.topic == HALF_TOPIC or record.topic in PARKING_TOPICS:
        return record.property_map().get(Property.REAL_TOPIC, record.topic)
    return record.topic


def _read(inputs: InputReports, query_id: str, batch_id: int) -> Iterator[str]:
    return (each.topic for each in inputs.of(query_id, batch_id))
