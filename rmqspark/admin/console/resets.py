"""Setting a group to another place: where to, then what that does queue by queue, then exactly that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.forms import Form, Said, choice, field
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.schemas.groups import QueueResetView, ResetRequest

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.client.administration.group_resets import QueueReset

_HINT: Final = "earliest, latest, a time (2026-01-31T12:00 is UTC), -10m, an offset, or group:NAME."


def reset_group(frame: Frame, name: str, topics: list[str], done: Callable[[], Awaitable[object]]) -> None:
    async def preview(said: Said) -> None:
        request = ResetRequest(to=said["to"].strip(), topic=said["topic"] or None)
        plan = await frame.visit.look(lambda: frame.visit.desk.actions.plan_reset(name, request))
        _confirm(frame, name, request.to, plan, done)

    all_topics = [("", "all that it has offsets of"), *((topic, topic) for topic in topics)]
    fields: list[Child] = [
        field("Where to", "to", "-10m", hint=_HINT, focus=True),
        choice("Topic", "topic", all_topics),
    ]
    Form(frame, f"Reset {name}: where to?", fields, "Preview", preview)


def _confirm(frame: Frame, name: str, to: str, plan: list[QueueReset], done: Callable[[], Awaitable[object]]) -> None:
    async def do() -> None:
        await frame.visit.act(lambda who: frame.visit.desk.actions.carry_out_reset(who, name, to, plan))
        frame.tell(f"Group {name} is reset to {to}: {effect(plan)}")
        await done()

    views = [QueueResetView.of(each) for each in plan]
    effects: list[Child] = [effect(plan), preview_table(frame, views)]
    frame.confirm(f"Reset group {name} to {to}?", effects, "Reset group", do, typed=name)


def effect(plan: list[QueueReset]) -> str:
    """What it does, in numbers."""
    again = sum(each.read_again for each in plan if each.read_again > 0)
    left_out = -sum(each.read_again for each in plan if each.read_again < 0)
    unknown = sum(each.committed is None for each in plan)
    parts = [f"{words.counted(len(plan), 'queue')} are set" if len(plan) != 1 else "1 queue is set"]
    parts += [f"{words.counted(again, 'message')} will be consumed once more"] if again else []
    parts += [f"{words.counted(left_out, 'message')} will not be consumed"] if left_out else []
    parts += [f"of {words.counted(unknown, 'queue')} it is unknown, for nothing was ever committed"] if unknown else []
    return f"{'; '.join(parts)}."


def preview_table(frame: Frame, plan: list[QueueResetView]) -> Node:
    columns: list[Column[QueueResetView]] = [
        Column("Queue", lambda each: f"{each.topic} {each.broker_name}/{each.queue_id}"),
        Column(
            "Committed", lambda each: words.UNKNOWN if each.committed is None else str(each.committed), is_number=True
        ),
        Column("Set to", lambda each: str(each.target), is_number=True),
        Column(
            "Once more",
            lambda each: words.UNKNOWN if each.committed is None else words.number(each.read_again),
            is_number=True,
        ),
    ]
    return h(
        "div",
        table(
            frame.visit, "What is set", columns, plan, lambda each: f"{each.topic} {each.broker_name}/{each.queue_id}"
        ),
    )
