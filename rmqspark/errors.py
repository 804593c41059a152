"""What can go wrong, arranged by what the reader can do about it.

Every error of this package is an `RmqError`. It says what is wrong and, in `hint`, what to do next; `retriable` says
whether the same call may succeed later without anybody changing anything. Which response code of the wire an error
travels under is written once, in `protocol/faults.py`.
"""

from __future__ import annotations

from typing import Final


class RmqError(Exception):
    """Base of all errors of rmqspark. `hint` is one sentence on what to do next, empty if there is nothing."""

    retriable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def retell(self, message: str, *, hint: str | None = None) -> None:
        """The same error in other words, where more is known; a hint of None stays as it is."""
        self.message, self.args = message, (message,)
        self.hint = self.hint if hint is None else hint

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.__dict__)


def _rebuild(kind: type[RmqError], message: str, hint: str, state: dict[str, object]) -> RmqError:
    """Subclasses have their own signatures, and Spark pickles what its workers raise: rebuild without calling them."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    error.message, error.hint = message, hint
    return error


# --- bytes that are not what they claim to be -----------------------------------------------------------------------


class DecodeError(RmqError):
    """Bytes from outside that do not follow the format. What they came from is not to be trusted."""


class FrameError(DecodeError):
    """A frame whose lengths contradict each other or exceed the limit; the connection has lost its place."""


class HeaderError(DecodeError):
    """A command header that cannot be read, or lacks a field its request needs."""


class BodyError(DecodeError):
    """A request or response body that is not what its code promises."""


class RecordError(DecodeError):
    """A message record whose sizes, magic or checksum are wrong."""


# --- what the caller asked for is not possible -----------------------------------------------------------------------


class InvalidArgument(RmqError, ValueError):
    """An argument, option or setting that cannot be accepted; the message names it and what would be right."""


class UnusableFile(InvalidArgument):
    """A file that was named cannot be used. `name` is what its user called it by: a setting, an option, a flag; `story`
    goes on from there."""

    def __init__(self, name: str, story: str, *, hint: str = "") -> None:
        super().__init__(f"{name} {story}", hint=hint)
        self.name = name
        self.story = story


class InvalidName(InvalidArgument):
    """A topic or group name that breaks the rules of `protocol/names.py`."""


class InvalidMessage(InvalidArgument):
    """A message that cannot be stored as it is: too large, empty, or with properties that cannot be encoded."""


class InvalidFilter(InvalidArgument):
    """A tag or SQL92 expression that cannot be understood."""


class Conflict(InvalidArgument):
    """An argument that is right in itself and contradicts what is there: to make what exists, to set what is not."""


class InvalidQueue(Conflict):
    """A queue id outside the range that the topic has."""


class NotSupported(RmqError):
    """The peer does not know this request, or does not do what it asks for."""


class NotThereYet(NotSupported):
    """This version does not have what was named; the message says what does instead, if anything does."""


class MissingExtra(RmqError):
    """A library that an extra of the package brings is not installed."""

    def __init__(self, library: str, extra: str, *, interpreter: str | None = None) -> None:
        """`interpreter` is that of a worker of Spark's, which need not be the one that the user has installed it in."""
        where, besides = "", ""
        if interpreter is not None:
            where = f" for {interpreter}, which Spark runs"
            besides = ", or set PYSPARK_PYTHON to the interpreter that has it before the session starts"
        super().__init__(
            f"{library} is not installed{where}.", hint=f"Install it with: pip install 'rmqspark[{extra}]'{besides}"
        )
        self.extra = extra


class OtherVersion(RmqError):
    """The processes of a Spark query have different versions of rmqspark installed."""

    def __init__(self, theirs: str, ours: str, interpreter: str) -> None:
        super().__init__(
            f"The processes of this query have different versions of rmqspark: {theirs}, and {ours} for {interpreter}.",
            hint="Stop it, install one version for all interpreters that Spark runs, the driver's and the workers', "
            "and start it again.",
        )


# --- what is not there ----------------------------------------------------------------------------------------------


class NotFound(RmqError):
    """Something that was named does not exist."""


class BrokerNotRegistered(NotFound):
    """No name server knows a broker of that name: there never was one, or it is away just now."""


class TopicNotFound(NotFound):
    def __init__(self, topic: str, *, hint: str = "") -> None:
        super().__init__(f"Topic {topic!r} does not exist.", hint=hint or f"Create it with: rmq topic create {topic}")
        self.topic = topic


class GroupNotFound(NotFound):
    def __init__(self, group: str, *, hint: str = "") -> None:
        super().__init__(f"Consumer group {group!r} does not exist.", hint=hint)
        self.group = group


class OffsetNotFound(NotFound):
    """The group has never committed an offset for this queue: unknown, which is neither 0 nor -1."""


class MessageNotFound(NotFound):
    """No message under this id or at this offset; it may have expired."""


class SubscriptionNotFound(NotFound):
    """The group has not told the broker what it subscribes to; its next heartbeat does."""

    retriable = True


