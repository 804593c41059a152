"""The target topic on one broker of a `World`: deleted and made anew, it takes along all rows that came before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import TopicNotFound
from rmqspark.store.deletions import Deletions

from .exactly_once_driver import TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.txn import HeldAttempt
    from rmqspark.protocol.codes import RequestCode
    from rmqspark.store.deletions import Deletion
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.participant.half_batch import HalfName
    from rmqspark.txn.participant.participant_events import AttemptKey


class AwaitedDeletion(NamedTuple):
    """To come so many turns of the loop after the next request of this kind, or now; then made `anew`, if at all."""

    amid: RequestCode | None
    turns: int
    anew: bool


class TargetTopic:
    """`files` are those of the store."""

    def __init__(self, files: FileSystem) -> None:
        self.is_there = True
        self.files = files
        self._deletions = 0
        self._taken: dict[AttemptKey, int] = {}  # after how many deletions half batches came
        self._noted: Deletion | None = None  # the last one before the one that is under way
        self._is_deleting = False

    def check(self, *_: object) -> None:
        """Raises TopicNotFound."""
        if not self.is_there:
            raise TopicNotFound(TOPIC)

    def take(self, half: HalfName) -> None:
        """A half batch for it is stored, perhaps by the last that its broker does."""
        self._taken[half.partition, half.attempt] = self._deletions

    def has_all_of(self, attempts: Iterable[HeldAttempt]) -> bool:
        """Whether what these have sent came since it was last deleted."""
        return all(self._taken[each.partition, each.attempt] == self._deletions for each in attempts)

    def delete(self, store: MessageStore, *, anew: bool) -> None:
        self._noted, self._is_deleting = self._note(), True
        store.deletions.note(TOPIC)
        self._is_deleting = False
        self._deletions += 1
        self.is_there = anew
        store.deletions.finish(TOPIC)

    def store_opened(self) -> None:
        """The disk tells whether a deletion that its broker died in has taken place; then the topic is there, and
        empty. Not before: until a start has made it durable, a power loss may take back what the disk told."""
        if self._is_deleting and self._note() != self._noted:
            self._deletions += 1
        self._is_deleting = False

    def _note(self) -> Deletion | None:
        return Deletions(self.files).get(TOPIC)
