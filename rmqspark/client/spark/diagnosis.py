"""Why a Spark query is slow, and which option to change. Pure: what its listener reported in, findings out.

Each rule looks at one thing and says what it saw, in figures, and what to do about it. Thresholds are where the thing
begins to matter: below them the advice would not be felt.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.spark.queries import SILENT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.protocol.bodies.queries import KnownQuery, QueryReport

SMALL_BATCH_ROWS = 20_000  # below this the cost of a micro-batch hardly depends on its rows
FIXED_COST_MS = 2_000  # what a micro-batch takes at most that has hardly any rows
SKEW = 3.0  # the fullest queue, as a multiple of the mean
MOST_OF_FEW = 0.8  # its share, where there are so few queues that it cannot be such a multiple
ENOUGH_ROWS = 1_000  # for queues of a batch to be compared
LARGE_SHARE = 0.25  # of a batch's time
NOTABLE_MS = 100
SLOW_PHASE_MS = 500  # any disk or broker that does other things besides takes as long as that now and then


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing found: `kind` is a word for scripts, `story` what was seen, `advice` what to change."""

    kind: str
    story: str
    advice: str


class Case(NamedTuple):
    """All that the rules look at. `silent_ms`: since a broker last heard of the query."""

    known: KnownQuery
    report: QueryReport
    silent_ms: int

    @property
    def trigger_ms(self) -> int:
        return self.report.durationMs.get("triggerExecution", 0)

    @property
    def rows_by_queue(self) -> list[int]:
        return [queue.toOffset - queue.fromOffset for queue in self.report.queues]


def diagnose(known: KnownQuery, silent_ms: int) -> list[Advice]:
    """What is wrong with a query, most telling first; empty where nothing is."""
    if known.report is None:
        return [
            Advice(
                "no-listener",
                "No listener reports batch times and lag of this query.",
                "Register one in its driver: spark.streams.addListener(LagListener(namesrv=…)).",
            )
        ]
    case = Case(known, known.report, silent_ms)
    return [advice for rule in _RULES for advice in rule(case)]


def _ended(case: Case) -> Iterator[Advice]:
    if case.report.state == "failed":
        reason = case.report.error.partition("\n")[0] or "it does not say why."
        yield Advice("failed", f"The query failed: {reason}", "Start it again.")
    elif case.report.state == "running" and case.silent_ms > SILENT_MS:
        yield Advice(
            "silent",
            f"Its listener has said nothing for {case.silent_ms // 1000:,} seconds.",
            "Look whether the driver lives; an idle query reports every ten seconds or so.",
        )


def _no_queues(case: Case) -> Iterator[Advice]:
    if case.report.state == "running" and not case.report.queues:
        yield Advice(
            "no-queues",
            "It reads no queue just now: the others in its group "
            f"{', '.join(case.report.groups)} have them, or there are none.",
            "Give the topic a queue for each member of the group (rmq topic update), or end this query.",
        )