class FilterNotFound(NotFound):
    """The broker has no filter for what the group subscribes to: its SQL92 expression could not be understood."""


class SubscriptionOutdated(NotFound):
    """The broker knows an older subscription of the group than the request carries."""

    retriable = True


class OffsetMoved(RmqError):
    """The offset asked for is outside the queue, or was one of another topic of its name; `next_offset` is where to go
    on."""

    def __init__(self, message: str, *, next_offset: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.next_offset = next_offset


class TopicRemade(RmqError):
    """The topic was deleted and made anew since the offsets were planned: they are other messages' now, or nobody's."""


class StoreReplaced(RmqError):
    """The broker serves another store than the one that the offsets are of: they are other messages' there."""


class UnparsableBody(RmqError):
    """A message body does not parse against the schema of the read, which was to end at the first such (FAILFAST)."""


class DataLoss(RmqError):
    """Messages that a query was still to read are gone, or cannot be told from others any more."""


class NotRecallable(RmqError):
    """What is no handle of a message that waits for its time on this broker: it may have come already."""


# --- transactions ----------------------------------------------------------------------------------------------------


class LeaseLost(RmqError):
    """A queue of a shared group that this query was reading belongs to another member now, or to a later run of it."""


class TransactionError(RmqError):
    """What was asked of a transaction contradicts what its coordinator or a participant knows. Nothing was done."""


class ForgedEpoch(TransactionError):
    """The epoch was never handed out to this run."""


class ForgedDecision(TransactionError):
    """What was said to be decided is not, or otherwise: the coordinator knows nothing of it."""


class UnknownTransaction(TransactionError):
    """Nobody has prepared this transactional id, or this version of it, here."""


class TwoCoordinators(TransactionError):
    """Two brokers hold decisions of the same transactional id."""


class Fenced(TransactionError):
    """Another run has taken over, or the version was given up: this run may write nothing more of it."""


class StaleVersion(TransactionError):
    """The version is below the last one committed: a checkpoint was deleted or restored, or numbers began anew."""


class NotCommitted(TransactionError):
    """The version was not committed, and nothing of it is readable; running it again is safe."""


class InDoubt(TransactionError):
    """Nobody could be asked whether the version was committed. Running it again is safe either way."""


class ReplayMismatch(TransactionError):
    """A version that was committed has other rows when it is run again. What was committed stays."""


# --- not allowed, not now --------------------------------------------------------------------------------------------


class NoPermission(RmqError):
    """The topic, group or credentials do not allow this."""


class Busy(RmqError):
    """The server refuses work to stay within its bounds; try again, or another broker."""

    retriable = True


class NotWritable(RmqError):
    """The store takes no messages now: shut down, disk full, or a failed fsync."""

    retriable = True


class FlushTimeout(RmqError):
    """Stored, but not on disk within the time allowed: it may or may not survive a power loss."""

    retriable = True


class SlaveNotAvailable(FlushTimeout):
    """Stored on the master, and no slave is there, or near enough, to have it too."""


class FlushSlaveTimeout(FlushTimeout):
    """Stored on the master, and on no slave within the time allowed."""


class GoingAway(RmqError):
    """The server is shutting down; connect to another one, or again."""

    retriable = True


class AlreadyClosed(RmqError):
    """This client, producer or consumer was closed; it does nothing any more."""


class ServerFault(RmqError):
    """The server answered SYSTEM_ERROR or a code we have no better word for; `code` is what it sent."""

    retriable = True

    def __init__(self, message: str, *, code: int = 1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


# --- the way there --------------------------------------------------------------------------------------------------


class Unreachable(RmqError):
    """No connection to `address`."""

    retriable = True

    def __init__(self, message: str, *, address: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.address = address


class NoBrokers(Unreachable):
    """No name server knows of any broker, as for a moment after they have started: what there is, nobody can say."""


class HandshakeFailed(Unreachable):
    """Somebody is there, and no TLS could be agreed on: somebody has to change something first."""

    retriable = False


class ConnectionLost(Unreachable):
    """The connection ended with the request under way: it may or may not have been carried out."""


class RequestTimeout(RmqError):
    """No answer in time: the request may or may not have been carried out."""

    retriable = True


class PortInUse(RmqError):
    def __init__(self, host: str, port: int, setting: str) -> None:
        super().__init__(
            f"Port {port} on {host} is in use.",
            hint=f"Stop what listens there, or choose another with {setting} (0 takes any free one).",
        )
        self.host = host
        self.port = port


# --- files ----------------------------------------------------------------------------------------------------------


class StoreError(RmqError):
    """The store directory cannot be opened or used as it is."""


class StoreLocked(StoreError):
    """Another process has this store open."""


class DamagedFile(StoreError):
    """A file whose content cannot be what this or any RocketMQ broker wrote; the message names file and place."""


WRITTEN_LATER: Final = "If a later version of rmqspark has run here, start that one again: it goes on from here."
"""The hint where what is logged is sound and cannot be read."""
