"""What was changed, as it is shown."""

from __future__ import annotations

from rmqspark.admin.action_log import Action
from rmqspark.admin.values import Document, Time


class ActionView(Document):
    """`outcome` is done, failed, or begun: it is under way, or was cut off."""

    number: int
    at: Time
    who: str
    action: str
    subject: str
    detail: str
    outcome: str
    effect: str

    @classmethod
    def of(cls, action: Action) -> ActionView:
        return cls(
            number=action.number,
            at=action.at_ms,
            who=action.who,
            action=action.name,
            subject=action.subject,
            detail=action.detail,
            outcome=action.outcome,
            effect=action.effect,
        )
