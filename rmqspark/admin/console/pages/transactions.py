"""/transactions: batches of Spark that wait for a decision, and how it stands with all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, empty, group, partial, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.paging import Page, listed
from rmqspark.admin.reads import transactions as look
from rmqspark.admin.schemas.transactions import TransactionView
from rmqspark.client.cluster.silence import Silence
from rmqspark.protocol.headers.txn import TxnOutcome

if TYPE_CHECKING:
    from rmqspark.admin.console.filters import Change
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


_ON_A_PAGE: Final = 100


class _Document(NamedTuple):
    waiting: list[TransactionView]
    settled: Page[TransactionView]
    silent: dict[str, str]

    @classmethod
    def of(cls, views: list[TransactionView], silent: dict[str, str], cursor: str | None) -> _Document:
        """A page of those that are settled: every query that ever wrote is among them."""
        waiting = [view for view in views if view.open]
        settled = (view for view in views if not view.open)
        return cls(waiting, listed(settled, lambda view: [view.transactional_id], _ON_A_PAGE, cursor), silent)


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: Snippets(visit.where.cli("txn", "list"), visit.where.rest("transactions"))))
    live: Live[_Document] = frame.part(lambda: _read(visit), lambda document: show(frame, document, live.refresh))
    await live.begin()


def _read(visit: Visit) -> _Document:
    silence = Silence()
    return _Document.of(look.transactions(visit.cluster, silence), silence.reasons, visit.given.get("cursor"))


def show(frame: Frame, document: _Document, changed: Change) -> Node:
    waiting, settled, silent = document
    return group(
        partial(silent),
        section("In doubt", _waiting(frame, waiting, changed)),
        section("Settled", _settled(frame.visit, settled.items), pager(frame.visit, settled.next)),
    )


def _waiting(frame: Frame, views: list[TransactionView], changed: Change) -> Node:
    if not views:
        return empty("No batch waits for a decision.")
    columns = [
        *_columns(frame.visit),
        Column("Waits for", lambda each: words.milliseconds(each.age_ms), is_number=True),
    ]
    if frame.visit.may_change:
        columns.append(Column("Decide", lambda each: _choices(frame, each, changed)))
    return table(frame.visit, "Transactions in doubt", columns, views, lambda each: each.transactional_id)


def _settled(visit: Visit, views: list[TransactionView]) -> Node:
    if not views:
        return empty('Batches that Spark writes exactly-once are listed here: format("rmq") with a checkpoint.')
    columns = [
        *_columns(visit),
        Column("Decided", lambda each: _decided(visit, each)),
    ]
    return table(visit, "Settled transactions", columns, views, lambda each: each.transactional_id)


def _columns(visit: Visit) -> list[Column[TransactionView]]:
    return [
        Column("Transactional id", lambda each: each.transactional_id),
        Column("State", lambda each: state(each.state.lower(), "warning" if each.open else "plain")),
        Column("Version", lambda each: str(each.version), is_number=True),
        Column(
            "Committed last",
            lambda each: words.UNKNOWN if each.last_version is None else str(each.last_version),
            is_number=True,
        ),
        Column("Rows", lambda each: words.number(each.rows), is_number=True),
        Column("Size", lambda each: words.size(each.bytes), is_number=True),
        Column("Query", lambda each: _query(visit, each)),
        Column("Brokers", lambda each: ", ".join(each.brokers)),
    ]


def _query(visit: Visit, each: TransactionView) -> Child:
    return visit.link(each.query_id, path("spark", each.query_id, "proof")) if each.query_id else words.UNKNOWN


def _decided(visit: Visit, each: TransactionView) -> Node:
    by = h("div", f"by {each.decided_by}", class_="note") if each.decided_by else None
    return h("div", visit.time(each.decided_at), by)


def _choices(frame: Frame, each: TransactionView, changed: Change) -> Node:
    def button_of(label: str, outcome: TxnOutcome) -> Node:
        return button(
            label,
            lambda: _decide(frame, each, outcome, changed),
            kind="danger" if outcome == TxnOutcome.ROLLBACK else "",
            aria_label=f"{label} {each.transactional_id}",
        )

    return h(
        "div", button_of("Commit", TxnOutcome.COMMIT), button_of("Roll back", TxnOutcome.ROLLBACK), class_="actions"
    )


def _decide(frame: Frame, each: TransactionView, outcome: TxnOutcome, changed: Change) -> None:
    actions = frame.visit.desk.actions

    async def do() -> None:
        done = await frame.visit.act(lambda who: actions.decide(who, each.transactional_id, each.version, outcome))
        frame.tell(done.story)
        await changed()

    rows = f"{words.counted(each.rows, 'row')}, {words.size(each.bytes)}, on {', '.join(each.brokers) or 'no broker'}"
    if outcome == TxnOutcome.COMMIT:
        title, label = f"Commit version {each.version} of {each.transactional_id}?", "Commit"
        effect = f"{rows}: all of it becomes readable, if the brokers hold all of it. It is for good."
    else:
        title, label = f"Roll back version {each.version} of {each.transactional_id}?", "Roll back"
        effect = f"{rows}: nothing of it becomes readable. It is for good; the driver may run the batch again."
    effects: list[Child] = [effect, "A driver that still runs decides by itself: do this only where none does."]
    frame.confirm(title, effects, label, do, typed=each.transactional_id)
