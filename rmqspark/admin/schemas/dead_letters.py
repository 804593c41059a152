"""Dead letters as they are shown, and as they are sent again."""

from __future__ import annotations

from pydantic import Field

from rmqspark.admin.schemas.messages import MessageView
from rmqspark.admin.values import Document, Time
from rmqspark.client.administration.dead_letters import DeadLetter, DeadLetterCount


class DeadLetterCountView(Document):
    """`waiting` are those that were not sent again. `silent` are the brokers with dead letters of it that do not
    answer, and why: theirs are in no figure, and where all are so `count` and `waiting` are null: unknown."""

    group: str
    count: int | None
    waiting: int | None
    oldest: Time | None
    newest: Time | None
    silent: dict[str, str]

    @classmethod
    def of(cls, count: DeadLetterCount) -> DeadLetterCountView:
        return cls(
            group=count.group,
            count=count.count,
            waiting=count.waiting,
            oldest=count.oldest_ms,
            newest=count.newest_ms,
            silent=count.silent,
        )


class DeadLetterView(Document):
    """`tries` is how often it was consumed in vain; `reason` why it is dead."""

    message: MessageView
    origin_topic: str | None
    origin_msg_id: str | None
    tries: int
    reason: str
    sent_again: bool

    @classmethod
    def of(cls, letter: DeadLetter) -> DeadLetterView:
        return cls(
            message=MessageView.of(letter.message),
            origin_topic=letter.topic,
            origin_msg_id=letter.origin_msg_id,
            tries=letter.tries,
            reason=letter.reason,
            sent_again=letter.is_resent,
        )


class ResendRequest(Document):
    """Which letters: by `ids`, or stored in [from, to), times in milliseconds, ISO 8601, or relative (-10m)."""

    ids: list[str] | None = Field(None, max_length=1_000)
    from_: str | None = Field(None, alias="from")
    to: str | None = None
    again: bool = Field(False, description="Also what was sent again before.")
    to_topic: bool = Field(False, description="To all who read the original topic.")
    dry_run: bool = False


class ResendView(Document):
    group: str
    planned: int
    sent: int
    to_topic: bool
