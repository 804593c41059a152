"""`rmq audit`: what each batch of a query read, committed and wrote, and whether it adds up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rmqspark.cli.terminal.giving_up import give_up, told_or
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import fits_terminal, print_json, print_table, safe
from rmqspark.display import time_text
from rmqspark.errors import InvalidArgument, NotFound, RmqError
from rmqspark.protocol.bodies.txn import OutputRange
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.client.spark.proofs import Proof
    from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange


_FAULTY: Final = 1
_NOT_THERE: Final = 3
_NOT_KNOWN: Final = 4


def audit(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="The query's name or group, its id, or how that begins (4 letters or more); or a transactional id.",
        ),
    ],
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Proves batch by batch that nothing was lost or doubled.

    Shows per batch what was read, committed and written, and counts gaps and duplicates. What was skipped or read
    again because the group was set to another place, or the topic made anew, is told, and is neither; so is a version
    that foreachBatch has not written. What is known of a batch expires with the messages of its time
    (file_reserved_time): of older ones nothing is shown.

    Exit code 0 there are none, 1 there are some, or a broker has not confirmed its rows for a minute, 3 nothing is
    known of such a query, 4 who knows of it does not answer.

    Example: rmq audit billing --json
    """
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.proofs import proof

    try:
        with ClusterClient(namesrv) as client:
            found = proof(client, query)
    except InvalidArgument:
        raise
    except RmqError as error:
        give_up(error.message, error.hint, exit_code=_NOT_THERE if isinstance(error, NotFound) else _NOT_KNOWN)
    with told_or(_NOT_KNOWN):
        print_json(_document(found)) if as_json else _show(found)
    if found.findings or found.late:
        raise typer.Exit(_FAULTY)


def _show(shown: Proof) -> None:
    batches = shown.batches
    columns = ("id", "version", "read", "committed", "written", "decided", "by", "confirmed")
    rows = [_row(b, ", ".join(map(_range, _inputs(b))), ", ".join(map(_output, b.outputs))) for b in batches]
    if fits_terminal(columns, rows):
        print_table(columns, rows, empty="")
    else:
        print_table(columns, [_row(b, _by_topic(_inputs(b)), _by_topic(b.outputs)) for b in batches], empty="")
        print("The offsets of each queue: with --json, or in a wider terminal.")
    print()
    for finding in (*shown.resets, *shown.unwritten, *shown.findings):
        print(safe(f"{finding.kind} in version {finding.version} of {finding.transactional_id}: {finding.story}"))
    committed, first_ms = sum(batch.rows for batch in batches), min(batch.decidedAtMs for batch in batches)
    print(
        f"{counted(len(batches), 'batch', 'batches')} since {time_text(first_ms)}: {_read(batches)}, "
        f"{counted(committed, 'row')} committed; {_total(shown)}."
    )
    unconfirmed = sum(not batch.completed for batch in batches) - len(shown.late)
    if shown.late:
        since = time_text(min(batch.decidedAtMs for batch in shown.late))
        late = counted(len(shown.late), "batch", "batches")
        print(f"{late} not confirmed by all brokers since {since}: rows are missing there (rmq txn list).")
    if unconfirmed:
        print(f"{counted(unconfirmed, 'batch', 'batches')} not confirmed by all brokers yet; that takes some seconds.")


def _row(batch: AuditedBatch, read: str, written: str) -> tuple[Any, ...]:
    return (
        batch.transactionalId,
        str(batch.version),
        read,
        counted(batch.rows, "row"),
        written,
        time_text(batch.decidedAtMs),
        batch.decidedBy,
        batch.completed,
    )


def _inputs(batch: AuditedBatch) -> list[InputRange]:
    return [one for one in batch.inputs if one.toOffset > one.fromOffset]


def _read(batches: Sequence[AuditedBatch]) -> str:
    from rmqspark.client.spark.audit import messages_in, tells_inputs

    if not tells_inputs(batches):
        return "what was read is not known (no source of ours said it), so only what was written is checked"
    return f"{counted(messages_in(piece for batch in batches for piece in batch.inputs), 'message')} read"


def _total(shown: Proof) -> str:
    if not shown.findings:
        return "no gaps, no duplicates"
    return f"{counted(shown.missing, 'message')} missing, {counted(shown.doubled, 'message')} twice"


def _range(one: InputRange | OutputRange) -> str:
    return f"{one.topic}/{one.brokerName}/{one.queueId} {one.fromOffset}–{one.toOffset}"


def _output(one: OutputRange) -> str:
    """With how many of the messages there are the batch's, where others wrote in between; or with how many went."""
    if one.deleted is not None:
        return f"{one.topic}/{one.brokerName}/{one.queueId} ({counted(one.deleted, 'row')} deleted with the topic)"
    return _range(one) if one.rows is None else f"{_range(one)} ({counted(one.rows, 'row')} of them)"


def _by_topic(ranges: Iterable[InputRange | OutputRange]) -> str:
    """`12,000 in 8 queues of orders`: as short as it gets for a topic of many queues."""
    messages: Counter[str] = Counter()
    queues: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for one in ranges:
        count, fate = one.toOffset - one.fromOffset, ""
        if isinstance(one, OutputRange) and one.deleted is not None:
            count, fate = one.deleted, ", deleted with it"
        elif isinstance(one, OutputRange) and one.rows is not None:
            count = one.rows
        messages[one.topic + fate] += count
        queues[one.topic + fate].add((one.brokerName, one.queueId))
    return "; ".join(
        f"{messages[topic]:,} in {counted(len(each), 'queue')} of {topic}" for topic, each in queues.items()
    )


def _document(shown: Proof) -> dict[str, Any]:
    from dataclasses import asdict

    from msgspec import to_builtins

    from rmqspark.client.spark.audit import tells_inputs

    return {
        "query": shown.query,
        "inputsTold": tells_inputs(shown.batches),
        "batches": [to_builtins(batch) for batch in shown.batches],
        "findings": [asdict(finding) for finding in shown.findings],
        "resets": [asdict(finding) for finding in shown.resets],
        "unwritten": [asdict(finding) for finding in shown.unwritten],
        "late": [[batch.transactionalId, batch.version] for batch in shown.late],
        "gaps": shown.missing,
        "duplicates": shown.doubled,
    }
