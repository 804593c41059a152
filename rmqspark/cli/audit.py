"""`rmq audit`: what each batch of a query read, committed and wrote, and whether it adds up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.options import Json, Namesrv
from rmqspark.cli.output import fits_terminal, print_json, print_table
from rmqspark.cli.words import counted
from rmqspark.display import time_text
from rmqspark.errors import NotFound
from rmqspark.protocol.bodies.txn import OutputRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.client.audit import Finding
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange


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

    Shows per batch what was read, committed and written, and counts gaps and duplicates; exit code 1 if any. What was
    skipped or read again because the group was set to another place, or the topic made anew, is told, and is neither;
    so is a version that foreachBatch has not written.

    Example: rmq audit billing --json
    """
    from rmqspark.client.audit import findings, resets, unwritten
    from rmqspark.client.cluster_client import ClusterClient

    with ClusterClient(namesrv) as client:
        batches = _batches(client, query)
    found, wanted, left_out = findings(batches), resets(batches), unwritten(batches)
    if as_json:
        print_json(_document(query, batches, found, wanted, left_out))
    else:
        _show(batches, found, [*wanted, *left_out])
    if found:
        raise typer.Exit(1)


def _batches(client: ClusterClient, query: str) -> list[AuditedBatch]:
    """Those of this id, which is known for good, or of the query that brokers have heard of under this name lately."""
    from rmqspark.client.queries import check_named, find_query
    from rmqspark.client.txn import audited_batches

    check_named(query)
    batches = audited_batches(client, query_id=query) or audited_batches(client, transactional_id=query)
    if not batches and (seen := find_query(client, query)) is not None:
        batches = audited_batches(client, query_id=seen.known.queryId)
    if not batches:
        raise NotFound(
            f"No batch of {query!r} was committed exactly-once here.",
            hint="It takes a query's id (the same after every restart), its name or group (rmq spark list), or a "
            "transactional id (rmq txn list).",
        )
    return batches


def _show(batches: Sequence[AuditedBatch], found: Sequence[Finding], told: Sequence[Finding]) -> None:
    """`told` is what is no fault."""
    columns = ("id", "version", "read", "committed", "written", "decided", "by", "confirmed")
    rows = [_row(b, ", ".join(map(_range, _inputs(b))), ", ".join(map(_output, b.outputs))) for b in batches]
    if fits_terminal(columns, rows):
        print_table(columns, rows, empty="")
    else:
        print_table(columns, [_row(b, _by_topic(_inputs(b)), _by_topic(b.outputs)) for b in batches], empty="")
        print("The offsets of each queue: with --json, or in a wider terminal.")
    print()
    for finding in (*told, *found):
        print(f"{finding.kind} in version {finding.version} of {finding.transactional_id}: {finding.story}")
    committed = sum(batch.rows for batch in batches)
    print(
        f"{counted(len(batches), 'batch', 'batches')}: {_read(batches)}, "
        f"{counted(committed, 'row')} committed; {_total(found)}."
    )
    unconfirmed = sum(not batch.completed for batch in batches)
    if unconfirmed:
        print(f"{counted(unconfirmed, 'batch', 'batches')} not confirmed by all brokers yet; that takes some seconds.")


def _row(batch: AuditedBatch, read: str, written: str) -> tuple[Any, ...]:
    return (
        batch.transactionalId,
        batch.version,
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
    from rmqspark.client.audit import messages_in, tells_inputs

    if not tells_inputs(batches):
        return "what was read is not known (no source of ours said it), so only what was written is checked"
    return f"{counted(messages_in(piece for batch in batches for piece in batch.inputs), 'message')} read"


def _total(found: Sequence[Finding]) -> str:
    if not found:
        return "no gaps, no duplicates"
    return f"{counted(_sum(found, 'gap'), 'message')} missing, {counted(_sum(found, 'duplicate'), 'message')} twice"


def _sum(found: Sequence[Finding], kind: str) -> int:
    return sum(finding.messages for finding in found if finding.kind == kind)


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


def _document(
    query: str,
    batches: Sequence[AuditedBatch],
    found: Sequence[Finding],
    wanted: Sequence[Finding],
    left_out: Sequence[Finding],
) -> dict[str, Any]:
    from dataclasses import asdict

    from msgspec import to_builtins

    from rmqspark.client.audit import tells_inputs

    return {
        "query": query,
        "inputsTold": tells_inputs(batches),
        "batches": [to_builtins(batch) for batch in batches],
        "findings": [asdict(finding) for finding in found],
        "resets": [asdict(finding) for finding in wanted],
        "unwritten": [asdict(finding) for finding in left_out],
        "gaps": _sum(found, "gap"),
        "duplicates": _sum(found, "duplicate"),
    }
