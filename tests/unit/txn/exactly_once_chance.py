"""What happens to a `World` when dice decide: mostly things go on, now and then they go wrong."""

from __future__ import annotations

from random import Random

from rmqspark.protocol.codes import RequestCode
from rmqspark.testing.disk_faults import ProcessDied

from .exactly_once_node import Broken, PowerLost
from .exactly_once_world import World

STEPS_OF_A_WORLD = 60
_A_FILE = 9  # messages of others
AMID = (None, RequestCode.RMQ_TXN_HALF, RequestCode.RMQ_TXN_VOTE, RequestCode.RMQ_TXN_COMPLETE)
_HOW_OFTEN = (1, 1, 1, 2)  # a completion is rarely under way, and has several steps


class Story:
    """One world from the first step to the last, the same for the same seed. `told` is what happened."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.told: list[str] = []
        self.world = world = World(files_are_small=random.random() < 0.5)
        pace = random.choice((6, 20))
        big = lambda: random.randrange(1 << 16)  # noqa: E731
        amid = lambda: random.choices(AMID, _HOW_OFTEN)[0]  # noqa: E731
        flip = lambda: random.random() < 0.5  # noqa: E731
        self._weights = {
            "flow": (random.choice((20, 60, 150)), lambda: world.flow(1 + random.randrange(pace))),
            "deliver_any": (random.choice((0, 12, 40)), lambda: world.deliver(big())),
            "lose": (self._rate(3), lambda: world.lose(big())),
            "repeat": (self._rate(3), lambda: world.repeat(big())),
            "hold_back": (self._rate(3), lambda: world.hold_back(big())),
            "arrive_late": (6, lambda: world.arrive_late(big())),
            "give_up": (self._rate(5), lambda: world.give_up(big())),
            "tick": (self._rate(6), lambda: world.tick(big(), random.choice((0, 1, 7, 70)))),
            "flush": (self._rate(4), lambda: world.flush(big())),
            "kill": (self._rate(2), lambda: world.crash(big(), power=False)),
            "lose_power": (self._rate(2), lambda: world.crash(big(), power=True, seed=random.choice((None, big())))),
            "die_within": (
                self._rate(2),
                lambda: world.crash_within(big(), random.randrange(12), random.choice((0, 1, 90, 200))),
            ),
            "die_at": (self._rate(6), lambda: world.die_at(big(), random.randrange(3), self._death())),
            "restart": (10, lambda: world.restart(big())),
            "kill_driver": (self._rate(2), lambda: world.kill_driver(big())),
            "zombie": (self._rate(3), world.start_run),
            "grow": (4, world.grow),
            "fill": (self._rate(6), lambda: world.fill(big(), random.choice((1, 3, 9)))),
            "expire": (self._rate(6), lambda: self._expire(big(), random.choice((1, 24, 80)), ticks=flip())),
            "delete_topic": (
                self._rate(6),
                lambda: world.delete_topic(big(), random.randrange(3), amid=amid(), anew=flip()),
            ),
            "make_topic": (8, lambda: world.make_topic(big())),
            "set_clock": (self._rate(2), lambda: world.set_clock(random.choice((-80, -1, 1, 80)))),
        }

    def _rate(self, weight: int) -> int:
        """Each kind of fault is absent from half of all worlds, or nothing deep would ever be reached."""
        return weight * self._random.choice((0, 0, 1, 3))

    def _expire(self, place: int, hours: int, *, ticks: bool) -> None:
        """Others have written: there are files behind those that have had their time."""
        self.world.fill(place, _A_FILE)
        self.world.expire(place, hours, ticks=ticks)

    def _death(self) -> ProcessDied:
        """Of the process or, as often, of the machine."""
        lost = PowerLost(self._random.choice((None, self._random.randrange(1 << 16))))
        return self._random.choice((ProcessDied(), lost))

    def step(self) -> None:
        world = self.world
        if not any(not driver.has_ended for driver in world.drivers):
            world.start_run()
        (kind,) = self._random.choices(list(self._weights), [weight for weight, _ in self._weights.values()])
        self.told.append(kind)
        self._weights[kind][1]()

    def run(self, steps: int = STEPS_OF_A_WORLD) -> None:
        """Raises Broken where a row is lost, doubled or out of order."""
        try:
            for _ in range(steps):
                self.step()
            self.world.make_well()
        finally:
            self.world.close()


def broken_at(seeds: range, steps: int = STEPS_OF_A_WORLD) -> int | None:
    """The first seed whose story ends badly."""
    for seed in seeds:
        try:
            Story(seed).run(steps)
        except Broken:
            return seed
    return None
