"""Sends on their way into the log, and how each sender is told. Plain messages are `usual_send.py`'s."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rmqspark.broker.safekeeping.flush_waiters import settle
from rmqspark.broker.sending.batches import Batch
from rmqspark.broker.sending.intake import Admitted
from rmqspark.broker.sending.receipts import Receipts
from rmqspark.remoting.reply import Reply

if TYPE_CHECKING:
    from rmqspark.errors import RmqError
    from rmqspark.protocol.headers.produce import SendMessageRequestHeader, SendMessageRequestHeaderV2
    from rmqspark.protocol.records.offset_ids import StoredRun
    from rmqspark.remoting.request import Request

SendRequest: TypeAlias = "Request[SendMessageRequestHeaderV2] | Request[SendMessageRequestHeader]"


class _Single(msgspec.Struct, gc=False):
    """A message on its way into the log."""

    draft: Admitted

    @property
    def waits_for_flush(self) -> bool:
        return self.draft.waits_for_flush

    @property
    def topic(self) -> str:
        return self.draft.topic

    @property
    def has_shard(self) -> bool:
        return self.draft.has_shard

    def let_go(self) -> None:
        self.draft.record = bytearray()


class SingleSend(_Single, gc=False):
    """The same with the request to answer."""

    request: SendRequest
    receipts: Receipts

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        self.draft.tell_stored(queue_offset, physical_offset)
        self.receipts.give(self.request, self.draft, queue_offset, physical_offset, error)

    def refuse(self, error: RmqError) -> None:
        self.request.answer(self.receipts.refusal(error))


class AwaitedSend(_Single, gc=False):
    """The same where the answer has to wait for something else besides."""

    answer: asyncio.Future[Reply]
    receipts: Receipts

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        self.draft.tell_stored(queue_offset, physical_offset)
        settle(self.answer, self.receipts.reply_to_send(self.draft, queue_offset, physical_offset, error))

    def refuse(self, error: RmqError) -> None:
        settle(self.answer, self.receipts.refusal(error))


class _Several(msgspec.Struct, gc=False):
    """A batch on its way into the log."""

    batch: Batch

    def let_go(self) -> None:
        self.batch = self.batch.without_body()


class BatchSend(_Several, gc=False):
    """The same with the request to answer."""

    request: SendRequest
    receipts: Receipts

    def finish(self, queue_offset: int, stored: StoredRun, error: RmqError | None) -> None:
        self.receipts.give_batch(self.request, self.batch, queue_offset, stored, error)

    def refuse(self, error: RmqError) -> None:
        self.request.answer(self.receipts.refusal(error))


class AwaitedBatch(_Several, gc=False):
    """The same where the answer has to wait for something else besides."""

    answer: asyncio.Future[Reply]
    receipts: Receipts

    def finish(self, queue_offset: int, stored: StoredRun, error: RmqError | None) -> None:
        settle(self.answer, self.receipts.reply_to_batch(self.batch, queue_offset, stored, error))

    def refuse(self, error: RmqError) -> None:
        settle(self.answer, self.receipts.refusal(error))
