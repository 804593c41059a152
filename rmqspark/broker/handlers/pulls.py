"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): messages go out.

A pull is checked (`pull_permits.py`), read, answered; one that finds nothing at the end of its queue and allows it is
held by `held_pulls.py` and run once more when something comes. The answer is a slice of the log, sent as it is read.
RocketMQ's PullMessageProcessor; spec: requests, section 5, semantics, sections 8.5 to 8.7 and 9. Left out: class
filters are refused; reading from a replica is never suggested; one limit of transfer for memory and disk; a SQL92
expression is read again from the subscription instead of being kept with bloom data in consumerFilter.json, and one
that cannot be read is refused also where it comes with the pull: RocketMQ then sends all messages.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from rmqspark.broker.pulling.held_pulls import HeldPulls
from rmqspark.broker.pulling.long_poll import ParkedPull
from rmqspark.errors import Busy
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.frame import MAX_ANSWER_BYTES
from rmqspark.protocol.headers.consume import (
    DELETION_NOT_KNOWN,
    OFFSET_RESET,
    PullFlag,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.store.reading.reader import ReadResult, ReadStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.metrics.departures import Departures
    from rmqspark.broker.pulling.pull_permits import PullPermit, PullPermits
    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore

PullRequest: TypeAlias = "Request[PullMessageRequestHeader]"

_CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}
_MOVED: Final = frozenset(status.value for status, code in _CODES.items() if code == ResponseCode.PULL_OFFSET_MOVED)
_EMPTY_QUEUE: Final = (ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.NO_MATCHED_LOGIC_QUEUE)


