"""/dlq: the groups that have dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.nodes import Node
from rmqspark.admin.console.parts import empty, group, partial
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.reads import dead_letters as look
from rmqspark.admin.schemas.dead_letters import DeadLetterCountView
from rmqspark.client.cluster.silence import Silence

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


class _Document(NamedTuple):
    counts: list[DeadLetterCountView]
    silent: dict[str, str]


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: Snippets(visit.where.cli("dlq", "list"), visit.where.rest("dlq"))))
    await frame.live(lambda: _read(visit), lambda document: show(visit, document), 5)


def _read(visit: Visit) -> _Document:
    silence = Silence()
    return _Document(look.counts(visit.cluster, silence), silence.reasons)


def show(visit: Visit, document: _Document) -> Node:
    return group(partial(document.silent), _listing(visit, document.counts))


def _listing(visit: Visit, found: list[DeadLetterCountView]) -> Node:
    if not found:
        return empty("No group has dead letters: messages that it has consumed in vain as often as it allows.")
    columns: list[Column[DeadLetterCountView]] = [
        Column("Group", lambda each: visit.link(each.group, path("dlq", each.group)), lambda each: each.group, "group"),
        Column("Dead letters", lambda each: words.number(each.count), lambda each: each.count, "count", is_number=True),
        Column(
            "Not sent again",
            lambda each: words.number(each.waiting),
            lambda each: each.waiting,
            "waiting",
            is_number=True,
        ),
        Column("Oldest", lambda each: visit.time(each.oldest)),
        Column("Newest", lambda each: visit.time(each.newest)),
    ]
    return table(visit, "Dead letters by group", columns, found, lambda each: each.group)
