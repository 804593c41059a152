"""Whose store this is a copy of, and what that makes of its identity.

A slave's store has its master's id and incarnation, so that who remembers offsets finds the same here. Where it is made
the master, its incarnation rises by a million (`SUCCESSION`): it may lack what the master had last, and was read there.

The file `following` (docs/storage-format.md) is there from a first start as a slave's store to the next as a master's.
RocketMQ keeps no such thing: there a slave that takes over is taken for the master by everybody who remembers offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.store.files import read_whole, write_whole

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem
    from rmqspark.store.identity import StoreIdentity

FOLLOWING: Final = "following"
_IS_KNOWN: Final = b"known\n"  # its content, once the master has said whose store this is a copy of
SUCCESSION: Final = 1_000_000
"""By how much the incarnation rises when a slave is made the master. A crash of the master raises its own by one."""


class Lineage:
    """Nothing is read of it before the store follows a master, or has ended that."""

    def __init__(self, files: FileSystem, identity: StoreIdentity) -> None:
        self._files = files
        self._identity = identity
        self.is_known = False
        """Whether the store's identity is that of the master's: not before that has said it for the first time."""
        self.is_doubtful = False
        """Whether this was another's store than a slave's, and no master has said yet that it has the same: what a
        master that was away had stored last its successor may have lost, and given its offsets to others."""

    @property
    def successions(self) -> int:
        """How often one of the copies of this store has taken another's place as the master."""
        return self._identity.incarnation // SUCCESSION

    def begin_following(self, *, is_empty: bool) -> None:
        """This is a slave's store, from now on or still. Raises OSError."""
        if self._files.exists(FOLLOWING):
            self.is_known = read_whole(self._files, FOLLOWING) == _IS_KNOWN
        else:
            write_whole(self._files, FOLLOWING, b"")
            self._files.sync_directory("")
        self.is_doubtful = not self.is_known and not is_empty

    def end_following(self) -> bool:
        """To be called before messages are taken; whether this was a slave's store. Its master may have had more, which
        was read there: offsets that follow mean other messages, so the incarnation rises, and beyond all that the
        master can have come to since it was asked last. Raises OSError."""
        if not self._files.exists(FOLLOWING):
            return False
        self.is_known = read_whole(self._files, FOLLOWING) == _IS_KNOWN
        self._identity.raise_incarnation(by=SUCCESSION)
        self._files.unlink(FOLLOWING)
        self._files.sync_directory("")
        return True

    def proven(self) -> None:
        """All that is here the master has, too."""
        self.is_doubtful = False

    def adopt(self, store_id: str, incarnation: int) -> None:
        """This is a copy of the master's store: offsets mean the same here. Raises ValueError, OSError."""
        self._identity.adopt(store_id, incarnation)
        self.keep()

    def keep(self) -> None:
        """The identity that there is stays: the master, a stock one, has none to take over. Raises OSError."""
        if not self.is_known:
            write_whole(self._files, FOLLOWING, _IS_KNOWN)
            self.is_known = True
