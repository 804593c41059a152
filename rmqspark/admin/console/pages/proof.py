"""/spark/{query}/proof: batch by batch what was read, what was committed, and what was written; gaps and duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import figures, group, notes, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.reads import queries as look
from rmqspark.admin.schemas.transactions import BatchView, FindingView, ProofView, RangeView
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit

_ON_A_PAGE: Final = 50
_EVERY_S: Final = 30.0  # all batches are read for it
_MOST_RANGES: Final = 6


async def build(frame: Frame) -> None:
    visit, name = frame.visit, frame.visit.params["query_id"]
    frame.head(
        frame.code_button(
            lambda: Snippets(visit.where.cli("audit", name), visit.where.rest("spark", "queries", name, "proof"))
        ),
        crumbs=[("Spark", "/spark"), (name, path("spark", name))],
    )
    await frame.live(lambda: look.proof(visit.cluster, name), lambda view: show(visit, view), _EVERY_S)


def show(visit: Visit, view: ProofView) -> Node:
    end = _end(visit, len(view.batches))
    begin = max(0, end - _ON_A_PAGE)
    return group(
        h("p", _verdict(view)),
        figures(
            [
                ("Batches", words.number(len(view.batches)), "committed"),
                ("Rows", words.number(view.rows), "written"),
                ("Missing", words.number(view.missing), "messages"),
                ("Doubled", words.number(view.doubled), "messages"),
            ]
        ),
        section("Found wrong", _findings(visit, "Found wrong", view.findings)) if view.findings else h("div"),
        section(
            "Batches",
            _batches(visit, view.batches[begin:end][::-1]),
            notes(
                f"{end - begin} of {len(view.batches):,}, the newest first; the numbers above are of all. "
                "What is known of a batch expires with the messages of its time."
            ),
            pager(visit, str(begin) if begin else None),
        ),
        section("On purpose", _findings(visit, "On purpose", view.told)) if view.told else h("div"),
    )


def _end(visit: Visit, count: int) -> int:
    """Behind the newest batch of the page: counted from the oldest on, so that it stays while others come."""
    asked = whole_number(visit.given.get("cursor", ""))
    return count if asked is None else min(asked, count)


def _verdict(view: ProofView) -> Node:
    if view.findings:
        return state(f"{words.counted(len(view.findings), 'finding')}: not exactly once", "bad")
    if not any(batch.inputs for batch in view.batches):
        return state("What was read is unknown; what was written has no gaps and no duplicates", "warning")
    return state("Exactly once: no gaps, no duplicates", "good")


def _findings(visit: Visit, title: str, found: list[FindingView]) -> Node:
    columns: list[Column[FindingView]] = [
        Column("Kind", lambda each: each.kind),
        Column("Version", lambda each: str(each.version), is_number=True),
        Column("Messages", lambda each: words.number(each.messages), is_number=True),
        Column("What", lambda each: each.story),
    ]
    return table(
        visit, title, columns, found, lambda each: f"{each.kind} {each.transactional_id} {each.version} {each.story}"
    )


def _batches(visit: Visit, batches: list[BatchView]) -> Node:
    columns: list[Column[BatchView]] = [
        Column("Version", lambda each: str(each.version)),
        Column("Read", lambda each: _ranges(each.inputs)),
        Column(
            "Decided",
            lambda each: h("div", visit.time(each.decided_at), h("div", f"by {each.decided_by}", class_="note")),
        ),
        Column("Rows", lambda each: words.number(each.rows), is_number=True),
        Column("Written", lambda each: _ranges(each.outputs)),
        Column("Readable", lambda each: state("all of it", "good") if each.completed else state("not yet", "warning")),
        Column("Checksum", lambda each: h("span", each.checksum, class_="mono")),
    ]
    return table(visit, "Batches", columns, batches, lambda each: f"{each.transactional_id} {each.version}")


def _ranges(ranges: list[RangeView]) -> Node:
    if not ranges:
        return h("span", words.UNKNOWN, class_="unknown")
    shown = [
        h("li", f"{each.topic} {each.broker_name}/{each.queue_id}: {each.from_offset}–{each.to_offset}")
        for each in ranges[:_MOST_RANGES]
    ]
    more = len(ranges) - len(shown)
    return h("ul", *shown, h("li", f"and {more} more", class_="note") if more else None)
