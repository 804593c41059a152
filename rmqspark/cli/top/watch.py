"""Looks at a cluster every few seconds, on a thread of its own: a broker that is slow to fail holds no key up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rmqspark.client.watching.rates import rates
from rmqspark.client.watching.snapshots import take

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.watching.rates import Rates
    from rmqspark.client.watching.snapshots import Snapshot


class Watch:
    """A context manager. The first frame comes with the second look: rates are differences."""

    def __init__(self, cluster: ClusterClient, interval_s: float) -> None:
        self._cluster = cluster
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._frames = 0
        self._seen = 0
        self._newest: Rates | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rmq top looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()

    def next(self, timeout_s: float | None = None) -> Rates | None:
        """The newest frame that was not given yet, once there is one; None if there is none in time. Raises what a look
        raises: that is a bug, or no name server that has ever answered."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames > self._seen or self._error is not None, timeout_s)
            if self._error is not None:
                raise self._error
            if self._frames == self._seen:
                return None
            self._seen = self._frames
            return self._newest

    def _run(self) -> None:
        before: Snapshot | None = None
        try:
            while not self._ended.is_set():
                now = take(self._cluster, before)
                if before is not None:
                    self._tell(rates(before, now))
                before = now
                self._ended.wait(self._interval_s)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the next frame
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _tell(self, frame: Rates) -> None:
        with self._changed:
            self._newest = frame
            self._frames += 1
            self._changed.notify_all()
