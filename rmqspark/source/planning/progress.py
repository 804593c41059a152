"""How far a streaming query has come, and how far it goes next: what the driver knows, apart from Spark.

`Progress` asks the cluster, lets `planner` and `loss` decide, and carries out what failOnDataLoss says. It lives as
long as the query runs; nothing it remembers is needed after a restart, except what is in the offsets themselves.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqspark.client.cluster.patience import may_pass
from rmqspark.errors import RmqError
from rmqspark.source.loss import bear, bear_no_outage, deleted, replaced, replaced_since, shrunken, strangers
from rmqspark.source.offsets import Offsets, under_new_name
from rmqspark.source.planning.admission import Admission
from rmqspark.source.planning.idle_pace import IdlePace
from rmqspark.source.planning.planner import (
    Snapshot,
    advance,
    everything,
    is_idle,
    needing_begin,
    out_of_sight,
    unchanged,
)
from rmqspark.source.planning.resumption import Resumption
from rmqspark.source.planning.start import is_repeatable, resolve
from rmqspark.source.positions import check_assigned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.groups.ownership import Ownership
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.planning.admission import Limits
    from rmqspark.source.planning.cluster_view import ClusterView
    from rmqspark.source.planning.planner import Admit
    from rmqspark.source.planning.rewinds import Rewinds
    from rmqspark.source.queue_range import QueueRange

_log = logging.getLogger(__name__)


class Progress:
    """The driver's side of one run of a query."""

    def __init__(
        self,
        options: SourceOptions,
        view: ClusterView,
        group: Ownership,
        rewinds: Rewinds,
        *,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._options = options
        self._tolerant = not options.fail_on_data_loss
        self._view = view
        self._group = group
        self._rewinds = rewinds
        self._clock = clock
        self._entropy = entropy
        self._initial: Offsets | None = None
        self._start_recorded = options.sharing is not None or is_repeatable(options.start)
        self._ceiling: Offsets | None = None
        self._newest: Offsets | None = None
        self._planned: Offsets | None = None
        self._admission = Admission(view.measure, clock)
        self._pace = IdlePace(clock)
        self._resumption = Resumption(options)
        self._told_idle = False

    def initial(self) -> Offsets:
        """Where a new query starts. The same at every call: Spark asks again until its first batch is recorded.

        A member of a shared group starts with nothing.
        """
        if self._initial is None and self._options.sharing is not None:
            self._initial = Offsets(self._options.group or "")
        if self._initial is None:
            snapshot = self._view.snapshot(fresh=True)
            positions = resolve(self._options.start, snapshot, self._view, self._clock.now_ms())
            self._initial = replace(_ends(snapshot, self._options.group or self._draw_group()), positions=positions)
        return self._initial

    def latest(self, start: Offsets, limits: Limits | None) -> Offsets:
        """The end of the next micro-batch that begins at `start`; `start` itself where there is nothing to do, or where
        `limits` say to wait. Without limits a batch takes all there is.

        The first batch of a query that starts at "latest" is left empty. Spark records the ends of batches only; were
        the first one to fail, its run after a restart would begin at the "latest" of then, and skip what came between.
        """
        if not self._start_recorded:
            self._start_recorded = True
            if start == self._initial:
                return start
        return self._pace.end_of(start, partial(self._end_behind, limits=limits))

    def _end_behind(self, start: Offsets, limits: Limits | None) -> Offsets:
        """A look, which waits for what is missed, and what follows from it. Where that fails a broker went after it was
        seen, and others are not to wait for it: another look leaves it out of sight, for its name servers say so, or
        nobody does."""
        snapshot = self._snapshot()
        start = self._resumption.of(start.under_names(self._new_names(start, snapshot)))
        start = self._without_deleted(start, snapshot)
        snapshot = self._sufficient(start, snapshot)
        looks = self._options.retry.further_looks.tries(self._clock)
        while True:
            try:
                return self._next_end(start, snapshot, limits)
            except RmqError as error:
                look = next(looks, None) if may_pass(error) else None
                if look is None:
                    raise
            self._clock.sleep_ms(look.pause_ms)
            snapshot = self._look(start)

    def _next_end(self, start: Offsets, snapshot: Snapshot, limits: Limits | None) -> Offsets:
        """What follows from a look: first what has gone, then what is this query's, then how far it goes."""
        resets = self._rewinds.due(start, snapshot, is_idle=is_idle(start, self._group.owned(snapshot)))
        snapshot, reborn = self._account(start, snapshot, resets)
        self._tell_idle(snapshot)
        start, snapshot = self._own(start, snapshot)
        resets = {queue: at for queue, at in resets.items() if queue in snapshot.ends}  # the rest is for who reads it
        snapshot = replace(snapshot, begins=self._view.begins(needing_begin(start, snapshot, resets)))
        snapshot = self._group.enter(snapshot)
        self._newest = replace(_ends(snapshot, start.group), epochs=start.epochs)
        admit = self._admit(limits)
        end = advance(start, snapshot, admit=admit, ceiling=self._ceiling, reborn=reborn, resets=resets)
        end = self._planned = self._group.seal(end)
        self._rewinds.planned(end, resets)
        return end

    def _new_names(self, known: Offsets, snapshot: Snapshot) -> Mapping[str, str]:
        """Of brokers that have another name than in these offsets. A shared group keeps its places with the brokers,
        whatever they are called."""
        return {} if self._options.sharing is not None else known.new_names(snapshot.store_ids)

    def _read_on(self, start: Offsets, resets: Mapping[MessageQueue, int]) -> Offsets:
        """The places that reading goes on from: what is missing behind any other is missed by nobody."""
        includes = self._options.subscription.includes
        return start.at({queue: at for queue, at in start.positions.items() if queue not in resets and includes(queue)})

    def _own(self, start: Offsets, snapshot: Snapshot) -> tuple[Offsets, Snapshot]:
        """As far as the group has them read here; what is before `start` is reported to be done with."""
        start = self._group.settle(start, snapshot)
        if self._group.outruns(snapshot):
            snapshot = self._look(start)
        return start, self._group.owned(snapshot)

    def readable(self, planned: list[QueueRange], end: Offsets) -> list[QueueRange]:
        """What of a batch can still be read as it was planned.

        All of it if this run has planned it just now. After a restart it may be an earlier one that did, and its
        numbers other messages' by now, or nobody's. Raises DataLoss, and InvalidArgument where the batch is another
        query's.
        """
        if self._planned is not None and end.positions == self._planned.positions:
            return planned
        snapshot = self._view.snapshot(fresh=True, missing_topics_allowed=True, outages_allowed=True)
        names = self._new_names(end, snapshot)
        end = end.under_names(names)
        self._resumption.check(end)
        planned = [each._replace(queue=under_new_name(each.queue, names)) for each in planned]
        queues = {each.queue for each in planned}
        gone = self._deleted_among(queues - snapshot.ends.keys(), snapshot)
        lost = deleted(end.at({each.queue: each.start for each in planned}), gone)
        bear(replaced_since(planned, end, snapshot) + lost, tolerant=self._tolerant)
        return [each for each in unchanged(planned, end, snapshot) if each.queue.topic not in gone]

    def hold(self, planned: list[QueueRange], end: Offsets) -> list[QueueRange]:
        """What of a batch is still this query's to read (`ownership`). Raises LeaseLost."""
        return self._group.hold(planned, end, self.silent)

    @property
    def read_under(self) -> Mapping[MessageQueue, int]:
        """The leases that what `hold` gave last is read under."""
        return self._group.read_under

    @property
    def runs(self) -> Mapping[str, int]:
        """By broker name, the number of this run where it has leases."""
        return self._group.runs

    @property
    def silent(self) -> frozenset[str]:
        """The brokers that the last look left out, because they are registered and answer nothing."""
        return self._view.left_out

    def leave(self) -> None:
        """The query ends, if it can say so: Spark gives a source no word about it."""
        self._group.leave()

    def pin(self) -> None:
        """Makes what is there now the end of the query (Trigger.AvailableNow)."""
        self._ceiling = _ends(self._view.snapshot(fresh=True, missing_topics_allowed=self._tolerant), group="")

    def newest(self) -> Offsets:
        """The ends of all queues as last seen; looked up for a batch that is run again, which comes before any look."""
        if self._newest is None:
            snapshot = self._view.snapshot(missing_topics_allowed=True, outages_allowed=True)
            return _ends(snapshot, self._options.group or "")
        return self._newest

    def _look(self, start: Offsets) -> Snapshot:
        return self._sufficient(start, self._snapshot(fresh=True))

    def _sufficient(self, start: Offsets, snapshot: Snapshot) -> Snapshot:
        """What the next batch, which begins at `start`, is planned by. What is pinned is read, or the query fails."""
        if self._newest is None:
            self._check_assigned(start, snapshot)
        if self._ceiling is None:
            return snapshot.having(start.positions)
        for pause_ms in self._options.retry.pauses_ms:
            if not self._missed(start, snapshot):
                break
            self._clock.sleep_ms(pause_ms)
            snapshot = self._snapshot(fresh=True)
        bear_no_outage(self._missed(start, snapshot), snapshot)
        return snapshot

    def _missed(self, start: Offsets, snapshot: Snapshot) -> list[MessageQueue]:
        """What is pinned and out of sight, though it was not deleted. A member of a shared group misses its own."""
        missed = out_of_sight(start, self._ceiling, snapshot)
        if self._options.sharing is not None:
            missed = [queue for queue in missed if queue in start.positions]
        return [queue for queue in missed if not self._view.is_deleted(queue.topic, {queue.broker_name})]

    def _snapshot(self, *, fresh: bool = False) -> Snapshot:
        """A query that ends where its pinned end is reads all brokers for that."""
        return self._view.snapshot(
            fresh=fresh, missing_topics_allowed=self._tolerant, outages_allowed=self._ceiling is None
        )

    def _check_assigned(self, start: Offsets, snapshot: Snapshot) -> None:
        """What is named in assign and has a place was there once: its broker is away. The rest is there now, or is
        nowhere: InvalidArgument. A member of a shared group has places in its own queues only."""
        if self._options.sharing is not None and start.positions:
            return
        new = {*(self._options.subscription.queues or ())} - start.positions.keys()
        check_assigned([queue for queue in new if queue.broker_name not in snapshot.left_out], snapshot.ends)

    def _admit(self, limits: Limits | None) -> Admit:
        if limits is None:
            return everything
        if self._ceiling is not None:  # what is to be read is there already: nothing to wait for
            limits = replace(limits, min_rows=None)
        return partial(self._admission.admit, limits=limits)

    def _tell_idle(self, snapshot: Snapshot) -> None:
        """Warns, once a run, where the way a group is shared leaves no queue to anybody."""
        sharing = self._options.sharing
        if sharing is not None and not self._told_idle and (story := sharing.idle_story(snapshot.ends.keys())):
            self._told_idle = True
            _log.warning("%s", story)

    def _account(
        self, known: Offsets, snapshot: Snapshot, resets: Mapping[MessageQueue, int]
    ) -> tuple[Snapshot, set[str]]:
        """A snapshot that `known` can be carried on from, but for what enters anew by `resets`, and the topics that
        begin anew. Raises DataLoss."""
        start = self._read_on(known, resets)
        short = shrunken(start, snapshot)
        for pause_ms in self._options.retry.pauses_ms:  # a broker that flaps: look again before it is called a loss
            if not short:
                break
            self._clock.sleep_ms(pause_ms)
            snapshot = self._look(start)
            short = shrunken(start, snapshot)
        bear(replaced(start, snapshot) + strangers(known, snapshot, resets) + short, tolerant=self._tolerant)
        return snapshot, {loss.queue.topic for loss in short}

    def _without_deleted(self, start: Offsets, snapshot: Snapshot) -> Offsets:
        """`start` without topics that matched subscribePattern and have been deleted since. Raises DataLoss."""
        if self._options.subscription.pattern is None:
            return start
        gone = self._deleted_among(start.positions.keys(), snapshot)
        bear(deleted(start, gone), tolerant=self._tolerant)
        return start.at({queue: at for queue, at in start.positions.items() if queue.topic not in gone})

    def _deleted_among(self, queues: Iterable[MessageQueue], snapshot: Snapshot) -> set[str]:
        """The topics of these queues that are not in sight, and not because a broker is away."""
        seen = {queue.topic for queue in snapshot.ends}
        brokers: dict[str, set[str]] = {}
        for queue in queues:
            if queue.topic not in seen:
                brokers.setdefault(queue.topic, set()).add(queue.broker_name)
        return {topic for topic, names in brokers.items() if self._view.is_deleted(topic, names)}

    def _draw_group(self) -> str:
        """`spark-` and a random UUID (version 4)."""
        digits = self._entropy.token(16).hex()
        variant = f"{int(digits[16], 16) & 0x3 | 0x8:x}"
        return f"spark-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _ends(snapshot: Snapshot, group: str) -> Offsets:
    return Offsets(group, dict(snapshot.ends), snapshot.shown_stores(), {queue.topic: 0 for queue in snapshot.ends})
