"""How a query shares its group, from options groupMode, allocateStrategy, groupOffsetReset and startingOffsets."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rmqspark.errors import InvalidArgument
from rmqspark.rebalance.strategies import ROOM_MARK, Strategy
from rmqspark.source.positions import Earliest, Latest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue

AVERAGELY = Strategy()
_WORDS: Mapping[type, str] = MappingProxyType({Earliest: "earliest", Latest: "latest"})


@dataclass(frozen=True)
class Sharing:
    """`from_earliest`: where a queue begins of which the group has committed nothing; else at its end."""

    strategy: Strategy = AVERAGELY
    from_earliest: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], starts: Sequence[str]) -> Sharing | None:
        """None for an exclusive group. Raises InvalidArgument for options that do not fit; `starts` are those given
        that name a place other than the group's."""
        if values.get("groupMode") != "shared":
            if "allocateStrategy" in values:
                raise InvalidArgument("Option 'allocateStrategy' has no meaning without groupMode=shared.")
            return None
        if "group" not in values:
            raise InvalidArgument("groupMode=shared needs the name of the group that is shared.", hint="Set group.")
        if values.get("commitOffsets") is False:
            raise InvalidArgument("groupMode=shared goes by what the group commits: commitOffsets=false is against it.")
        if starts:
            raise InvalidArgument(
                f"With groupMode=shared queues begin where the group has come, not at {starts[0]!r}.",
                hint="groupOffsetReset says where it has never been. rmq group reset moves it.",
            )
        strategy: Strategy = values.get("allocateStrategy", AVERAGELY)
        if strategy.name == "config" and "assign" not in values:
            raise InvalidArgument("allocateStrategy=config means the queues of option 'assign', which is not given.")
        return cls(strategy, from_earliest=_reset(values) == "earliest")

    def idle_story(self, queues: Collection[MessageQueue]) -> str | None:
        """Why nothing would ever be read of these queues, by any member; None where something is."""
        if not queues or not self.strategy.leaves_all(queues):
            return None
        rooms, brokers = self.strategy.rooms, sorted({queue.broker_name for queue in queues})
        return (
            f"Nothing is read: allocateStrategy=machine-room:{','.join(rooms)} reads queues of brokers named "
            f"{rooms[0]}@… alone, and these are of {', '.join(brokers)}."
        )

    def draw_member(self, ip: str, entropy: Entropy) -> str:
        """The name of a new member of the group, as a client id of RocketMQ's; its room first, where that counts."""
        lives_in = self.strategy.rooms if self.strategy.name == "machine-room-nearby" else ()
        room = "".join(room + ROOM_MARK for room in lives_in)
        return f"{room}{ip}{ROOM_MARK}spark-{entropy.token(8).hex()}"


def _reset(values: Mapping[str, Any]) -> str:
    """Where what the group has never read begins. `startingOffsets` can mean nothing else in a group that is shared:
    members come and go, and each goes on where the group is."""
    start = _WORDS.get(type(values.get("startingOffsets")))
    reset: str = values.get("groupOffsetReset", start or "latest")
    if start is not None and start != reset:
        raise InvalidArgument(
            f"With groupMode=shared startingOffsets={start} and groupOffsetReset={reset} contradict each other: both "
            "say where queues begin of which the group has committed nothing.",
            hint="Give one of them.",
        )
    return reset