def _growing(case: Case) -> Iterator[Advice]:
    seen = [each.offsetsBehind for each in case.known.history if each.offsetsBehind is not None]
    if case.report.behind is None:
        return
    seen.append(case.report.behind)
    if len(seen) >= 4 and seen[-1] > max(seen[0], ENOUGH_ROWS) and median(seen[len(seen) // 2 :]) > median(seen[:2]):
        yield Advice(
            "falling-behind",
            f"Over the last {len(seen)} reports it fell from {seen[0]:,} to {seen[-1]:,} messages behind: "
            "more is sent than it processes.",
            "Give Spark more cores, or make the query cheaper: see what else is said here.",
        )


def _small_limit(case: Case) -> Iterator[Advice]:
    read, behind = case.report.messages, case.report.behind or 0
    if read and behind > 2 * read and case.trigger_ms < FIXED_COST_MS and read < SMALL_BATCH_ROWS:
        yield Advice(
            "small-limit",
            f"A batch of {read:,} messages takes {case.trigger_ms:,} ms while {behind:,} wait: "
            "what is paid is the batch, not the rows.",
            "Raise maxOffsetsPerTrigger, or leave it out.",
        )


def _fixed_cost(case: Case) -> Iterator[Advice]:
    rows = case.report.inputRows
    gaps = _gaps_ms(case)
    if not rows or not gaps or rows >= SMALL_BATCH_ROWS or (case.report.behind or 0) > 2 * rows:
        return
    if case.trigger_ms >= NOTABLE_MS and median(gaps) < 1.2 * case.trigger_ms:
        yield Advice(
            "fixed-cost",
            f"Batches of about {rows:,} rows follow each other without a pause, {case.trigger_ms:,} ms each: "
            "most of that is spent on any batch, however small.",
            'Use a trigger interval: .trigger(processingTime="5 seconds") does the same work in fewer batches.',
        )


def _skew(case: Case) -> Iterator[Advice]:
    rows = case.rows_by_queue
    if len(rows) < 2 or sum(rows) < ENOUGH_ROWS:
        return
    if max(rows) > min(SKEW / len(rows), MOST_OF_FEW) * sum(rows):
        fullest = max(case.report.queues, key=lambda queue: queue.toOffset - queue.fromOffset)
        yield Advice(
            "skewed-queues",
            f"Queue {fullest.topic}/{fullest.brokerName}/{fullest.queueId} had {max(rows):,} of {sum(rows):,} rows "
            f"of the last batch; the other {len(rows) - 1} waited for its task.",
            "Split it: maxRecordsPerPartition or minPartitions; or send with a shardingKey that spreads better.",
        )


def _few_queues(case: Case) -> Iterator[Advice]:
    busy, cores = sum(rows > 0 for rows in case.rows_by_queue), case.report.cores
    if 0 < busy < cores and case.report.inputRows >= SMALL_BATCH_ROWS:
        yield Advice(
            "few-queues",
            f"{busy} queues had rows, so {busy} of {cores} cores read.",
            f"Set minPartitions={cores}, or give the topic more queues (rmq topic update).",
        )


def _one_broker(case: Case) -> Iterator[Advice]:
    rows: Counter[str] = Counter()
    for queue in case.report.queues:
        rows[queue.brokerName] += queue.toOffset - queue.fromOffset
    name, most = rows.most_common(1)[0] if rows else ("", 0)
    if len(rows) > 1 and sum(rows.values()) >= ENOUGH_ROWS and most > 0.9 * sum(rows.values()):
        yield Advice(
            "one-broker",
            f"{most:,} of {sum(rows.values()):,} rows of the last batch came from {name}, one of {len(rows)} brokers.",
            "Look at how the topic is written: producers without a shardingKey spread over all brokers.",
        )  # fmt: skip


_PHASES = {
    "latestOffset": (
        "slow-offsets",
        "asking the brokers how far the queues go",
        "Subscribe to fewer topics, or look whether a broker answers slowly (rmq topic describe, rmq doctor).",
    ),
    "walCommit": ("slow-checkpoint", "writing the offsets down", "Move checkpointLocation to a faster file system."),
    "commitOffsets": (
        "slow-checkpoint",
        "writing the commit down",
        "Move checkpointLocation to a faster file system.",
    ),
    "queryPlanning": ("slow-planning", "planning the query", "Simplify it: fewer unions, columns and UDFs."),
    "getBatch": ("slow-partitions", "planning its partitions", "Use a larger maxRecordsPerPartition."),
}


def _phases(case: Case) -> Iterator[Advice]:
    for phase, (kind, doing, advice) in _PHASES.items():
        spent = case.report.durationMs.get(phase, 0)
        if spent >= SLOW_PHASE_MS and spent > LARGE_SHARE * case.trigger_ms:
            yield Advice(kind, f"{spent:,} of {case.trigger_ms:,} ms of the last batch went into {doing}.", advice)


def _gaps_ms(case: Case) -> list[int]:
    """From the start of a batch to that of the next one, where reports of both are known."""
    figures = [(each.batchId, each.batchAt) for each in case.known.history]
    figures.append((case.report.batchId, case.report.batchAt))
    return [
        (at - before_at) // (batch_id - before_id)
        for (before_id, before_at), (batch_id, at) in itertools.pairwise(figures)
        if batch_id > before_id and at > before_at
    ]


_RULES: tuple[Callable[[Case], Iterator[Advice]], ...] = (
    _ended,
    _no_queues,
    _growing,
    _small_limit,
    _fixed_cost,
    _skew,
    _few_queues,
    _one_broker,
    _phases,
)
