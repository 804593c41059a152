"""/dlq/{group}: its dead letters by cause, and giving them to it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.bodies import preview, visible
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.message_parts import message_link, place
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, empty, group, notes, partial, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.paging import PartialPage
from rmqspark.admin.reads import dead_letters as look
from rmqspark.admin.schemas.dead_letters import DeadLetterView, ResendRequest
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.admin.console.filters import Change
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit

_ON_A_PAGE: Final = 100


async def build(frame: Frame) -> None:
    visit, name = frame.visit, frame.visit.params["group"]
    frame.head(
        frame.code_button(lambda: _snippets(visit, name)),
        crumbs=[("Dead letters", "/dlq")],
        note=visit.link(f"Group {name}", path("groups", name)),
    )
    live: Live[PartialPage[DeadLetterView]] = frame.part(
        lambda: look.letters(visit.cluster, name, _ON_A_PAGE, visit.given.get("cursor")),
        lambda page: show(frame, name, page, live.refresh),
        5,
    )
    await live.begin()


def show(frame: Frame, name: str, page: PartialPage[DeadLetterView], changed: Change) -> Node:
    found = page.items
    if not found:
        return group(partial(page.silent), empty(f"Group {name} has no dead letters."))
    cause = frame.visit.given.get("cause")
    shown = [each for each in found if cause is None or each.reason == cause]
    more = notes("Counted within this page; there are older ones behind it." if page.next else None)
    return group(
        partial(page.silent),
        section("By cause", _causes(frame, name, found, changed), more),
        section("Letters", _letters(frame, name, shown, changed)),
        pager(frame.visit, page.next),
    )


def _causes(frame: Frame, name: str, found: Sequence[DeadLetterView], changed: Change) -> Node:
    visit = frame.visit
    counts = Counter(each.reason for each in found)
    waiting = Counter(each.reason for each in found if not each.sent_again)
    columns: list[Column[str]] = [
        Column("Cause", lambda cause: visit.link(cause, visit.path, **{**visit.given, "cause": cause})),
        Column("Letters", lambda cause: words.number(counts[cause]), is_number=True),
        Column("Not sent again", lambda cause: words.number(waiting[cause]), is_number=True),
    ]
    if visit.may_change:
        columns.append(
            Column(
                "Do",
                lambda cause: _resend_cause(frame, name, [each for each in found if each.reason == cause], changed),
            )
        )
    listed = table(
        visit, "Dead letters by cause", columns, [cause for cause, _ in counts.most_common()], lambda cause: cause
    )
    every = {**visit.given, "cause": None}
    clear = visit.link("All causes", visit.path, **every) if visit.given.get("cause") else None
    return group(listed, h("p", clear) if clear else None)


def _resend_cause(frame: Frame, name: str, letters: Sequence[DeadLetterView], changed: Change) -> Child:
    waiting = [each.message.offset_msg_id for each in letters if not each.sent_again]
    if not waiting:
        return "all were sent again"
    label = f"Resend {words.counted(len(waiting), 'letter')}"
    return button(
        label, lambda: _resend(frame, name, waiting, changed), aria_label=f"{label}: {visible(letters[0].reason)}"
    )


def _letters(frame: Frame, name: str, letters: Sequence[DeadLetterView], changed: Change) -> Node:
    visit = frame.visit
    columns: list[Column[DeadLetterView]] = [
        Column("Letter", lambda each: message_link(visit, each.message, place(each.message))),
        Column("Dead since", lambda each: visit.time(each.message.store_timestamp)),
        Column(
            "Topic",
            lambda each: (
                visit.link(each.origin_topic, path("topics", each.origin_topic)) if each.origin_topic else words.UNKNOWN
            ),
        ),
        Column("Tries", lambda each: words.number(each.tries), is_number=True),
        Column("Cause", lambda each: each.reason),
        Column("State", lambda each: state("sent again", "good") if each.sent_again else state("waits", "warning")),
        Column("Body", lambda each: h("div", preview(each.message.body_as_bytes()), class_="body-cell mono")),
    ]
    if visit.may_change:
        columns.append(
            Column(
                "Do",
                lambda each: button(
                    "Resend",
                    lambda: _resend(frame, name, [each.message.offset_msg_id], changed, was_sent=each.sent_again),
                    aria_label=f"Resend {place(each.message)}",
                ),
            )
        )
    return table(visit, f"Dead letters of {name}", columns, letters, lambda each: each.message.offset_msg_id)


async def _resend(frame: Frame, name: str, ids: list[str], changed: Change, *, was_sent: bool = False) -> None:
    """First how many it would be, then those."""
    actions = frame.visit.desk.actions
    try:
        plan = await frame.visit.look(lambda: actions.resend("", name, ResendRequest(ids=ids, dry_run=True)))
    except RmqError as error:
        frame.complain(error)
        return

    async def do() -> None:
        done = await frame.visit.act(lambda who: actions.resend(who, name, ResendRequest(ids=ids)))
        frame.tell(f"{words.counted(done.sent, 'dead letter')} sent again to group {name}.")
        await changed()

    letters = f"{words.counted(plan.planned, 'dead letter')} {'goes' if plan.planned == 1 else 'go'}"
    effects = [
        f"{letters} to group {name} alone, as if never consumed: at least once.",
        *(["It was sent again before: the group gets it once more."] if was_sent else []),
    ]
    frame.confirm(f"Give {name} its dead letters again?", effects, "Resend", do)


def _snippets(visit: Visit, name: str) -> Snippets:
    return Snippets(visit.where.cli("dlq", "list", name), visit.where.rest("dlq", name, limit=_ON_A_PAGE))