class PullHandlers:
    """Answers pulls, at once or when messages come. Those who wait for that are `held`."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        permits: PullPermits,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        departures: Departures,
        clock: Clock,
        check_again: Callable[[PullRequest], None],
    ) -> None:
        """`check_again` raises what a pull is refused with that was let in, held, and may not be answered any more."""
        self._config = config
        self._store = store
        self._permits = permits
        self._offsets = offsets
        self._stats = stats
        self._departures = departures
        self._clock = clock
        self._check_again = check_again
        self.held = HeldPulls(self._rerun, store, clock, limit=config.max_parked_pulls)

    def adopt(self, config: BrokerConfig) -> None:
        """Goes by these settings from the next pull on."""
        self._config = config

    def routes(self) -> Routes:
        route = Route(PullMessageRequestHeader, self.pull)
        return {RequestCode.PULL_MESSAGE: route, RequestCode.LITE_PULL_MESSAGE: route}

    def pull(self, request: PullRequest) -> Reply | None:
        header = request.header
        permit = self._permits.of(header)
        reset = self._offsets.take_reset(header.consumerGroup, header.topic, header.queueId)
        if reset is not None:
            return self._reset_reply(permit, header, reset)
        reply = self._read(permit, header, header.queueOffset)
        max_offset = cast("PullMessageResponseHeader", reply.header).maxOffset
        if header.sysFlag & PullFlag.COMMIT_OFFSET:
            self._commit(header, max_offset)
        may_wait = header.sysFlag & PullFlag.SUSPEND and self.held.is_open and not request.oneway
        if may_wait and (reply.code == ResponseCode.PULL_NOT_FOUND or _is_for_master(reply)):
            self._park(request, permit, max_offset)
            return None
        return reply

    @property
    def scan_interval_ms(self) -> int:
        return 5_000 if self._config.long_polling_enable else 1_000

    # --- reading and answering ---------------------------------------------------------------------------------------

    def _read(self, permit: PullPermit, header: PullMessageRequestHeader, queue_offset: int) -> Reply:
        config = self._config
        wanted_bytes = max(header.maxMsgBytes or 0, 0) or MAX_ANSWER_BYTES
        result = self._store.read(
            header.topic,
            header.queueId,
            queue_offset,
            max_count=max(1, min(header.maxMsgNums, config.max_transfer_count_on_message_in_memory)),
            max_bytes=min(wanted_bytes, config.max_transfer_bytes_on_message_in_memory, MAX_ANSWER_BYTES),
            tag_codes=permit.wanted.tag_codes,
            record_filter=permit.wanted.sql,
        )
        code, next_offset = _CODES[result.status], result.next_offset
        if result.status in _EMPTY_QUEUE and queue_offset == 0:
            code = ResponseCode.PULL_NOT_FOUND
        if config.is_slave and code == ResponseCode.PULL_OFFSET_MOVED:
            return self._masters_reply(permit, queue_offset, result, result.status)
        if config.is_slave and self._store.lineage.is_doubtful:
            return self._masters_reply(permit, queue_offset, result, ReadStatus.OFFSET_OVERFLOW_BADLY)
        if result.status is ReadStatus.OFFSET_OVERFLOW_BADLY:
            next_offset = self._place_of(header, result)
        self._stats.count_get(result.count)
        self._departures.count(header.topic, header.consumerGroup, result.count, len(result.body))
        self._offsets.note_pull(header.consumerGroup, header.topic, header.queueId, next_offset)
        answer = self._answer_header(permit, next_offset, result.min_offset, result.max_offset)
        return Reply(answer, result.body, code, result.status.value)

    def _place_of(self, header: PullMessageRequestHeader, result: ReadResult) -> int:
        """Where a group goes on whose reader is ahead of the queue. If that may have read what was lost, with the end
        of the log or a master, or with a topic, nothing of what the queue has since then is consumed. RocketMQ sends it
        to the end, behind all that."""
        low, high = result.min_offset, result.max_offset
        if not self._store.may_have_lost(header.topic):
            return high
        committed = self._offsets.committed(header.consumerGroup, header.topic, header.queueId)
        if committed is None and self._store.deletions.deleted_ms(header.topic):
            return low
        return high if committed is None else max(low, min(committed, high))

    def _commit(self, header: PullMessageRequestHeader, max_offset: int) -> None:
        """Not of a reader that was in another topic of the name, or is ahead of a queue that may have lost its end: it
        speaks of messages that are gone. A slave may lag behind. Where no room is left for its offset, the pull is
        answered all the same: what it commits is by the way."""
        group, topic, queue_id, offset = header.consumerGroup, header.topic, header.queueId, header.commitOffset
        is_ahead = not self._config.is_slave and max(offset, header.queueOffset) > max_offset
        is_gone = self._store.deletions.is_remade(topic, header.topicDeleted)
        if offset >= 0 and not is_gone and not (is_ahead and self._store.may_have_lost(topic)):
            with suppress(Busy):
                self._offsets.commit(group, topic, queue_id, offset)

    def _masters_reply(self, permit: PullPermit, queue_offset: int, result: ReadResult, status: ReadStatus) -> Reply:
        """A slave's about an offset that it does not have, or where it may have what its master has not: ask that, or
        again. As RocketMQ's, but held for a while, or whoever asks again at once would do nothing else until the master
        is back."""
        answer = self._answer_header(permit, queue_offset, result.min_offset, result.max_offset)
        return Reply(answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY, remark=status.value)

    def _reset_reply(self, permit: PullPermit, header: PullMessageRequestHeader, offset: int) -> Reply:
        low, high = self._store.queues.bounds(header.topic, header.queueId)
        answer = self._answer_header(permit, offset, low, high)
        return Reply(answer, code=ResponseCode.PULL_OFFSET_MOVED, remark=OFFSET_RESET)

    def _answer_header(self, permit: PullPermit, next_offset: int, low: int, high: int) -> PullMessageResponseHeader:
        return PullMessageResponseHeader(
            suggestWhichBrokerId=permit.group.brokerId,
            nextBeginOffset=next_offset,
            minOffset=low,
            maxOffset=high,
            offsetDelta=0,
            topicSysFlag=permit.topic.topicSysFlag,
            groupSysFlag=permit.group.groupSysFlag,
            topicDeleted=self._topic_deleted_ms(permit.topic.topicName),
        )

    def _topic_deleted_ms(self, topic: str) -> int | None:
        """So that readers notice, whose offsets would mean other messages."""
        return DELETION_NOT_KNOWN if self._config.is_slave else self._store.deletions.deleted_ms(topic) or None

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _park(self, request: PullRequest, permit: PullPermit, max_offset: int) -> None:
        header, config = request.header, self._config
        wait_ms = header.suspendTimeoutMillis if config.long_polling_enable else config.short_polling_time_mills
        self.held.hold(
            ParkedPull(
                header.topic,
                header.queueId,
                header.queueOffset,
                permit.wanted.tag_codes,
                self._clock.monotonic_ms() + wait_ms,
                request,
                request.connection.peer[0],
                text_length=_text_length(header) + (len(permit.wanted.sql.expression) if permit.wanted.sql else 0),
                was_at_end=header.queueOffset == max_offset,
            )
        )

    def _rerun(self, pull: ParkedPull[PullRequest]) -> Reply | None:
        """The pull once more, without committing again; None where it goes on waiting.

        Nor is it told of a reset, as RocketMQ's is: whoever waits may have lost the queue to another member meanwhile,
        and looks at no answer; told once, the reset would be over. Who has it still asks once more, and is told then.
        """
        header = pull.request.header
        self._check_again(pull.request)
        permit = self._permits.of(header)
        if self._offsets.has_reset(header.consumerGroup, header.topic, header.queueId):
            return self._ask_again(permit, pull)
        if pull.may_skip(permit.wanted.tag_codes):
            return self._skip(permit, header, pull.passed_offset)
        reply = self._read(permit, header, pull.queue_offset)
        return reply if permit.wanted.sql is None else self._unless_in_vain(pull, reply)

    def _ask_again(self, permit: PullPermit, pull: ParkedPull[PullRequest]) -> Reply:
        low, high = self._store.queues.bounds(pull.topic, pull.queue_id)
        answer = self._answer_header(permit, pull.queue_offset, low, high)
        return Reply(answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY, remark=OFFSET_RESET)

    def _skip(self, permit: PullPermit, header: PullMessageRequestHeader, next_offset: int) -> Reply:
        """What a read would find where no message is wanted, at a third of its cost: thousands may wait so."""
        low, high = self._store.queues.bounds(header.topic, header.queueId)
        self._offsets.note_pull(header.consumerGroup, header.topic, header.queueId, next_offset)
        no_match = ReadStatus.NO_MATCHED_MESSAGE
        answer = self._answer_header(permit, next_offset, low, high)
        return Reply(answer, code=_CODES[no_match], remark=no_match.value)

    def _unless_in_vain(self, pull: ParkedPull[PullRequest], reply: Reply) -> Reply | None:
        """The answer to a pull by SQL92, which any message wakes. If it wants none of those that came, it waits on
        behind them, and its next run need not look at them again."""
        answer = cast("PullMessageResponseHeader", reply.header)
        no_match, saw_all = ReadStatus.NO_MATCHED_MESSAGE, answer.nextBeginOffset >= answer.maxOffset
        if reply.code == _CODES[no_match] and saw_all and self.held.is_open and not pull.waited_enough:
            self.held.hold(replace(pull, queue_offset=answer.nextBeginOffset, has_moved=True))
            return None
        if reply.code == ResponseCode.PULL_NOT_FOUND and pull.has_moved:
            return Reply(answer, code=_CODES[no_match], remark=no_match.value)
        return reply


def _is_for_master(reply: Reply) -> bool:
    """Whether it is a slave's about an offset that it does not have."""
    return reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY and reply.remark in _MOVED


def _text_length(header: PullMessageRequestHeader) -> int:
    """Characters of all its texts: the header waits with its pull."""
    texts = (header.consumerGroup, header.topic, header.subscription, header.expressionType, header.bname)
    return sum([len(text) for text in texts if text])
