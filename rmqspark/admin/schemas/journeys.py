"""The way of one message, as it is shown."""

from __future__ import annotations

from rmqspark.admin.schemas.messages import MessageView
from rmqspark.admin.schemas.transactions import RangeView
from rmqspark.admin.values import Document, Offset, Time
from rmqspark.client.tracing.journey import BatchReader, GroupReader, Journey, Place, Return, Stage, Unknown, Writer
from rmqspark.client.tracing.journey_story import Event, events, group_story


class PlaceView(Document):
    """Where a record is."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: Offset
    physical_offset: Offset
    offset_msg_id: str
    store_timestamp: Time

    @classmethod
    def of(cls, place: Place) -> PlaceView:
        return cls(
            topic=place.queue.topic,
            broker_name=place.queue.broker_name,
            queue_id=place.queue.queue_id,
            queue_offset=place.queue_offset,
            physical_offset=place.physical_offset,
            offset_msg_id=place.offset_msg_id,
            store_timestamp=place.stored_ms,
        )


class StageView(Document):
    """Where it lay before its readers could see it; `due` is when it is, or was, to be delivered."""

    kind: str
    place: PlaceView
    real_topic: str
    due: Time | None
    level: int | None
    producer_group: str | None
    transaction_id: str | None
    version: Offset | None

    @classmethod
    def of(cls, stage: Stage) -> StageView:
        return cls(
            kind=stage.kind.value,
            place=PlaceView.of(stage.place),
            real_topic=stage.real_topic,
            due=stage.due_ms,
            level=stage.level,
            producer_group=stage.group or None,
            transaction_id=stage.transaction_id or None,
            version=stage.version,
        )


class ReturnView(Document):
    """What a group gave back: to be consumed once more, or a dead letter."""

    group: str
    is_dead_letter: bool
    times: int
    place: PlaceView
    first_msg_id: str | None
    is_waiting: bool
    due: Time | None

    @classmethod
    def of(cls, told: Return) -> ReturnView:
        return cls(
            group=told.group,
            is_dead_letter=told.is_dead,
            times=told.times,
            place=PlaceView.of(told.place),
            first_msg_id=told.first_msg_id,
            is_waiting=told.is_waiting,
            due=told.due_ms,
        )


class GroupReaderView(Document):
    """A group that reads the topic: `track` in RocketMQ's words, `story` in ours."""

    group: str
    track: str
    committed: Offset | None
    is_past: bool | None
    is_online: bool
    story: str

    @classmethod
    def of(cls, reader: GroupReader) -> GroupReaderView:
        return cls(
            group=reader.group,
            track=reader.track.value,
            committed=reader.committed,
            is_past=reader.is_past,
            is_online=reader.is_online,
            story=group_story(reader),
        )


class BatchReaderView(Document):
    """A batch of a Spark query that read it; `outputs` are what came of the whole batch, null where that is unknown."""

    query_id: str
    query_name: str | None
    batch_id: Offset | None
    transactional_id: str | None
    version: Offset | None
    decided_at: Time | None
    read: RangeView
    outputs: list[RangeView] | None

    @classmethod
    def of(cls, batch: BatchReader) -> BatchReaderView:
        return cls(
            query_id=batch.query_id,
            query_name=batch.query_name or None,
            batch_id=batch.batch_id,
            transactional_id=batch.transactional_id,
            version=batch.version,
            decided_at=batch.decided_ms,
            read=RangeView.read(batch.read),
            outputs=None if batch.version is None else [RangeView.written(each) for each in batch.outputs],
        )


class WriterView(Document):
    """The exactly-once batch that wrote it, and everything that this batch had read."""

    transactional_id: str
    version: Offset
    query_id: str | None
    query_name: str | None
    decided_at: Time | None
    decided_by: str | None
    rows: int | None
    inputs: list[RangeView]

    @classmethod
    def of(cls, writer: Writer) -> WriterView:
        return cls(
            transactional_id=writer.transactional_id,
            version=writer.version,
            query_id=writer.query_id,
            query_name=writer.query_name or None,
            decided_at=writer.decided_ms,
            decided_by=writer.decided_by or None,
            rows=writer.rows,
            inputs=[RangeView.read(each) for each in writer.inputs],
        )


class UnknownView(Document):
    """What cannot be said, and why."""

    what: str
    why: str

    @classmethod
    def of(cls, gap: Unknown) -> UnknownView:
        return cls(what=gap.what, why=gap.why)


class EventView(Document):
    """Something that happened to it, in words; `at` is null where nobody has kept when."""

    at: Time | None
    what: str
    story: str

    @classmethod
    def of(cls, event: Event) -> EventView:
        return cls(at=event.at_ms, what=event.what, story=event.story)


class JourneyView(Document):
    """Where a message came from, who has read it, what came of it; `events` tell the same in the order of time."""

    message: MessageView
    place: PlaceView
    topic: str
    is_readable: bool
    stages: list[StageView]
    returned: ReturnView | None
    first: PlaceView | None
    duplicates: list[PlaceView]
    returns: list[ReturnView]
    set_aside: PlaceView | None
    groups: list[GroupReaderView]
    batches: list[BatchReaderView]
    written_by: WriterView | None
    unknown: list[UnknownView]
    events: list[EventView]

    @classmethod
    def of(cls, told: Journey) -> JourneyView:
        return cls(
            message=MessageView.of(told.message),
            place=PlaceView.of(told.place),
            topic=told.topic,
            is_readable=told.is_readable,
            stages=[StageView.of(each) for each in told.stages],
            returned=ReturnView.of(told.returned) if told.returned else None,
            first=PlaceView.of(told.first) if told.first else None,
            duplicates=[PlaceView.of(each) for each in told.duplicates],
            returns=[ReturnView.of(each) for each in told.returns],
            set_aside=PlaceView.of(told.set_aside) if told.set_aside else None,
            groups=[GroupReaderView.of(each) for each in told.groups],
            batches=[BatchReaderView.of(each) for each in told.batches],
            written_by=WriterView.of(told.written_by) if told.written_by else None,
            unknown=[UnknownView.of(each) for each in told.unknown],
            events=[EventView.of(each) for each in events(told)],
        )
