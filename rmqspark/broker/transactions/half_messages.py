"""Half messages in this broker's store: opened, ended, put aside. The ledger decides, this reads and writes.

A commit writes the message and the op record that marks its half as done in one append, so that a kill leaves both or
neither. Only a power loss, or an Apache broker's kill, can leave the message without its mark: `recover` looks for such
before anything is served. RocketMQ: EndTransactionProcessor, TransactionalMessageServiceImpl; spec: semantics,
section 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.state.topics import queue_by_now
from rmqspark.broker.transactions.known_messages import is_called
from rmqspark.errors import (
    DecodeError,
    InvalidArgument,
    MessageNotFound,
    NotFound,
    NotSupported,
    NotWritable,
    ServerFault,
    TopicNotFound,
    TransactionError,
)
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, Perm
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.record import decode_record
from rmqspark.txn.half_messages.half_ledger import Outcome
from rmqspark.txn.half_messages.half_message import HalfMessage, committed_draft, resumed_draft, set_aside_draft
from rmqspark.txn.half_messages.half_operations import OperationQueue, operation_draft
from rmqspark.txn.half_messages.half_recovery import halves_among, records_of, recover_halves, was_committed
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.delays.deliveries import FindTopic
    from rmqspark.broker.metrics.counted import Counted
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.transactions.half_progress import HalfProgress
    from rmqspark.clock import Clock
    from rmqspark.protocol.headers.produce import EndTransactionRequestHeader
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.draft import Appended, Draft
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.half_messages.half_ledger import Ask, HalfLedger, OpenHalf, SetAside

_MARKED_AT_ONCE: Final = 500  # halves that one op record names
_SET_ASIDE_TOPIC: Final = TopicConfig(
    topicName=CHECK_MAX_TIME_TOPIC, readQueueNums=1, writeQueueNums=1, perm=int(Perm.READ | Perm.WRITE)
)

log = structlog.get_logger("rmqspark.broker")


class Append(Protocol):
    def __call__(self, drafts: Sequence[Draft], *, again: bool = False, makes_room: bool = False) -> list[Appended]:
        """Stores messages side by side, all or none; `again`: they were accepted once, whatever the limits are now.
        With `makes_room` so they were, and it is done on a disk that is full for others, too."""


class HalfMessages:
    """All half messages of one broker. Belongs to the event loop's thread; `append` is `Appender.append_together`,
    `find_topic` is `LostTopics.find`."""

    def __init__(
        self,
        store: MessageStore,
        append: Append,
        topics: TopicTable,
        find_topic: FindTopic,
        ledger: HalfLedger,
        progress: HalfProgress,
        clock: Clock,
        counted: Counted,
    ) -> None:
        self._store = store
        self._append = append
        self._topics = topics
        self._find_topic = find_topic
        self._ledger = ledger
        self._progress = progress
        self._clock = clock
        self._counted = counted
        self._operations = OperationQueue(0)
        self._unread: dict[int, int] = {}  # queue offset -> physical one, of those stored that no reader sees yet

    def __len__(self) -> int:
        """How many are open, as far as they were looked at."""
        return len(self._ledger)

    @property
    def open_by_topic(self) -> dict[str, int]:
        """The same by their topics."""
        return self._ledger.open_by_topic

    def forget(self, is_there: Callable[[str], bool]) -> None:
        """Drops topics that are gone, and have none open any more, from what is told of them."""
        self._ledger.forget(is_there)

    @property
    def needed_offset(self) -> int | None:
        """The physical offset of the first that is open, or was not looked at yet; None while there is none."""
        return self._store.queues.place_at(HALF_TOPIC, 0, self._ledger.first_open)

    def check_room(self, coming: int) -> None:
        """Raises Busy where one more half message would be too many, with so many that are about to be stored."""
        self._ledger.check_room(self._store.queues.next_offset(HALF_TOPIC, 0) + coming)

    def stored(self, queue_offset: int, physical_offset: int) -> None:
        """One has been stored; its sender, who hears of it now, may end it before readers see it."""
        self._unread[queue_offset] = physical_offset

    # --- from the store

    def recover(self) -> None:
        """Finds out what is open, and marks what ended without being marked. Once, before anything is served."""
        found = recover_halves(
            self._store, self._progress.committed(HALF_TOPIC), self._progress.committed(OP_HALF_TOPIC)
        )
        self._operations = found.operations
        for half in found.open:
            self._admit(half)
        self._ledger.skip_to(found.next_offset)
        if found.open or found.unmarked:
            log.info("half messages were found", open=len(found.open), ended_unmarked=len(found.unmarked))
        try:
            for first in range(0, len(found.unmarked), _MARKED_AT_ONCE):
                self._mark(found.unmarked[first : first + _MARKED_AT_ONCE])
        except NotWritable as error:  # what ended is known all the same, and found out again next time
            log.error("half messages that ended could not be marked", reason=str(error))

    def follow(self) -> bool:
        """Takes in half messages that came since, a chunk at a time; returns whether to go on."""
        reader = QueueReader(self._store, HALF_TOPIC, self._ledger.next_offset)
        records = reader.chunk()
        for half in halves_among(records):
            self._admit(half)
        self._ledger.skip_to(reader.next_offset)
        self._forget_readable()
        return bool(records)

    def msg_id(self, half: HalfMessage) -> str:
        """The id that says where it is, under the address that this broker has now."""
        return offset_msg_id(self._store.writer.store_host, half.physical_offset)

    def read(self, half: OpenHalf) -> tuple[HalfMessage, Record]:
        """An open half with its record. Raises MessageNotFound, RecordError."""
        record = decode_record(self._store.records.at(half.physical_offset))
        return HalfMessage.of(record), record

    def _forget_readable(self) -> None:
        """The queue itself says where they are."""
        end = self._store.queues.max_offset(HALF_TOPIC, 0)
        self._unread = {offset: place for offset, place in self._unread.items() if offset >= end}

    def _admit(self, half: HalfMessage) -> None:
        self._ledger.admit(
            half.queue_offset,
            half.physical_offset,
            topic=half.real_topic,
            age_ms=self._clock.now_ms() - half.store_timestamp_ms,
            now_ms=self._clock.monotonic_ms(),
            immunity_ms=half.immunity_ms,
            checks=half.checks,
        )

    # --- their ends

    def end(self, request: EndTransactionRequestHeader, outcome: Outcome) -> int:
        """Commits or rolls back; returns up to where the log has to be safe for it to be so.

        A half that ended so already stays as it is; TransactionError where it ended otherwise, ServerFault with
        RocketMQ's words where the request names no half message of the group, TopicNotFound for a commit while its
        topic is deleted: it stays open.
        """
        record = self._record(request.commitLogOffset)
        half = HalfMessage.of(record)
        _check(half, record, request)
        if not self._ledger.is_open(half.queue_offset):
            self._check_ended_so(half, outcome)
            return self._store.end_offset
        messages = []
        if outcome is Outcome.COMMITTED:
            topic = self._find_topic(half.real_topic, half.real_queue_id, half.physical_offset)
            if topic is None:
                raise TopicNotFound(half.real_topic)
            messages.append(committed_draft(half, record, queue_by_now(topic, half.real_queue_id)))
        place = self._mark([half.queue_offset], messages)
        self._ledger.end(half.queue_offset, outcome)
        with IF_MEMORY_ALLOWS:
            if outcome is Outcome.COMMITTED:
                age_ms = self._clock.now_ms() - record.born_timestamp_ms
                self._counted.ends_of_halves.committed(half.real_topic, age_ms)
            else:
                self._counted.ends_of_halves.rolled_back(half.real_topic)
        return place.end_offset

    def set_aside(self, half: OpenHalf, reason: str) -> None:
        """Puts a copy into TRANS_CHECK_MAX_TIME_TOPIC and ends the half."""
        messages = []
        self._topics.add_system_topics([_SET_ASIDE_TOPIC], self._clock.now_ms())
        try:
            message, record = self.read(half)
        except (MessageNotFound, DecodeError, InvalidArgument) as error:
            log.error("a half message is gone before it was decided", queue_offset=half.queue_offset, error=str(error))
        else:
            messages.append(set_aside_draft(record, half.checks))
            log.warning(
                "a half message was set aside", group=message.identity.group, topic=message.real_topic,
                unique_key=message.identity.unique_key, reason=reason,
            )  # fmt: skip
        self._mark([half.queue_offset], messages)
        self._ledger.end(half.queue_offset, Outcome.SET_ASIDE)

    def resume(self, physical_offset: int) -> None:
        """Makes what was set aside a half message again. Raises MessageNotFound; TransactionError where its transaction
        was committed, or is open once more already; NotSupported without an index, which alone knows."""
        record = decode_record(self._store.records.message_at(physical_offset))
        if record.topic != CHECK_MAX_TIME_TOPIC:
            raise NotFound(f"The message at {physical_offset} was not set aside.", hint=f"See {CHECK_MAX_TIME_TOPIC}.")
        if not self._store.has_index:
            raise NotSupported(
                "Without an index it is not known whether the transaction was committed or resumed since.",
                hint="Set message_index_enable, and start the broker again.",
            )
        draft = resumed_draft(record)
        half = HalfMessage.of(decode_record(draft.record))
        if was_committed(self._store, half):
            raise TransactionError("The transaction was committed already.")
        if any(self._ledger.is_open(found.queue_offset) for found in records_of(self._store, half, HALF_TOPIC)):
            raise TransactionError("The transaction is open once more already.")
        self._append([draft], again=True)

    def _mark(self, half_offsets: Sequence[int], messages: Sequence[Draft] = ()) -> Appended:
        """Writes that these halves ended, behind `messages` and in one piece with them. Files may go then."""
        mark = operation_draft(half_offsets, now_ms=self._clock.now_ms(), host=self._store.writer.store_host)
        places = self._append([*messages, mark], makes_room=True)
        place = places[-1]
        self._operations.add(place.queue_offset, half_offsets)
        with IF_MEMORY_ALLOWS:
            self._counted.arrivals.tell_stored("transaction", messages, places)
        return place

    def _record(self, physical_offset: int) -> Record:
        try:
            record = decode_record(self._store.records.at(physical_offset))
        except (MessageNotFound, DecodeError):
            raise ServerFault("Find prepared transaction message failed") from None  # RocketMQ's words
        if not self._is_half(record):
            raise ServerFault("Find prepared transaction message failed")
        return record

    def _is_half(self, record: Record) -> bool:
        """Whether the half queue has it, or will as soon as it is readable."""
        is_there = self._unread.get(record.queue_offset) == record.physical_offset or self._store.queues.holds(record)
        return record.topic == HALF_TOPIC and is_there

    def _check_ended_so(self, half: HalfMessage, outcome: Outcome) -> None:
        known = self._ledger.outcome(half.queue_offset)
        if known is outcome:
            return
        how = known.value if known else "ended"
        log.warning(
            "a transaction was ended a second time", group=half.identity.group, unique_key=half.identity.unique_key,
            was=how, asked=outcome.value,
        )  # fmt: skip
        raise TransactionError(f"The transaction of half message {half.queue_offset} was {how} already.")

    # --- what is to be done

    def take_due(self, limit: int) -> list[Ask | SetAside]:
        """See `HalfLedger.take_due`."""
        return self._ledger.take_due(self._clock.monotonic_ms(), limit)

    def save_progress(self) -> None:
        """Has a start look only at what is open, and at what comes later."""
        first_open = self._ledger.first_open
        self._progress.save(first_open, self._operations.first_needed(first_open))


def _check(half: HalfMessage, record: Record, request: EndTransactionRequestHeader) -> None:
    """Raises ServerFault, in RocketMQ's words, where a request does not fit the half message it names, or means one
    that was there before."""
    if half.identity.unique_key and not is_called(record, request.msgId):
        raise ServerFault("Find prepared transaction message failed")
    if half.identity.group != request.producerGroup:
        raise ServerFault("The producer group wrong")
    if half.queue_offset != request.tranStateTableOffset:
        raise ServerFault("The transaction state table offset wrong")
