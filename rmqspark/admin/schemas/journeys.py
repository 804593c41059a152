"""The way of a message, as it is shown."""

from __future__ import annotations

from rmqspark.admin.values import Document, Time
from rmqspark.client.journey import GroupReader, Journey
from rmqspark.client.journey_story import Event, events, group_story


class EventView(Document):
    """`at` is null where nobody has kept when."""

    at: Time | None
    what: str
    story: str

    @classmethod
    def of(cls, event: Event) -> EventView:
        return cls(at=event.at_ms, what=event.what, story=event.story)


class ReaderView(Document):
    """How a group stands to the message. `track` is RocketMQ's word for it; `past` null where that is unknown."""

    group: str
    track: str
    past: bool | None
    story: str

    @classmethod
    def of(cls, reader: GroupReader) -> ReaderView:
        return cls(group=reader.group, track=reader.track.value, past=reader.is_past, story=group_story(reader))


class UnknownView(Document):
    what: str
    why: str


class JourneyView(Document):
    """`events` oldest first."""

    topic: str
    readable: bool
    events: list[EventView]
    groups: list[ReaderView]
    unknown: list[UnknownView]

    @classmethod
    def of(cls, journey: Journey) -> JourneyView:
        return cls(
            topic=journey.topic,
            readable=journey.is_readable,
            events=[EventView.of(event) for event in events(journey)],
            groups=[ReaderView.of(reader) for reader in journey.groups],
            unknown=[UnknownView(what=each.what, why=each.why) for each in journey.unknown],
        )
